//! Order status: a customer's last order (clause 2.6 of the specification).

use std::ops::ControlFlow;

use super::database::Tpcc;
use super::rows::{customer, order, order_line};
use super::terminal::Terminal;
use super::{input, keys};
use crate::error::Result;

impl Tpcc {
    /// Displays the last order of a customer of a warehouse.
    pub(super) fn order_status(&self, terminal: &mut Terminal, home: u32) -> Result<()> {
        let district = input::district(&mut terminal.random, &self.scale);
        let customer = self.choose_customer(terminal, home, district)?;
        let customer_key = keys::customer(home, district, customer);
        let balance = self.customer.read(&customer_key, |row| {
            terminal.row.clear();
            for name in [customer::FIRST, customer::MIDDLE, customer::LAST] {
                terminal.row.extend_from_slice(name.get(row));
            }
            customer::BALANCE.get(row)
        })?;
        terminal.show(balance);
        let number = self.last_order(&customer_key)?;
        let key = keys::order(home, district, number);
        let (lines, entered) = self.order.read(&key, |row| {
            (order::LINES.get(row), order::ENTERED.get(row) + i64::from(order::CARRIER.get(row)))
        })?;
        terminal.show(entered);
        let shown = self.show_lines(terminal, &key)?;
        if shown == lines {
            return Ok(());
        }
        Err(self.order.damaged(&key, "it has another number of lines than it says"))
    }

    /// Returns the number of the last order of a customer: every customer has at least the loaded
    /// one.
    fn last_order(&self, customer: &keys::Customer) -> Result<u32> {
        let mut last = None;
        self.order_by_customer.scan_back(customer, |key, _| {
            last = Some(keys::customers_order(key));
            ControlFlow::Break(())
        })?;
        last.ok_or_else(|| self.order_by_customer.missing(customer))
    }

    /// Displays the lines of an order and returns their number.
    fn show_lines(&self, terminal: &mut Terminal, order: &keys::Order) -> Result<u32> {
        let mut count = 0;
        self.order_line.scan(order, order, |_, row| {
            terminal.show(i64::from(order_line::ITEM.get(row)));
            terminal.show(i64::from(order_line::SUPPLIER.get(row)));
            terminal.show(i64::from(order_line::QUANTITY.get(row)));
            terminal.show(order_line::AMOUNT.get(row));
            terminal.show(order_line::DELIVERED.get(row));
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::tests::{Setup, small};

    #[test]
    fn the_last_order_is_shown_whole_or_is_an_error() {
        let Setup { tpcc, .. } = small(1);
        let customer = keys::customer(1, 2, 9);
        let first = tpcc.last_order(&customer).expect("has one");
        tpcc.order_by_customer.insert(&keys::order_by_customer(&customer, 500), &[]).expect("new");
        assert_eq!(tpcc.last_order(&customer).expect("has two"), 500);
        let mut terminal = tpcc.terminal();
        let order = keys::order(1, 2, first);
        let lines = tpcc.order.read(&order, |row| order::LINES.get(row)).expect("there");
        assert_eq!(tpcc.show_lines(&mut terminal, &order).expect("shown"), lines);
        assert!(tpcc.order_by_customer.remove(&keys::order_by_customer(&customer, 500)).is_ok());
        for number in 1..=tpcc.scale().customers {
            let lost = keys::order_line(&keys::order(1, 1, number), 1);
            assert!(tpcc.order_line.remove(&lost).expect("removed"));
            let lost = keys::order_line(&keys::order(1, 2, number), 1);
            assert!(tpcc.order_line.remove(&lost).expect("removed"));
        }
        let error = tpcc.order_status(&mut terminal, 1).expect_err("a line is missing");
        assert!(error.to_string().contains("another number of lines"), "{error}");
    }
}
