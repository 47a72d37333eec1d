//! A delivery (clause 2.7 of the specification).

use std::ops::ControlFlow;
use std::sync::atomic::Ordering;

use super::database::Tpcc;
use super::rows::{customer, order, order_line};
use super::terminal::Terminal;
use super::{input, keys};
use crate::error::Result;

impl Tpcc {
    /// Delivers the oldest new order of every district of a warehouse that has one.
    pub(super) fn deliver(&self, terminal: &mut Terminal, home: u32) -> Result<()> {
        let carrier = terminal.random.between(1, 10);
        let now = input::now();
        for district in 1..=self.scale.districts {
            if let Some(number) = self.take_new_order(home, district)? {
                self.deliver_order(home, district, number, carrier, now)?;
            }
        }
        Ok(())
    }

    /// Takes the oldest new order of a district, so that no other delivery delivers it. Returns
    /// `None` while an older order is still being entered or is being taken by another thread.
    fn take_new_order(&self, warehouse: u32, district: u32) -> Result<Option<u32>> {
        let undelivered = &self.undelivered[self.district_index(warehouse, district)];
        let of_district = keys::district(warehouse, district);
        loop {
            let oldest = undelivered.load(Ordering::Acquire);
            let mut found = None;
            let from = keys::order(warehouse, district, oldest);
            self.new_order.scan(&from, &of_district, |key, _| {
                found = Some(keys::order_of(key));
                ControlFlow::Break(())
            })?;
            if found != Some(oldest) {
                return Ok(None);
            }
            if self.new_order.remove(&from)? {
                undelivered.store(oldest + 1, Ordering::Release);
                return Ok(found);
            }
        }
    }

    fn deliver_order(
        &self,
        warehouse: u32,
        district: u32,
        number: u32,
        carrier: u32,
        now: i64,
    ) -> Result<()> {
        let key = keys::order(warehouse, district, number);
        let (customer, lines) = self.order.update(&key, |row| {
            order::CARRIER.set(row, carrier);
            (order::CUSTOMER.get(row), order::LINES.get(row))
        })?;
        let mut cents = 0;
        for line in 1..=lines {
            cents += self.order_line.update(&keys::order_line(&key, line), |row| {
                order_line::DELIVERED.set(row, now);
                order_line::AMOUNT.get(row)
            })?;
        }
        self.customer.update(&keys::customer(warehouse, district, customer), |row| {
            customer::BALANCE.add(row, cents);
            customer::DELIVERIES.add(row, 1);
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::tests::{Setup, small};

    #[test]
    fn orders_are_delivered_one_after_the_other() {
        let Setup { tpcc, .. } = small(1);
        let scale = tpcc.scale();
        let first = scale.customers - scale.new_orders + 1;
        let mut terminal = tpcc.terminal();
        let before = tpcc.check().expect("consistent");
        tpcc.deliver(&mut terminal, 1).expect("delivered");
        let after = tpcc.check().expect("consistent");
        assert_eq!(after.new_orders, before.new_orders - u64::from(scale.districts));
        let key = keys::order(1, 1, first);
        let (carrier, of, lines) = tpcc
            .order
            .read(&key, |row| {
                (order::CARRIER.get(row), order::CUSTOMER.get(row), order::LINES.get(row))
            })
            .expect("there");
        assert!((1..=10).contains(&carrier));
        let mut cents = 0;
        for line in 1..=lines {
            let see = |row: &[u8]| (order_line::AMOUNT.get(row), order_line::DELIVERED.get(row));
            let line = tpcc.order_line.read(&keys::order_line(&key, line), see).expect("there");
            assert!(line.1 > 0);
            cents += line.0;
        }
        let customer = tpcc.customer.read(&keys::customer(1, 1, of), |row| {
            (customer::BALANCE.get(row), customer::DELIVERIES.get(row))
        });
        assert_eq!(customer.expect("there"), (cents - 10_00, 1));
        for number in first + 1..=scale.customers {
            assert_eq!(tpcc.take_new_order(1, 1).expect("taken"), Some(number));
        }
        assert_eq!(tpcc.take_new_order(1, 1).expect("none left"), None);
    }

    #[test]
    fn an_order_waits_for_one_that_is_being_entered() {
        let Setup { tpcc, .. } = small(1);
        while tpcc.take_new_order(1, 1).expect("taken").is_some() {}
        let next = tpcc.scale().customers + 1;
        tpcc.new_order.insert(&keys::order(1, 1, next + 1), &[]).expect("new");
        assert_eq!(tpcc.take_new_order(1, 1).expect("not its turn"), None);
        tpcc.new_order.insert(&keys::order(1, 1, next), &[]).expect("new");
        assert_eq!(tpcc.take_new_order(1, 1).expect("taken"), Some(next));
        assert_eq!(tpcc.take_new_order(1, 1).expect("taken"), Some(next + 1));
    }
}
