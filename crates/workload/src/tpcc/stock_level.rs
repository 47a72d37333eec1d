//! The stock level of recently sold items (clause 2.8 of the specification).

use std::ops::ControlFlow;

use super::database::Tpcc;
use super::rows::{district, order_line, stock};
use super::terminal::Terminal;
use super::{input, keys};
use crate::error::Result;

/// Number of last orders whose items are examined.
const ORDERS: u32 = 20;

impl Tpcc {
    /// Counts the items of the last orders of a district whose stock is below a threshold.
    pub(super) fn stock_level(&self, terminal: &mut Terminal, home: u32) -> Result<u32> {
        let district = input::district(&mut terminal.random, &self.scale);
        let threshold = terminal.random.between(10, 20);
        self.items_sold(&mut terminal.numbers, home, district)?;
        let items = &mut terminal.numbers;
        items.sort_unstable();
        items.dedup();
        let stocks: Vec<_> = items.iter().map(|item| keys::stock(home, *item)).collect();
        let mut low = 0;
        self.stock.read_batch(&stocks, |_, row| {
            low += u32::from(stock::QUANTITY.get(row) < threshold);
        })?;
        terminal.show(i64::from(low));
        Ok(low)
    }

    /// Collects the items of all lines of the last orders of a district.
    fn items_sold(&self, items: &mut Vec<u32>, warehouse: u32, district: u32) -> Result<()> {
        let of_district = keys::district(warehouse, district);
        let next = self.district.read(&of_district, |row| district::NEXT_ORDER.get(row))?;
        let from = keys::order(warehouse, district, next.saturating_sub(ORDERS));
        items.clear();
        self.order_line.scan(&from, &of_district, |key, row| {
            if keys::order_of(key) >= next {
                return ControlFlow::Break(());
            }
            items.push(order_line::ITEM.get(row));
            ControlFlow::Continue(())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::tests::{Setup, small};

    #[test]
    fn every_item_counts_once() {
        let Setup { tpcc, .. } = small(1);
        let mut terminal = tpcc.terminal();
        let set_all = |quantity| {
            for item in 1..=tpcc.scale().items {
                let set = |row: &mut [u8]| stock::QUANTITY.set(row, quantity);
                tpcc.stock.update(&keys::stock(1, item), set).expect("there");
            }
        };
        set_all(20);
        assert_eq!(tpcc.stock_level(&mut terminal, 1).expect("counted"), 0);
        set_all(9);
        let low = tpcc.stock_level(&mut terminal, 1).expect("counted");
        let mut sold = Vec::new();
        tpcc.items_sold(&mut sold, 1, 1).expect("read");
        assert!((100..=300).contains(&sold.len()), "20 orders of 5 to 15 lines: {}", sold.len());
        assert!(low > 20 && low <= tpcc.scale().items, "{low}");
        let lines = |number| {
            let key = keys::order(1, 1, number);
            tpcc.order.read(&key, |row| crate::tpcc::rows::order::LINES.get(row)).expect("there")
        };
        let last = tpcc.scale().customers;
        assert_eq!(sold.len(), (last - 19..=last).map(lines).sum::<u32>() as usize);
    }
}
