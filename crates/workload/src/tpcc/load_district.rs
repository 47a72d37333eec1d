//! Loads the initial data of a district.

use super::database::Tpcc;
use super::input::{LINES_MAX, LINES_MIN, loaded_name};
use super::keys;
use super::load::{cents, set_address};
use super::rows::{customer, history, order, order_line};
use super::text::Phrase;
use crate::error::Result;
use crate::random::Random;

/// Load time of the data in microseconds since 1970: a constant, so that the data is reproducible.
const LOADED: i64 = 1_700_000_000_000_000;

impl Tpcc {
    /// Loads the customers of a district into both trees, with one payment each.
    pub(super) fn load_customers(
        &self,
        warehouse: u32,
        district: u32,
        random: &mut Random,
    ) -> Result<()> {
        let mut names = Vec::with_capacity(self.scale.customers as usize);
        let mut row = [0; customer::BYTES];
        for number in 1..=self.scale.customers {
            let last = Phrase::last_name(loaded_name(random, &self.scale, number));
            let first = Phrase::letters(random, 8, 16);
            let named = keys::named(warehouse, district, last.bytes());
            names.push(keys::customer_by_name(&named, first.bytes(), number));
            fill_customer(&mut row, &first, &last, random);
            self.customer.insert(&keys::customer(warehouse, district, number), &row)?;
            self.load_payment(warehouse, district, number, random)?;
        }
        names.sort_unstable();
        names.iter().try_for_each(|key| self.customer_by_name.insert(key, &[]))
    }

    fn load_payment(
        &self,
        warehouse: u32,
        district: u32,
        customer: u32,
        random: &mut Random,
    ) -> Result<()> {
        let mut row = [0; history::BYTES];
        history::CUSTOMER.set(&mut row, customer);
        for district_of in [history::CUSTOMER_DISTRICT, history::DISTRICT] {
            district_of.set(&mut row, district);
        }
        for warehouse_of in [history::CUSTOMER_WAREHOUSE, history::WAREHOUSE] {
            warehouse_of.set(&mut row, warehouse);
        }
        history::DATE.set(&mut row, LOADED);
        history::AMOUNT.set(&mut row, 10_00);
        history::DATA.set(&mut row, Phrase::letters(random, 12, 24).bytes());
        // One session per district, as if all its customers had paid at one terminal. There are
        // fewer than 2^20 districts, by the limit of warehouses.
        let terminal = u32::try_from(self.district_index(warehouse, district)).unwrap_or(u32::MAX);
        self.history.insert(&keys::history(terminal, customer), &row)
    }

    /// Loads one order for each customer of a district, the last of them not yet delivered.
    pub(super) fn load_orders(
        &self,
        warehouse: u32,
        district: u32,
        random: &mut Random,
    ) -> Result<()> {
        let count = self.scale.customers;
        let mut customers: Vec<u32> = (1..=count).collect();
        random.shuffle(&mut customers);
        for (number, customer) in (1..).zip(&customers) {
            let delivered = number <= count - self.scale.new_orders;
            let lines = random.between(LINES_MIN, LINES_MAX);
            let mut row = [0; order::BYTES];
            order::CUSTOMER.set(&mut row, *customer);
            order::ENTERED.set(&mut row, LOADED);
            order::CARRIER.set(&mut row, if delivered { random.between(1, 10) } else { 0 });
            order::LINES.set(&mut row, lines);
            order::ALL_LOCAL.set(&mut row, 1);
            let key = keys::order(warehouse, district, number);
            self.order.insert(&key, &row)?;
            for line in 1..=lines {
                let row = self.loaded_line(warehouse, delivered, random);
                self.order_line.insert(&keys::order_line(&key, line), &row)?;
            }
            if !delivered {
                self.new_order.insert(&key, &[])?;
            }
        }
        let mut orders: Vec<_> = (1..).zip(customers).map(|(order, of)| (of, order)).collect();
        orders.sort_unstable();
        orders.into_iter().try_for_each(|(customer, order)| {
            let customer = keys::customer(warehouse, district, customer);
            self.order_by_customer.insert(&keys::order_by_customer(&customer, order), &[])
        })
    }

    fn loaded_line(
        &self,
        warehouse: u32,
        delivered: bool,
        random: &mut Random,
    ) -> [u8; order_line::BYTES] {
        let mut row = [0; order_line::BYTES];
        order_line::ITEM.set(&mut row, random.between(1, self.scale.items));
        order_line::SUPPLIER.set(&mut row, warehouse);
        order_line::DELIVERED.set(&mut row, if delivered { LOADED } else { 0 });
        order_line::QUANTITY.set(&mut row, 5);
        let amount = if delivered { 0 } else { cents(random, 1, 9_999_99) };
        order_line::AMOUNT.set(&mut row, amount);
        order_line::DISTRICT_INFO.set(&mut row, Phrase::letters(random, 24, 24).bytes());
        row
    }
}

fn fill_customer(row: &mut [u8], first: &Phrase, last: &Phrase, random: &mut Random) {
    row.fill(0);
    customer::FIRST.set(row, first.bytes());
    customer::MIDDLE.set(row, b"OE");
    customer::LAST.set(row, last.bytes());
    set_address(row, customer::ADDRESS, random);
    customer::PHONE.set(row, Phrase::digits(random, 16).bytes());
    customer::SINCE.set(row, LOADED);
    customer::CREDIT.set(row, if random.chance(10) { b"BC" } else { b"GC" });
    customer::CREDIT_LIMIT.set(row, 50_000_00);
    customer::DISCOUNT.set(row, random.between(0, 50_00));
    customer::BALANCE.set(row, -10_00);
    customer::YTD_PAYMENT.set(row, 10_00);
    customer::PAYMENTS.set(row, 1);
    customer::DELIVERIES.set(row, 0);
    customer::DATA.set(row, Phrase::letters(random, 300, 500).bytes());
}
