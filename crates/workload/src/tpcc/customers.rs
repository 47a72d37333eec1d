//! Selection of the customer of a transaction.

use std::ops::ControlFlow;

use super::database::Tpcc;
use super::terminal::Terminal;
use super::text::Phrase;
use super::{input, keys};
use crate::error::Result;

impl Tpcc {
    /// Selects a customer of a district: in 60 of 100 cases by last name, the middle one of those
    /// with that name, otherwise by number (clauses 2.5.1.2 and 2.6.1.2).
    pub(super) fn choose_customer(
        &self,
        terminal: &mut Terminal,
        warehouse: u32,
        district: u32,
    ) -> Result<u32> {
        if !terminal.random.chance(60) {
            return Ok(input::customer(&mut terminal.random, &self.scale));
        }
        let last = Phrase::last_name(input::last_name(&mut terminal.random, &self.scale));
        self.customer_named(&mut terminal.numbers, warehouse, district, &last)
    }

    /// Returns the customer at position n / 2, rounded up, of the n customers with a last name in
    /// the order of their first names (clause 2.5.2.2).
    fn customer_named(
        &self,
        numbers: &mut Vec<u32>,
        warehouse: u32,
        district: u32,
        last: &Phrase,
    ) -> Result<u32> {
        let named = keys::named(warehouse, district, last.bytes());
        numbers.clear();
        self.customer_by_name.scan(&named, &named, |key, _| {
            numbers.push(keys::customer_of(key));
            ControlFlow::Continue(())
        })?;
        let middle = numbers.len().div_ceil(2).checked_sub(1);
        middle.map(|middle| numbers[middle]).ok_or_else(|| self.customer_by_name.missing(&named))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::tests::{Setup, small};

    #[test]
    fn the_customer_in_the_middle_is_found() {
        let Setup { tpcc, .. } = small(1);
        let last = Phrase::last_name(3);
        let key = |first: &str, number| {
            keys::customer_by_name(&keys::named(1, 2, last.bytes()), first.as_bytes(), number)
        };
        let named = || tpcc.customer_named(&mut Vec::new(), 1, 2, &last).expect("found");
        let remove = |key: &[u8]| tpcc.customer_by_name.remove(key).expect("removed");
        let mut there = Vec::new();
        let prefix = keys::named(1, 2, last.bytes());
        let see = |key: &[u8], _: &[u8]| {
            there.push(key.to_vec());
            ControlFlow::Continue(())
        };
        tpcc.customer_by_name.scan(&prefix, &prefix, see).expect("scanned");
        assert!(!there.is_empty() && there.iter().all(|key| remove(key)));
        let error = tpcc.customer_named(&mut Vec::new(), 1, 2, &last).expect_err("no customer");
        assert!(error.to_string().starts_with("customer-by-name has no row"), "{error}");
        let insert = |first, number| tpcc.customer_by_name.insert(&key(first, number), &[]);
        insert("M", 7).expect("inserted");
        assert_eq!(named(), 7);
        insert("A", 9).expect("inserted");
        assert_eq!(named(), 9, "the first of two");
        insert("Z", 1).expect("inserted");
        assert_eq!(named(), 7, "the second of three");
        insert("B", 3).expect("inserted");
        assert_eq!(named(), 3, "the second of four");
    }
}
