//! The database: its size, its configuration and its trees.

use std::sync::atomic::AtomicU32;

use terrace_pool::Pool;

use super::rows;
use crate::error::{Result, WorkloadError};
use crate::sessions::Sessions;
use crate::table::Table;

/// Maximum number of warehouses.
pub const WAREHOUSES_MAX: u32 = 65_535;

/// Size of the database, in warehouses and in rows for each of them.
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

    /// Checks the limits of the specification.
    pub(super) fn check(&self) -> Result<()> {
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
    pub(super) scale: Scale,
    pub(super) seed: u64,
    pub(super) read_ahead: bool,
    pub(super) warehouse: Table,
    pub(super) district: Table,
    pub(super) customer: Table,
    pub(super) customer_by_name: Table,
    pub(super) history: Table,
    pub(super) new_order: Table,
    pub(super) order: Table,
    pub(super) order_by_customer: Table,
    pub(super) order_line: Table,
    pub(super) item: Table,
    pub(super) stock: Table,
    /// For each district, the number of the oldest order that no delivery has taken.
    pub(super) undelivered: Vec<AtomicU32>,
    pub(super) sessions: Sessions,
}

impl Tpcc {
    /// Creates an empty database.
    pub(super) fn empty(pool: &Pool, config: &TpccConfig) -> Result<Self> {
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

    /// Returns the index of a district among those of all warehouses.
    pub(super) fn district_index(&self, warehouse: u32, district: u32) -> usize {
        (warehouse as usize - 1) * self.scale.districts as usize + district as usize - 1
    }
}
