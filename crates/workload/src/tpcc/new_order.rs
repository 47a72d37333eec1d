//! A new order (clause 2.4 of the specification).

use super::database::Tpcc;
use super::input::{self, LINES_MAX, LINES_MIN};
use super::keys;
use super::rows::{customer, district, item, order, order_line, stock, warehouse};
use super::terminal::Terminal;
use super::text::is_original;
use super::transaction::Transaction;
use crate::error::Result;
use crate::random::Random;

/// An order line as entered, with the price of its item.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Line {
    item: u32,
    supplier: u32,
    quantity: u32,
    /// True if the item was found; the fields below are then valid.
    known: bool,
    price: i64,
    original: bool,
}

/// The lines of an order.
#[derive(Clone, Copy, Debug)]
struct Lines {
    lines: [Line; LINES],
    count: usize,
}

/// Values of an order line that come from the stock.
struct Supply {
    district_info: [u8; 24],
    original: bool,
}

/// Maximum number of lines of an order.
const LINES: usize = LINES_MAX as usize;
/// Item number of no existing item.
const UNUSED_ITEM: u32 = 0;

impl Tpcc {
    /// Enters an order, or returns [`Transaction::RolledBack`] if one of its items does not exist.
    pub(super) fn new_order(&self, terminal: &mut Terminal, home: u32) -> Result<Transaction> {
        let random = &mut terminal.random;
        let district = input::district(random, &self.scale);
        let customer = input::customer(random, &self.scale);
        let mut lines = self.draw_lines(random, home);
        if !self.look_items_up(&mut lines)? {
            return Ok(Transaction::RolledBack);
        }
        let warehouse_tax =
            self.warehouse.read(&keys::warehouse(home), |row| warehouse::TAX.get(row))?;
        let customer_key = keys::customer(home, district, customer);
        let discount = self.customer.read(&customer_key, |row| {
            terminal.row.clear();
            terminal.row.extend_from_slice(customer::LAST.get(row));
            terminal.row.extend_from_slice(customer::CREDIT.get(row));
            customer::DISCOUNT.get(row)
        })?;
        let (number, district_tax) =
            self.district.update(&keys::district(home, district), |row| {
                (district::NEXT_ORDER.add(row, 1), district::TAX.get(row))
            })?;
        let key = keys::order(home, district, number);
        self.enter_order(&key, customer, &lines, home)?;
        let amount = self.enter_lines(terminal, &key, &lines, home, district)?;
        let taxed = amount * i64::from(10_000 + warehouse_tax + district_tax) / 10_000;
        terminal.show(taxed * i64::from(10_000 - discount) / 10_000);
        // The order becomes visible last: first to queries by its customer, then to deliveries.
        self.order_by_customer.insert(&keys::order_by_customer(&customer_key, number), &[])?;
        self.new_order.insert(&key, &[])?;
        Ok(Transaction::NewOrder)
    }

    /// Draws the lines of an order. One order of a hundred has an unused item in its last line, and
    /// one line of a hundred has another warehouse as its supplier.
    fn draw_lines(&self, random: &mut Random, home: u32) -> Lines {
        let count = random.between(LINES_MIN, LINES_MAX) as usize;
        let mut lines = Lines { lines: [Line::default(); LINES], count };
        for line in &mut lines.lines[..count] {
            line.item = input::item(random, &self.scale);
            line.quantity = random.between(1, 10);
            line.supplier = match random.chance(1) {
                true => input::other_warehouse(random, &self.scale, home),
                false => home,
            };
        }
        if random.chance(1) {
            lines.lines[count - 1].item = UNUSED_ITEM;
        }
        lines
    }

    /// Reads the prices of the items. Returns true if all of them exist.
    fn look_items_up(&self, lines: &mut Lines) -> Result<bool> {
        let lines = &mut lines.lines[..lines.count];
        if self.read_ahead {
            self.look_ahead(lines)?;
        } else {
            for line in lines.iter_mut() {
                let found = self.item.find(&keys::item(line.item), |row| line.learn(row))?;
                line.known = found.is_some();
            }
        }
        match lines.iter().find(|line| !line.known && line.item != UNUSED_ITEM) {
            Some(line) => Err(self.item.missing(&keys::item(line.item))),
            None => Ok(lines.iter().all(|line| line.known)),
        }
    }

