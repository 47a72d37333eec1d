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
#[cfg(test)]
mod tests;
mod text;

use std::sync::atomic::AtomicU32;

use terrace_pool::Pool;

use crate::driver::{Step, Workload};
use crate::error::{Result, WorkloadError};
use crate::random::Random;
use crate::sessions::Sessions;
use crate::table::Table;

pub use check::Figures;
pub use load::Progress;

/// Maximum number of warehouses.
pub const WAREHOUSES_MAX: u32 = 65_535;

/// Size of the database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Number of warehouses, at least one.
    pub warehouses: u32,
    /// Districts per warehouse, 1 to 10.
    pub districts: u32,
    /// Customers per district, and initial orders per district, 1 to 3,000.
    pub customers: u32,
    /// Initial orders per district that are still undelivered.
    pub new_orders: u32,
    /// Number of items, 1 to 100,000; every warehouse has a stock row for each.
    pub items: u32,
}

impl Scale {
    /// Returns the scale that the specification prescribes for this many warehouses (clause 1.2.1).
    #[must_use]
    pub const fn specified(warehouses: u32) -> Self {
        Self { warehouses, districts: 10, customers: 3000, new_orders: 900, items: 100_000 }
    }

    fn check(&self) -> Result<()> {
        let most = Scale::specified(WAREHOUSES_MAX);
        let within = |what: &str, value: u32, low: u32, high: u32| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            let message = format!("TPC-C has {low} to {high} {what}, not {value}");
            Err(WorkloadError::Config(message))
        };
        within("warehouses", self.warehouses, 1, most.warehouses)?;
        within("districts of a warehouse", self.districts, 1, most.districts)?;
        within("customers of a district", self.customers, 1, most.customers)?;
        within("new orders of a district", self.new_orders, 0, self.customers)?;
        within("items", self.items, 1, most.items)
    }
}

/// Configuration of the database.
#[derive(Clone, Debug)]
pub struct TpccConfig {
    /// Size of the database.
    pub scale: Scale,
    /// Number of threads that load the data; the data does not depend on it.
    pub load_threads: usize,
    /// Page size of the trees in bytes.
    pub page_bytes: usize,
    /// Seed of the random numbers.
    pub seed: u64,
    /// True if a new order looks up all its items and their stock in one batch before it begins, so
    /// that pages that are not in memory are read together instead of one after the other.
    pub read_ahead: bool,
}

/// TPC-C database in a pool, with its transactions.
pub struct Tpcc {
    scale: Scale,
    seed: u64,
    read_ahead: bool,
    warehouse: Table,
    district: Table,
    customer: Table,
    customer_by_name: Table,
    history: Table,
    new_order: Table,
    order: Table,
    order_by_customer: Table,
    order_line: Table,
    item: Table,
    stock: Table,
    /// For each district, the number of the oldest order that no delivery has taken.
    undelivered: Vec<AtomicU32>,
    sessions: Sessions,
}

/// Kinds of transactions, in the order of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// Enters an order: 45 % of all transactions.
    NewOrder,
    /// A new order that fails because of an unused item number: 1 % of those.
    RolledBack,
    /// Books a payment: 43 %.
    Payment,
    /// Shows a customer's last order: 4 %.
    OrderStatus,
    /// Delivers one order of each district: 4 %.
    Delivery,
    /// Counts recently sold items whose stock is low: 4 %.
    StockLevel,
}

/// Terminal: per-thread state for running transactions.
pub struct Terminal {
    random: Random,
    /// Number of this terminal. With `entries`, the number of history rows that it has written, it
    /// forms the key of the next one.
    session: u32,
    entries: u32,
    /// Reused buffers in which transactions collect numbers and rows.
    numbers: Vec<u32>,
    row: Vec<u8>,
}

impl Tpcc {
    /// Creates an empty database.
    fn empty(pool: &Pool, config: &TpccConfig) -> Result<Self> {
        let scale = config.scale;
        let table = |name, row_bytes| Table::new(pool, name, row_bytes, config.page_bytes);
        let oldest = scale.customers - scale.new_orders + 1;
        let districts = u64::from(scale.warehouses) * u64::from(scale.districts);
        Ok(Self {
            scale,
            seed: config.seed,
            read_ahead: config.read_ahead,
            warehouse: table("warehouse", rows::warehouse::BYTES)?,
            district: table("district", rows::district::BYTES)?,
            customer: table("customer", rows::customer::BYTES)?,
            customer_by_name: table("customer-by-name", 0)?,
            history: table("history", rows::history::BYTES)?,
            new_order: table("new-order", 0)?,
            order: table("order", rows::order::BYTES)?,
            order_by_customer: table("order-by-customer", 0)?,
            order_line: table("order-line", rows::order_line::BYTES)?,
            item: table("item", rows::item::BYTES)?,
            stock: table("stock", rows::stock::BYTES)?,
            undelivered: (0..districts).map(|_| AtomicU32::new(oldest)).collect(),
            sessions: Sessions::default(),
        })
    }

    /// Returns the initial size of the database.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// Creates the terminal of one more thread.
    pub fn terminal(&self) -> Terminal {
        let number = self.sessions.next();
        // Loading uses the session numbers below `districts` in the history; those of a run follow.
        let districts = self.undelivered.len() as u64;
        let session = u32::try_from(districts + Sessions::before(number)).unwrap_or(u32::MAX);
        let random = Random::new(self.seed, number);
        Terminal { random, session, entries: 0, numbers: Vec::new(), row: Vec::new() }
    }

    /// Runs a transaction of a warehouse and returns its kind: a new order may have been rolled
    /// back.
    ///
    /// # Errors
    /// [`WorkloadError::Missing`] and [`WorkloadError::Damaged`]; errors of the trees. A
    /// transaction that fails leaves its completed writes in place.
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

    /// Returns the index of a district among those of all warehouses.
    fn district_index(&self, warehouse: u32, district: u32) -> usize {
        (warehouse as usize - 1) * self.scale.districts as usize + district as usize - 1
    }
}

impl Terminal {
    /// Displays a number: the value is discarded, but the compiler must compute it.
    fn show(&mut self, number: i64) {
        std::hint::black_box(number);
    }
}

impl Transaction {
    /// Draws one of the five kinds with the minimum frequencies of the specification (clause
    /// 5.2.3).
    fn draw(random: &mut Random) -> Self {
        match random.below(100) {
            0..45 => Transaction::NewOrder,
            45..88 => Transaction::Payment,
            88..92 => Transaction::OrderStatus,
            92..96 => Transaction::Delivery,
            _ => Transaction::StockLevel,
        }
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
