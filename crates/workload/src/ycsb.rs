//! The Yahoo! Cloud Serving Benchmark, workloads A to F (Cooper et al., SoCC 2010, table 2).
//!
//! A record has ten fields of the same length and a key of 8 bytes. A read copies the record; an
//! update writes one field in place. The contents of a field can be verified: it begins with a
//! stamp, followed by bytes derived from the key, the number of the field and the stamp. Every read
//! verifies one field.
//!
//! Keys are consecutive numbers, so a scan reads neighbouring records. Popular records are
//! scattered over the keys, see [`crate::zipf::Scatter`]; in workload D they are the most recently
//! inserted.

mod mix;
mod newest;
mod record;
#[cfg(test)]
mod tests;

use std::ops::ControlFlow;
use std::time::{Duration, Instant};

use terrace_pool::Pool;

use crate::driver::{Step, Workload};
use crate::error::{Result, WorkloadError};
use crate::random::Random;
use crate::sessions::Sessions;
use crate::table::Table;
use crate::zipf::{Scatter, Zipf};
use newest::Newest;
use record::{FIELDS, RecordLayout, STAMP_BYTES};

pub use mix::{Mix, Operation};

/// Maximum number of records of a scan.
pub const SCAN_MAX: u32 = 100;
/// Number of shifts after which the same records are popular again.
const SHIFT_PARTS: u128 = 7;
/// Maximum size of a record in bytes.
pub const RECORD_BYTES_MAX: usize = 2000;

/// Distribution of accesses over the records.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// All records are equally likely.
    Uniform,
    /// Zipf's distribution with this exponent, above 0; YCSB's is 0.99.
    Zipf(f64),
}

/// Configuration of the records and the workload.
#[derive(Clone, Debug)]
pub struct YcsbConfig {
    /// Initial number of records, at least one.
    pub records: u64,
    /// Size of a record without its key, in bytes: a multiple of 10 up to [`RECORD_BYTES_MAX`].
    pub record_bytes: usize,
    /// The workload, A to F.
    pub mix: Mix,
    /// Distribution of accesses over the records.
    pub popularity: Popularity,
    /// Time after which the popular records change, again and again. Without effect in workload D,
    /// where insertions change them.
    pub shift: Option<Duration>,
    /// Page size of the tree in bytes.
    pub page_bytes: usize,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// YCSB records in a pool, with the operations on them.
pub struct Ycsb {
    table: Table,
    config: YcsbConfig,
    layout: RecordLayout,
    scatter: Scatter,
    /// Distribution over the initial records; `None` if accesses are uniform.
    zipf: Option<Zipf>,
    newest: Newest,
    sessions: Sessions,
    began: Instant,
}

/// State of a thread: its random numbers and a buffer for a record.
pub struct Client {
    random: Random,
    record: Vec<u8>,
}

impl Ycsb {
    /// Creates and loads the records. `observe` is called with the number of loaded records once
    /// per 2^20 of them.
    ///
    /// # Errors
    /// [`WorkloadError::Config`] outside the limits of the configuration; errors of the pool.
    pub fn load(pool: &Pool, config: YcsbConfig, mut observe: impl FnMut(u64)) -> Result<Self> {
        check(&config)?;
        let layout = RecordLayout::new(config.record_bytes);
        let records = (0..config.records).map(|number| {
            if number % (1 << 20) == 0 {
                observe(number);
            }
            (number.to_be_bytes(), layout.record(number))
        });
        let table =
            Table::bulk_load(pool, "record", config.record_bytes, config.page_bytes, records)?;
        let zipf = match config.popularity {
            Popularity::Uniform => None,
            Popularity::Zipf(theta) => Some(Zipf::new(config.records, theta)),
        };
        Ok(Self {
            table,
            layout,
            scatter: Scatter::new(config.records),
            zipf,
            newest: Newest::new(config.records),
            sessions: Sessions::default(),
            began: Instant::now(),
            config,
        })
    }

    /// Returns the number of records, without those that are being inserted.
    pub fn records(&self) -> u64 {
        self.newest.count()
    }

    /// Performs one operation.
    ///
    /// # Errors
    /// [`WorkloadError::Missing`] and [`WorkloadError::Damaged`]; errors of the tree.
    pub fn operate(&self, client: &mut Client, operation: Operation) -> Result<()> {
        // An insertion needs no number, but is rare enough that a wasted draw costs little.
        let number = self.choose(&mut client.random);
        match operation {
            Operation::Insert => self.insert(),
            Operation::Read => self.read(client, number),
            Operation::Update => self.update(client, number),
            Operation::Scan => self.scan(client, number),
            Operation::ReadModifyWrite => {
                self.read(client, number)?;
                self.update(client, number)
            }
        }
    }