    /// Looks up the items in one batch, and their stock rows too, only to bring their pages into
    /// memory.
    fn look_ahead(&self, lines: &mut [Line]) -> Result<()> {
        let (mut items, mut stocks) = ([keys::item(0); LINES], [keys::stock(0, 0); LINES]);
        for ((item, stock), line) in items.iter_mut().zip(&mut stocks).zip(lines.iter()) {
            *item = keys::item(line.item);
            *stock = keys::stock(line.supplier, line.item);
        }
        self.item.find_batch(&items[..lines.len()], |at, row| {
            if let Some(row) = row {
                lines[at].learn(row);
                lines[at].known = true;
            }
        })?;
        self.stock.find_batch(&stocks[..lines.len()], |_, _| ())
    }

    fn enter_order(
        &self,
        key: &keys::Order,
        customer: u32,
        lines: &Lines,
        home: u32,
    ) -> Result<()> {
        let all_local = lines.as_slice().iter().all(|line| line.supplier == home);
        let mut row = [0; order::BYTES];
        order::CUSTOMER.set(&mut row, customer);
        order::ENTERED.set(&mut row, input::now());
        order::LINES.set(&mut row, u32::try_from(lines.count).unwrap_or(LINES_MAX));
        order::ALL_LOCAL.set(&mut row, u32::from(all_local));
        self.order.insert(key, &row)
    }

    /// Takes the items from stock and writes the order lines. Returns the sum of their amounts.
    fn enter_lines(
        &self,
        terminal: &mut Terminal,
        key: &keys::Order,
        lines: &Lines,
        home: u32,
        district: u32,
    ) -> Result<i64> {
        let mut sum = 0;
        let mut row = [0; order_line::BYTES];
        for (number, line) in (1..).zip(lines.as_slice()) {
            let supply = self.take_from_stock(line, home, district)?;
            let amount = line.price * i64::from(line.quantity);
            sum += amount;
            terminal.show(i64::from(line.original && supply.original));
            order_line::ITEM.set(&mut row, line.item);
            order_line::SUPPLIER.set(&mut row, line.supplier);
            order_line::QUANTITY.set(&mut row, line.quantity);
            order_line::AMOUNT.set(&mut row, amount);
            order_line::DISTRICT_INFO.set(&mut row, &supply.district_info);
            self.order_line.insert(&keys::order_line(key, number), &row)?;
        }
        Ok(sum)
    }

    fn take_from_stock(&self, line: &Line, home: u32, district: u32) -> Result<Supply> {
        self.stock.update(&keys::stock(line.supplier, line.item), |row| {
            let there = stock::QUANTITY.get(row);
            // Low stock is replenished by 91.
            let filled = if there >= line.quantity + 10 { there } else { there + 91 };
            stock::QUANTITY.set(row, filled.saturating_sub(line.quantity));
            stock::YTD.add(row, i64::from(line.quantity));
            stock::ORDERS.add(row, 1);
            stock::REMOTE.add(row, u32::from(line.supplier != home));
            let mut district_info = [0; 24];
            let info = stock::district_info(district).get(row);
            district_info[..info.len()].copy_from_slice(info);
            let original = line.original && is_original(stock::DATA.get(row));
            Supply { district_info, original }
        })
    }
}

impl Line {
    /// Copies the price and data flag from the row of its item.
    fn learn(&mut self, row: &[u8]) {
        self.price = item::PRICE.get(row);
        self.original = is_original(item::DATA.get(row));
    }
}

impl Lines {
    fn as_slice(&self) -> &[Line] {
        &self.lines[..self.count]
    }
}

#[cfg(test)]
mod tests {
    use std::ops::ControlFlow;

    use super::*;
    use crate::tpcc::tests::{Setup, small};

