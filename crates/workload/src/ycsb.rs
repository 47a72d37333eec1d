//! The Yahoo! Cloud Serving Benchmark, workloads A to F (Cooper et al., SoCC 2010, table 2).
//!
//! A record is ten fields of the same length behind a key of 8 bytes. Reading copies the record;
//! updating writes one field in place. A field says what belongs into it - it begins with a stamp
//! and goes on with bytes made of the key, its number and the stamp - so every read checks one.
//!
//! Keys are numbers in order, so a scan passes neighbours. What is popular is scattered over them,
//! see [`crate::zipf::Scatter`]; in workload D it is what was inserted last.

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

/// Records that a scan passes at most.
pub const SCAN_MAX: u32 = 100;
/// Shifts after which the same records are popular again.
const SHIFT_PARTS: u128 = 7;
/// Bytes of the longest record.
pub const RECORD_BYTES_MAX: usize = 2000;

/// How popular records are.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Popularity {
    /// All the same.
    Uniform,
    /// By Zipf's distribution with this exponent, above 0; YCSB's is 0.99.
    Zipf(f64),
}

/// How the records are made and used.
#[derive(Clone, Debug)]
pub struct YcsbConfig {
    /// Records to begin with, at least one.
    pub records: u64,
    /// Bytes of a record without its key: a multiple of 10 up to [`RECORD_BYTES_MAX`].
    pub record_bytes: usize,
    /// Which workload.
    pub mix: Mix,
    /// Which records it wants.
    pub popularity: Popularity,
    /// After how long it wants others, again and again; but for workload D, whose insertions see to
    /// that.
    pub shift: Option<Duration>,
    /// Bytes of a page of the tree.
    pub page_bytes: usize,
    /// What the random numbers begin with.
    pub seed: u64,
}

/// The records of a pool and what is done with them.
pub struct Ycsb {
    table: Table,
    config: YcsbConfig,
    layout: RecordLayout,
    scatter: Scatter,
    /// Over the records that there are to begin with.
    zipf: Option<Zipf>,
    newest: Newest,
    sessions: Sessions,
    began: Instant,
}

/// What a thread keeps.
pub struct Client {
    random: Random,
    record: Vec<u8>,
}

impl Ycsb {
    /// Makes the records. `observe` sees how many there are, now and then.
    ///
    /// # Errors
    /// [`WorkloadError::Config`] outside the limits of the configuration; those of the pool.
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

    /// Records that there are, without those that are being inserted.
    pub fn records(&self) -> u64 {
        self.newest.count()
    }

    /// Does one operation.
    ///
    /// # Errors
    /// [`WorkloadError::Missing`] and [`WorkloadError::Damaged`]; those of the tree.
    pub fn operate(&self, client: &mut Client, operation: Operation) -> Result<()> {
        // An insertion needs no number, but is rare enough to draw one.
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

    /// The number of a record that there is.
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

    /// What stands for this record in the period of now.
    fn shifted(&self, number: u64, every: Duration) -> u64 {
        let records = u128::from(self.config.records);
        let period = self.began.elapsed().as_nanos() / every.as_nanos();
        let place = (u128::from(number) + period * records / SHIFT_PARTS) % records;
        u64::try_from(place).unwrap_or(number)
    }

    /// How many records are newer than the one that is wanted.
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
        // Keys have no gaps but among those that are being inserted.
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