    /// Draws the number of an existing record.
    fn choose(&self, random: &mut Random) -> u64 {
        if self.config.mix == Mix::D {
            let count = self.newest.count();
            return count - 1 - self.rank_of(count, random);
        }
        let number = match &self.zipf {
            Some(zipf) => self.scatter.place(zipf.draw(|| random.fraction())),
            None => random.below(self.config.records),
        };
        match self.config.shift {
            Some(every) => self.shifted(number, every),
            None => number,
        }
    }

    /// Returns the record that takes the place of `number` in the current period of the shift.
    fn shifted(&self, number: u64, every: Duration) -> u64 {
        let records = u128::from(self.config.records);
        let period = self.began.elapsed().as_nanos() / every.as_nanos();
        let place = (u128::from(number) + period * records / SHIFT_PARTS) % records;
        u64::try_from(place).unwrap_or(number)
    }

    /// Draws the rank of the record to read, counted from the newest one.
    fn rank_of(&self, count: u64, random: &mut Random) -> u64 {
        match self.config.popularity {
            Popularity::Uniform => random.below(count),
            Popularity::Zipf(theta) => Zipf::new(count, theta).draw(|| random.fraction()),
        }
    }

    fn read(&self, client: &mut Client, number: u64) -> Result<()> {
        let key = number.to_be_bytes();
        let record = &mut client.record;
        self.table.read(&key, |found| record.copy_from_slice(found))?;
        let field = client.random.below(FIELDS);
        if self.layout.belongs(&client.record, number, field) {
            return Ok(());
        }
        Err(self.table.damaged(&key, "a field does not belong to the key"))
    }

    fn update(&self, client: &mut Client, number: u64) -> Result<()> {
        let field = client.random.below(FIELDS);
        let mut stamp = [0; STAMP_BYTES];
        client.random.fill(&mut stamp);
        let change = |record: &mut [u8]| self.layout.write(record, number, field, stamp);
        self.table.update(&number.to_be_bytes(), change)
    }

    fn insert(&self) -> Result<()> {
        let number = self.newest.begin();
        self.table.insert(&number.to_be_bytes(), &self.layout.record(number))?;
        self.newest.end(number);
        Ok(())
    }

    fn scan(&self, client: &mut Client, first: u64) -> Result<()> {
        let wanted = client.random.between(1, SCAN_MAX);
        let (mut left, mut last) = (wanted, first);
        let record = &mut client.record;
        self.table.scan(&first.to_be_bytes(), &[], |key, found| {
            record.copy_from_slice(found);
            last = <[u8; 8]>::try_from(key).map_or(u64::MAX, u64::from_be_bytes);
            left -= 1;
            if left == 0 { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
        })?;
        // Keys have no gaps except among records that are being inserted.
        let passed = u64::from(wanted - left);
        let known = self.config.records.saturating_sub(first).min(u64::from(wanted));
        if passed < known || (first + passed <= self.config.records && last + 1 != first + passed) {
            return Err(self.table.damaged(&first.to_be_bytes(), "a scan from it misses records"));
        }
        Ok(())
    }
}

fn check(config: &YcsbConfig) -> Result<()> {
    let wrong = |what: String| Err(WorkloadError::Config(what));
    if config.records == 0 {
        return wrong("YCSB needs at least one record".into());
    }
    let fields = usize::try_from(FIELDS).unwrap_or(usize::MAX);
    let bytes = config.record_bytes;
    let sound = bytes.is_multiple_of(fields) && bytes / fields > STAMP_BYTES;
    if !sound || bytes > RECORD_BYTES_MAX {
        return wrong(format!(
            "a record has a multiple of {fields} bytes from {} to {RECORD_BYTES_MAX}, not {bytes}",
            (STAMP_BYTES + 1) * fields
        ));
    }
    if config.shift.is_some_and(|every| every.is_zero()) {
        return wrong("what is popular cannot shift after no time".into());
    }
    match config.popularity {
        Popularity::Zipf(theta) if !(theta > 0.0 && theta.is_finite()) => {
            wrong(format!("the exponent of Zipf's distribution is above 0, not {theta}"))
        }
        _ => Ok(()),
    }
}

impl Workload for Ycsb {
    type Worker = Client;

    fn kinds(&self) -> &'static [&'static str] {
        Operation::NAMES
    }

    fn latency_every(&self) -> u32 {
        4
    }

    fn worker(&self) -> Client {
        let random = Random::new(self.config.seed, self.sessions.next());
        Client { random, record: vec![0; self.table.row_bytes()] }
    }

    fn step(&self, client: &mut Client) -> Result<Step> {
        let operation = self.config.mix.draw(&mut client.random);
        self.operate(client, operation)?;
        Ok(Step { kind: operation as usize, operations: 1 })
    }
}
