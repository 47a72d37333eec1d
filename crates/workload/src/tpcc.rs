//! TPC-C, the order entry of a wholesale supplier (revision 5.11 of the specification).
//!
//! The nine tables are stored in eleven trees: two of them are indexes from names to customers and
//! from customers to orders, as in the vmcache study (Leis et al., SIGMOD 2023, section 5.1). Data
//! and input follow the specification; as in that study, terminals have no think time, every
//! transaction draws its home warehouse, and the only isolation between transactions is that each
//! access to a row is atomic.
//!
//! That is enough for consistency conditions 1 to 4 ([`Tpcc::check`]) to hold whenever no
//! transaction is running, regardless of the number of threads:
//!
//! - Sums are updated by adding to the current value of the row.
//! - A new order takes its number from the district, and its entry in the new-order table is its
//!   last insertion, so that the delivery that finds the entry also finds every row of the order.
//! - A delivery takes the oldest new order by removing its entry, and only if all orders before it
//!   have been taken: otherwise an order whose insertion takes longer would leave a gap.
//! - A new order that the specification requires to be rolled back fails before its first write,
//!   because all its items are read first. Nothing is ever undone.
//!
//! Money is in cents and rates are in hundredths of a percent, so sums are exact.

#![allow(clippy::inconsistent_digit_grouping, reason = "`1_00` is a dollar in cents")]

mod check;
mod customers;
mod database;
mod delivery;
mod input;
mod keys;
mod load;
mod load_district;
mod new_order;
mod order_status;
mod payment;
mod rows;
mod stock_level;
mod terminal;
#[cfg(test)]
mod tests;
mod text;
mod transaction;

use crate::driver::{Step, Workload};
use crate::error::Result;

pub use check::Figures;
pub use database::{Scale, Tpcc, TpccConfig, WAREHOUSES_MAX};
pub use load::Progress;
pub use terminal::Terminal;
pub use transaction::Transaction;

impl Tpcc {
    /// Runs a transaction of a warehouse and returns its kind: a new order may have been rolled
    /// back.
    ///
    /// # Errors
    /// [`crate::WorkloadError::Missing`] and [`crate::WorkloadError::Damaged`]; errors of the
    /// trees. A transaction that fails leaves its completed writes in place.
    pub fn transact(
        &self,
        terminal: &mut Terminal,
        transaction: Transaction,
        warehouse: u32,
    ) -> Result<Transaction> {
        match transaction {
            Transaction::NewOrder | Transaction::RolledBack => {
                return self.new_order(terminal, warehouse);
            }
            Transaction::Payment => self.payment(terminal, warehouse)?,
            Transaction::OrderStatus => self.order_status(terminal, warehouse)?,
            Transaction::Delivery => self.deliver(terminal, warehouse)?,
            Transaction::StockLevel => drop(self.stock_level(terminal, warehouse)?),
        }
        Ok(transaction)
    }
}

impl Workload for Tpcc {
    type Worker = Terminal;

    fn kinds(&self) -> &'static [&'static str] {
        &["new-order", "rolled-back", "payment", "order-status", "delivery", "stock-level"]
    }

    fn latency_every(&self) -> u32 {
        1
    }

    fn worker(&self) -> Terminal {
        self.terminal()
    }

    fn step(&self, terminal: &mut Terminal) -> Result<Step> {
        let transaction = Transaction::draw(&mut terminal.random);
        let warehouse = terminal.random.between(1, self.scale.warehouses);
        let done = self.transact(terminal, transaction, warehouse)?;
        Ok(Step { kind: done as usize, operations: 1 })
    }
}
