//! TPC-C, the order entry of a wholesale supplier (revision 5.11 of the specification).
//!
//! The nine tables are eleven trees: two of them lead from names to customers and from customers to
//! orders, as in the study of vmcache (Leis et al., SIGMOD 2023, section 5.1). Data and input are
//! the specification's; as in that study, terminals do not think, every transaction draws its home
//! warehouse, and nothing isolates transactions from each other but that each access to a row is
//! atomic.
//!
//! That is enough for consistency conditions 1 to 4 ([`Tpcc::check`]) to hold whenever no
//! transaction runs, however many threads ran them:
//!
//! - Sums are changed by adding to what the row has at that moment.
//! - A new order takes its number from the district, and is announced as new by its last insertion,
//!   so that whoever delivers it finds all of it.
//! - A delivery takes the oldest new order by removing it, and only when those before it have all
//!   been taken: otherwise an order whose entry takes longer would leave a gap.
//! - A new order that the specification wants rolled back fails before its first write: all its
//!   items are read first. Nothing is ever undone.
//!
//! Money is in cents, rates are in hundredths of a percent: sums are exact.

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

/// Warehouses that can be.
pub const WAREHOUSES_MAX: u32 = 65_535;

/// How much data there is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scale {
    /// Warehouses, at least one.
    pub warehouses: u32,
    /// Districts of a warehouse, 1 to 10.
    pub districts: u32,
    /// Customers of a district, and orders to begin with, 1 to 3,000.
    pub customers: u32,
    /// Orders of a district, of those, that are to be delivered.
    pub new_orders: u32,
    /// Items, and stock of each in every warehouse, 1 to 100,000.
    pub items: u32,
}

impl Scale {
    /// What the specification says of so many warehouses (clause 1.2.1).
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

/// How the data is made.
#[derive(Clone, Debug)]
pub struct TpccConfig {
    /// How much there is.
    pub scale: Scale,
    /// Threads that make it; the data does not depend on it.
    pub load_threads: usize,
    /// Bytes of a page of the trees.
    pub page_bytes: usize,
    /// What the random numbers begin with.
    pub seed: u64,
    /// Whether a new order looks all its items and their stock up at once before it begins, so that
    /// what is not in memory is read together and not one after the other.
    pub read_ahead: bool,
}

/// The database of a pool, and the transactions on it.
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
    /// For each district, the number of the oldest order that nobody has taken for delivery.
    undelivered: Vec<AtomicU32>,
    sessions: Sessions,
}

/// The kinds of transactions, in the order of the specification.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transaction {
    /// Enters an order: 45 %.
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

/// A thread that runs transactions.
pub struct Terminal {
    random: Random,
    /// The number of this terminal, and of the entries that it wrote into the history.
    session: u32,
    entries: u32,
    /// Room for what transactions collect.
    numbers: Vec<u32>,
    row: Vec<u8>,
}

impl Tpcc {
    /// An empty database.
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

    /// How much data there was to begin with.
    pub fn scale(&self) -> Scale {
        self.scale
    }

    /// A thread's terminal.
    pub fn terminal(&self) -> Terminal {
        let number = self.sessions.next();
        // Sessions of a run are told from those of loading by their number, too.
        let districts = self.undelivered.len() as u64;
        let session = u32::try_from(districts + Sessions::before(number)).unwrap_or(u32::MAX);
        let random = Random::new(self.seed, number);
        Terminal { random, session, entries: 0, numbers: Vec::new(), row: Vec::new() }
    }

    /// Runs a transaction of a warehouse; which one it was: a new order may have been rolled back.
    ///
    /// # Errors
    /// [`WorkloadError::Missing`] and [`WorkloadError::Damaged`]; those of the trees. A transaction
    /// that fails is half done.
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

    /// The place of a district among those of all warehouses.
    fn district_index(&self, warehouse: u32, district: u32) -> usize {
        (warehouse as usize - 1) * self.scale.districts as usize + district as usize - 1
    }
}

impl Terminal {
    /// Shows a number: nobody looks, but the work that it took has been done.
    fn show(&mut self, number: i64) {
        std::hint::black_box(number);
    }
}

impl Transaction {
    /// One of the five, as often as the specification wants them at least (clause 5.2.3).
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
