//! The consistency conditions (clause 3.3.2 of the specification).

use std::ops::ControlFlow;

use super::database::Tpcc;
use super::keys;
use super::rows::{district, order, warehouse};
use crate::error::{Result, WorkloadError};

/// Totals counted by the consistency check.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Number of orders of all districts.
    pub orders: u64,
    /// Number of undelivered orders.
    pub new_orders: u64,
    /// Number of lines of all orders.
    pub order_lines: u64,
    /// Year-to-date payments of all warehouses in cents.
    pub ytd_cents: i64,
}

/// Two figures that must be equal, each with its name.
type Pair = [(&'static str, i64); 2];

impl Tpcc {
    /// Checks consistency conditions 1 to 4 for every warehouse and district by a scan of their
    /// rows. No transaction may run meanwhile.
    ///
    /// # Errors
    /// [`WorkloadError::Inconsistent`] for the first condition that does not hold;
    /// [`WorkloadError::Missing`] when a warehouse or district is missing.
    pub fn check(&self) -> Result<Figures> {
        let mut figures = Figures::default();
        for warehouse in 1..=self.scale.warehouses {
            figures.ytd_cents += self.check_ytd(warehouse)?;
            for district in 1..=self.scale.districts {
                self.check_district(warehouse, district, &mut figures)?;
            }
        }
        Ok(figures)
    }

    /// Checks condition 1: the year-to-date payments of a warehouse are the sum of those of its
    /// districts. Returns them in cents.
    fn check_ytd(&self, warehouse: u32) -> Result<i64> {
        let ytd =
            self.warehouse.read(&keys::warehouse(warehouse), |row| warehouse::YTD.get(row))?;
        let mut sum = 0;
        for district in 1..=self.scale.districts {
            let key = keys::district(warehouse, district);
            sum += self.district.read(&key, |row| district::YTD.get(row))?;
        }
        let place = || format!("warehouse {warehouse}");
        equal(1, place, [("its W_YTD in cents", ytd), ("the sum of D_YTD in cents", sum)])?;
        Ok(ytd)
    }

    fn check_district(&self, warehouse: u32, district: u32, figures: &mut Figures) -> Result<()> {
        let of_district = keys::district(warehouse, district);
        let next = self.district.read(&of_district, |row| district::NEXT_ORDER.get(row))?;
        let last = i64::from(next) - 1;
        let (orders, new_orders) = (self.orders(&of_district)?, self.new_orders(&of_district)?);
        let lines = self.count_lines(&of_district)?;
        let place = || format!("district {district} of warehouse {warehouse}");
        let next = ("D_NEXT_O_ID - 1", last);
        equal(2, place, [next, ("the highest O_ID", orders.highest)])?;
        if new_orders.count > 0 {
            equal(2, place, [next, ("the highest NO_O_ID", new_orders.highest)])?;
            let span = new_orders.highest - new_orders.lowest + 1;
            let names = ("the span of NO_O_ID", "the number of new orders");
            equal(3, place, [(names.0, span), (names.1, new_orders.count)])?;
        }
        let names = ("the sum of O_OL_CNT", "the number of order lines");
        equal(4, place, [(names.0, orders.lines), (names.1, lines)])?;
        figures.orders += orders.count.unsigned_abs();
        figures.new_orders += new_orders.count.unsigned_abs();
        figures.order_lines += lines.unsigned_abs();
        Ok(())
    }

    fn orders(&self, of_district: &keys::District) -> Result<Orders> {
        let mut orders = Orders::default();
        self.order.scan(of_district, of_district, |key, row| {
            orders.see(key);
            orders.lines += i64::from(order::LINES.get(row));
            ControlFlow::Continue(())
        })?;
        Ok(orders)
    }

    fn new_orders(&self, of_district: &keys::District) -> Result<Orders> {
        let mut orders = Orders::default();
        self.new_order.scan(of_district, of_district, |key, _| {
            orders.see(key);
            ControlFlow::Continue(())
        })?;
        Ok(orders)
    }

    fn count_lines(&self, of_district: &keys::District) -> Result<i64> {
        let mut count = 0;
        self.order_line.scan(of_district, of_district, |_, _| {
            count += 1;
            ControlFlow::Continue(())
        })?;
        Ok(count)
    }
}

/// Totals of the orders, or of the new orders, of a district.
#[derive(Clone, Copy, Debug, Default)]
struct Orders {
    count: i64,
    lowest: i64,
    highest: i64,
    lines: i64,
}

impl Orders {
    /// Counts the next order in key order.
    fn see(&mut self, key: &[u8]) {
        self.highest = i64::from(keys::order_of(key));
        if self.count == 0 {
            self.lowest = self.highest;
        }
        self.count += 1;
    }
}

fn equal(condition: u8, place: impl Fn() -> String, [left, right]: Pair) -> Result<()> {
    if left.1 == right.1 {
        return Ok(());
    }
    Err(WorkloadError::Inconsistent {
        condition,
        place: place(),
        left_name: left.0,
        left: left.1,
        right_name: right.0,
        right: right.1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tpcc::rows::order_line;
    use crate::tpcc::tests::{Setup, small};

    /// Returns the error of the check after some damage to a fresh database.
    fn told(damage: impl FnOnce(&Tpcc)) -> String {
        let Setup { tpcc, .. } = small(2);
        tpcc.check().expect("consistent");
        damage(&tpcc);
        tpcc.check().expect_err("damaged").to_string()
    }

    #[test]
    fn a_wrong_sum_is_told() {
        let text = told(|tpcc| {
            let key = keys::warehouse(2);
            tpcc.warehouse.update(&key, |row| warehouse::YTD.add(row, 7)).expect("there");
        });
        let expected = "consistency condition 1 of TPC-C does not hold in warehouse 2: its W_YTD \
                        in cents is 6000007, the sum of D_YTD in cents is 6000000";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_wrong_next_order_is_told() {
        let text = told(|tpcc| {
            let key = keys::district(1, 2);
            tpcc.district.update(&key, |row| district::NEXT_ORDER.add(row, 1)).expect("there");
        });
        let expected = "condition 2 of TPC-C does not hold in district 2 of warehouse 1: \
                        D_NEXT_O_ID - 1 is 61, the highest O_ID is 60";
        assert!(text.ends_with(expected), "{text}");
        let text = told(|tpcc| {
            assert!(tpcc.new_order.remove(&keys::order(1, 1, 60)).expect("removed"));
        });
        assert!(text.ends_with("D_NEXT_O_ID - 1 is 60, the highest NO_O_ID is 59"), "{text}");
    }

    #[test]
    fn a_gap_of_new_orders_is_told() {
        let text = told(|tpcc| {
            assert!(tpcc.new_order.remove(&keys::order(2, 1, 50)).expect("removed"));
        });
        let expected = "condition 3 of TPC-C does not hold in district 1 of warehouse 2: the span \
                        of NO_O_ID is 20, the number of new orders is 19";
        assert!(text.ends_with(expected), "{text}");
    }

    #[test]
    fn a_wrong_number_of_lines_is_told() {
        let text = told(|tpcc| {
            let key = keys::order(1, 1, 7);
            tpcc.order.update(&key, |row| order::LINES.add(row, 2)).expect("there");
        });
        assert!(text.contains("condition 4 of TPC-C does not hold in district 1"), "{text}");
        let text = told(|tpcc| {
            let row = [0; order_line::BYTES];
            let key = keys::order_line(&keys::order(2, 2, 9), 16);
            tpcc.order_line.insert(&key, &row).expect("new");
        });
        assert!(text.contains("condition 4 of TPC-C does not hold in district 2"), "{text}");
    }

    #[test]
    fn a_district_that_is_gone_is_told() {
        let text = told(|tpcc| {
            assert!(tpcc.district.remove(&keys::district(2, 2)).expect("removed"));
        });
        assert_eq!(text, "district has no row of key 000202");
    }
}