    #[test]
    fn stock_goes_down_and_is_filled_up() {
        let Setup { tpcc, .. } = small(2);
        let key = keys::stock(2, 5);
        tpcc.stock.update(&key, |row| stock::QUANTITY.set(row, 25)).expect("there");
        let line = Line { item: 5, supplier: 2, quantity: 10, ..Line::default() };
        let left = |home| {
            let supply = tpcc.take_from_stock(&line, home, 2).expect("taken");
            let figures = |row: &[u8]| {
                assert_eq!(stock::district_info(2).get(row), supply.district_info);
                let (ytd, orders) = (stock::YTD.get(row), stock::ORDERS.get(row));
                (stock::QUANTITY.get(row), ytd, orders, stock::REMOTE.get(row))
            };
            tpcc.stock.read(&key, figures).expect("there")
        };
        assert_eq!(left(2), (15, 10, 1, 0));
        assert_eq!(left(1), (96, 20, 2, 1));
    }

    #[test]
    fn an_order_of_an_unused_item_leaves_nothing() {
        for read_ahead in [false, true] {
            let Setup { mut tpcc, .. } = small(1);
            tpcc.read_ahead = read_ahead;
            enter_orders(&tpcc);
        }
    }

    fn enter_orders(tpcc: &Tpcc) {
        let before = tpcc.check().expect("consistent");
        let mut terminal = tpcc.terminal();
        let (mut entered, mut rolled_back) = (0, 0);
        for _ in 0..1_000 {
            match tpcc.new_order(&mut terminal, 1).expect("done") {
                Transaction::NewOrder => entered += 1,
                Transaction::RolledBack => rolled_back += 1,
                other => panic!("{other:?}"),
            }
        }
        assert!((1..30).contains(&rolled_back), "{rolled_back}");
        let after = tpcc.check().expect("consistent");
        assert_eq!(after.orders, before.orders + entered);
        assert_eq!(after.new_orders, before.new_orders + entered);
        let mut cents = 0;
        let see = |_: &[u8], row: &[u8]| {
            let (item, quantity) = (order_line::ITEM.get(row), order_line::QUANTITY.get(row));
            let price = tpcc.item.read(&keys::item(item), |row| item::PRICE.get(row));
            cents += price.expect("there") * i64::from(quantity) - order_line::AMOUNT.get(row);
            ControlFlow::Continue(())
        };
        let first = keys::order(1, 1, tpcc.scale().customers + 1);
        tpcc.order_line.scan(&first, &keys::district(1, 1), see).expect("scanned");
        assert_eq!(cents, 0, "every line costs what its item does");
        assert!(tpcc.item.remove(&keys::item(7)).expect("removed"));
        let error = (0..1_000).find_map(|_| tpcc.new_order(&mut terminal, 1).err());
        assert_eq!(error.expect("met").to_string(), "item has no row of key 000007");
    }

    #[test]
    fn looking_ahead_finds_the_same() {
        let Setup { mut tpcc, .. } = small(2);
        let mut random = Random::new(1, 1);
        for _ in 0..300 {
            let mut one_by_one = tpcc.draw_lines(&mut random, 1);
            let mut together = one_by_one;
            tpcc.read_ahead = false;
            let found = tpcc.look_items_up(&mut one_by_one).expect("looked up");
            tpcc.read_ahead = true;
            assert_eq!(tpcc.look_items_up(&mut together).expect("looked up"), found);
            assert_eq!(one_by_one.as_slice(), together.as_slice());
        }
    }

    #[test]
    fn one_line_of_a_hundred_comes_from_elsewhere() {
        let Setup { tpcc, .. } = small(2);
        let mut random = Random::new(1, 1);
        let (mut count, mut remote) = (0, 0);
        for _ in 0..10_000 {
            let lines = tpcc.draw_lines(&mut random, 1);
            count += lines.count;
            remote += lines.as_slice().iter().filter(|line| line.supplier == 2).count();
        }
        assert!((98_000..102_000).contains(&count), "{count}");
        assert!((900..1_100).contains(&remote), "{remote}");
    }
}
