//! A payment (clause 2.5 of the specification).

use std::io::Write;

use super::database::Tpcc;
use super::load::cents;
use super::rows::{customer, district, history, warehouse};
use super::terminal::Terminal;
use super::{input, keys};
use crate::error::Result;

/// A payment: customer, place and amount.
#[derive(Clone, Copy, Debug)]
struct Payment {
    warehouse: u32,
    district: u32,
    customer_warehouse: u32,
    customer_district: u32,
    customer: u32,
    cents: i64,
}

impl Tpcc {
    /// Books a payment at a warehouse, in 15 of 100 cases by a customer of another warehouse.
    pub(super) fn payment(&self, terminal: &mut Terminal, home: u32) -> Result<()> {
        let random = &mut terminal.random;
        let district = input::district(random, &self.scale);
        let (mut customer_warehouse, mut customer_district) = (home, district);
        if random.chance(15) {
            customer_warehouse = input::other_warehouse(random, &self.scale, home);
            customer_district = input::district(random, &self.scale);
        }
        let cents = cents(random, 1_00, 5_000_00);
        let customer = self.choose_customer(terminal, customer_warehouse, customer_district)?;
        let payment = Payment {
            warehouse: home,
            district,
            customer_warehouse,
            customer_district,
            customer,
            cents,
        };
        self.book(terminal, &payment)
    }

    fn book(&self, terminal: &mut Terminal, payment: &Payment) -> Result<()> {
        let Payment { warehouse, district, cents, .. } = *payment;
        let places = &mut terminal.row;
        places.clear();
        self.warehouse.update(&keys::warehouse(warehouse), |row| {
            warehouse::YTD.add(row, cents);
            places.extend_from_slice(warehouse::NAME.get(row));
        })?;
        places.extend_from_slice(b"    ");
        self.district.update(&keys::district(warehouse, district), |row| {
            district::YTD.add(row, cents);
            places.extend_from_slice(district::NAME.get(row));
        })?;
        let key =
            keys::customer(payment.customer_warehouse, payment.customer_district, payment.customer);
        let balance = self.customer.update(&key, |row| {
            customer::BALANCE.add(row, -cents);
            customer::YTD_PAYMENT.add(row, cents);
            customer::PAYMENTS.add(row, 1);
            if customer::CREDIT.get(row) == b"BC" {
                let (note, len) = payment.note();
                customer::DATA.prepend(row, &note[..len]);
            }
            customer::BALANCE.get(row)
        })?;
        terminal.show(balance);
        self.enter_history(terminal, payment)
    }

    fn enter_history(&self, terminal: &mut Terminal, payment: &Payment) -> Result<()> {
        let mut row = [0; history::BYTES];
        history::CUSTOMER.set(&mut row, payment.customer);
        history::CUSTOMER_DISTRICT.set(&mut row, payment.customer_district);
        history::CUSTOMER_WAREHOUSE.set(&mut row, payment.customer_warehouse);
        history::DISTRICT.set(&mut row, payment.district);
        history::WAREHOUSE.set(&mut row, payment.warehouse);
        history::DATE.set(&mut row, input::now());
        history::AMOUNT.set(&mut row, payment.cents);
        history::DATA.set(&mut row, &terminal.row);
        terminal.entries += 1;
        self.history.insert(&keys::history(terminal.session, terminal.entries), &row)
    }
}

/// Maximum size of a note in bytes.
const NOTE_BYTES: usize = 72;

impl Payment {
    /// Returns the note for a customer with bad credit, and its length.
    fn note(&self) -> ([u8; NOTE_BYTES], usize) {
        let mut note = [0; NOTE_BYTES];
        let mut rest = note.as_mut_slice();
        // Five numbers of at most 10 digits and an amount of at most 7 fit.
        let written = write!(
            rest,
            "{} {} {} {} {} {}.{:02}|",
            self.customer,
            self.customer_district,
            self.customer_warehouse,
            self.district,
            self.warehouse,
            self.cents / 100,
            self.cents % 100
        );
        let len = NOTE_BYTES - rest.len();
        debug_assert!(written.is_ok(), "{self:?}");
        (note, len)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::tests::{Setup, small};

    #[test]
    fn a_payment_is_booked_everywhere() {
        let Setup { tpcc, .. } = small(2);
        let payment = Payment {
            warehouse: 1,
            district: 2,
            customer_warehouse: 2,
            customer_district: 1,
            customer: 7,
            cents: 123_45,
        };
        let customer_key = keys::customer(2, 1, 7);
        tpcc.customer.update(&customer_key, |row| customer::CREDIT.set(row, b"BC")).expect("there");
        let old = tpcc.customer.read(&customer_key, |row| customer::DATA.get(row).to_vec());
        let ytd = || {
            let warehouse = tpcc.warehouse.read(&keys::warehouse(1), |row| {
                assert!(!warehouse::NAME.get(row).is_empty());
                warehouse::YTD.get(row)
            });
            let district = tpcc.district.read(&keys::district(1, 2), |row| district::YTD.get(row));
            (warehouse.expect("there"), district.expect("there"))
        };
        let before = ytd();
        let mut terminal = tpcc.terminal();
        tpcc.book(&mut terminal, &payment).expect("booked");
        assert_eq!(ytd(), (before.0 + 123_45, before.1 + 123_45));
        let customer = tpcc.customer.read(&customer_key, |row| {
            let data = [b"7 1 2 2 1 123.45|".to_vec(), old.expect("there")].concat();
            assert_eq!(customer::DATA.get(row), &data[..data.len().min(500)]);
            (
                customer::BALANCE.get(row),
                customer::YTD_PAYMENT.get(row),
                customer::PAYMENTS.get(row),
            )
        });
        assert_eq!(customer.expect("there"), (-133_45, 133_45, 2));
        let entry = tpcc.history.read(&keys::history(terminal.session, 1), |row| {
            let data = history::DATA.get(row).to_vec();
            (history::AMOUNT.get(row), history::CUSTOMER.get(row), data)
        });
        let (cents, customer, data) = entry.expect("there");
        assert_eq!((cents, customer), (123_45, 7));
        assert!(String::from_utf8(data).expect("text").contains("    "));
    }

    #[test]
    fn the_longest_note_has_room() {
        let most = u32::MAX;
        let payment = Payment {
            warehouse: most,
            district: most,
            customer_warehouse: most,
            customer_district: most,
            customer: most,
            cents: 5_000_00,
        };
        let (note, len) = payment.note();
        assert!(note[..len].ends_with(b" 5000.00|"));
    }
}
