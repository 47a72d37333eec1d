//! Loads the database (clause 4.3.3 of the specification).
//!
//! The items and each warehouse are one part; threads take one part after the other. Each part has
//! its own random stream, so that the data depends on the seed alone. Within a part, the rows of a
//! table are inserted in key order.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use terrace_pool::Pool;
use terrace_sys::sync::lock;

use super::database::{Tpcc, TpccConfig};
use super::keys;
use super::rows::{self, Address};
use super::text::Phrase;
use crate::driver::THREADS_MAX;
use crate::error::{Result, WorkloadError};
use crate::random::Random;

/// Initial year-to-date payments of a district in cents.
const DISTRICT_YTD: i64 = 30_000_00;

/// Progress of loading, passed to `observe`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress {
    /// Number of loaded warehouses.
    pub warehouses: u32,
    /// Number of warehouses to load.
    pub of: u32,
}

impl Tpcc {
    /// Creates a database in spaces of the pool. `observe` is called by the loading threads.
    ///
    /// # Errors
    /// [`WorkloadError::Config`] outside the limits of the scale; errors of the pool.
    pub fn load(
        pool: &Pool,
        config: &TpccConfig,
        observe: impl Fn(Progress) + Sync,
    ) -> Result<Self> {
        config.scale.check()?;
        if !(1..=THREADS_MAX).contains(&config.load_threads) {
            return Err(WorkloadError::Config(format!(
                "1 to {THREADS_MAX} threads can load, not {}",
                config.load_threads
            )));
        }
        let tpcc = Self::empty(pool, config)?;
        let parts = Parts { next: AtomicU32::new(0), done: AtomicU32::new(0), of: &tpcc };
        let failed = AtomicBool::new(false);
        let first_error = Mutex::new(None);
        let work = || {
            let result = parts.load_all(&failed, &observe);
            if let Err(error) = result {
                failed.store(true, Ordering::Relaxed);
                let mut first = lock(&first_error);
                first.get_or_insert(error);
            }
        };
        std::thread::scope(|scope| {
            for _ in 0..config.load_threads {
                scope.spawn(work);
            }
        });
        match first_error.into_inner().unwrap_or_else(PoisonError::into_inner) {
            Some(error) => Err(error),
            None => Ok(tpcc),
        }
    }

    fn load_items(&self) -> Result<()> {
        let mut random = Random::new(self.seed, 0);
        let mut row = [0; rows::item::BYTES];
        for item in 1..=self.scale.items {
            row.fill(0);
            rows::item::IMAGE.set(&mut row, random.between(1, 10_000));
            rows::item::NAME.set(&mut row, Phrase::letters(&mut random, 14, 24).bytes());
            rows::item::PRICE.set(&mut row, cents(&mut random, 1_00, 100_00));
            rows::item::DATA.set(&mut row, Phrase::data(&mut random).bytes());
            self.item.insert(&keys::item(item), &row)?;
        }
        Ok(())
    }

    fn load_warehouse(&self, warehouse: u32) -> Result<()> {
        let mut random = Random::new(self.seed, u64::from(warehouse));
        let mut row = [0; rows::warehouse::BYTES];
        let name = Phrase::letters(&mut random, 6, 10);
        rows::warehouse::NAME.set(&mut row, name.bytes());
        set_address(&mut row, rows::warehouse::ADDRESS, &mut random);
        rows::warehouse::TAX.set(&mut row, random.between(0, 20_00));
        // 300,000.00 with the number of districts of the specification.
        let districts = i64::from(self.scale.districts);
        rows::warehouse::YTD.set(&mut row, DISTRICT_YTD * districts);
        self.warehouse.insert(&keys::warehouse(warehouse), &row)?;
        self.load_stock(warehouse, &mut random)?;
        for district in 1..=self.scale.districts {
            self.load_district_row(warehouse, district, &mut random)?;
            self.load_customers(warehouse, district, &mut random)?;
            self.load_orders(warehouse, district, &mut random)?;
        }
        Ok(())
    }

    fn load_stock(&self, warehouse: u32, random: &mut Random) -> Result<()> {
        let mut row = [0; rows::stock::BYTES];
        for item in 1..=self.scale.items {
            row.fill(0);
            rows::stock::QUANTITY.set(&mut row, random.between(10, 100));
            for district in 1..=10 {
                let info = Phrase::letters(random, 24, 24);
                rows::stock::district_info(district).set(&mut row, info.bytes());
            }
            rows::stock::DATA.set(&mut row, Phrase::data(random).bytes());
            self.stock.insert(&keys::stock(warehouse, item), &row)?;
        }
        Ok(())
    }

    fn load_district_row(&self, warehouse: u32, district: u32, random: &mut Random) -> Result<()> {
        let mut row = [0; rows::district::BYTES];
        rows::district::NAME.set(&mut row, Phrase::letters(random, 6, 10).bytes());
        set_address(&mut row, rows::district::ADDRESS, random);
        rows::district::TAX.set(&mut row, random.between(0, 20_00));
        rows::district::YTD.set(&mut row, DISTRICT_YTD);
        rows::district::NEXT_ORDER.set(&mut row, self.scale.customers + 1);
        self.district.insert(&keys::district(warehouse, district), &row)
    }
}

/// Queue of the parts to load: the items, then the warehouses.
struct Parts<'a> {
    next: AtomicU32,
    done: AtomicU32,
    of: &'a Tpcc,
}

impl Parts<'_> {
    fn load_all(&self, failed: &AtomicBool, observe: &impl Fn(Progress)) -> Result<()> {
        let of = self.of.scale.warehouses;
        while !failed.load(Ordering::Relaxed) {
            let part = self.next.fetch_add(1, Ordering::Relaxed);
            if part > of {
                break;
            }
            if part == 0 {
                self.of.load_items()?;
                continue;
            }
            self.of.load_warehouse(part)?;
            let warehouses = self.done.fetch_add(1, Ordering::Relaxed) + 1;
            observe(Progress { warehouses, of });
        }
        Ok(())
    }
}

/// Draws an amount in cents.
pub(super) fn cents(random: &mut Random, low: u32, high: u32) -> i64 {
    i64::from(random.between(low, high))
}

pub(super) fn set_address(row: &mut [u8], address: Address, random: &mut Random) {
    for street in [address.street_1, address.street_2, address.city] {
        street.set(row, Phrase::letters(random, 10, 20).bytes());
    }
    address.state.set(row, Phrase::letters(random, 2, 2).bytes());
    address.zip.set(row, Phrase::zip(random).bytes());
}
