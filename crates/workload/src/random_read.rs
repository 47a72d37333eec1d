//! Point look-ups of random tuples, uniformly distributed.
//!
//! A tuple has a key of 8 bytes and a value of 120, as in the vmcache study (Leis et al., SIGMOD
//! 2023, section 5.1). Every look-up copies the value and verifies its first bytes; one in 64
//! verifies the whole value.

use terrace_pool::Pool;
use terrace_sys::size::to_usize;

use crate::driver::{Step, Workload};
use crate::error::{Result, WorkloadError};
use crate::random::Random;
use crate::sessions::Sessions;
use crate::table::Table;

/// Size of a key in bytes.
pub const KEY_BYTES: usize = 8;
/// Size of a value in bytes.
pub const VALUE_BYTES: usize = 120;
/// Maximum number of look-ups of a step.
pub const BATCH_MAX: usize = 4096;

/// Interval of full verification: one value in this many is verified as a whole.
const WHOLE_EVERY: u64 = 64;

type Key = [u8; KEY_BYTES];
type Value = [u8; VALUE_BYTES];

/// Configuration of the tuples and the look-ups.
#[derive(Clone, Debug)]
pub struct RandomReadConfig {
    /// Number of tuples, at least one.
    pub tuples: u64,
    /// Look-ups per step, 1 to [`BATCH_MAX`]: above 1, the look-ups of a step share descents of the
    /// tree.
    pub batch: usize,
    /// Page size of the tree in bytes.
    pub page_bytes: usize,
    /// Seed of the random numbers.
    pub seed: u64,
}

/// Tuples in a pool, to be looked up.
pub struct RandomRead {
    table: Table,
    config: RandomReadConfig,
    sessions: Sessions,
}

/// State of a thread: its random numbers and its buffers.
pub struct Reader {
    random: Random,
    keys: Vec<Key>,
    value: Value,
    looked_up: u64,
}

/// Returns the value of a tuple: pseudo-random bytes seeded with its number.
fn value_of(number: u64) -> Value {
    let mut value = [0; VALUE_BYTES];
    Random::new(number, 0).fill(&mut value);
    value
}

impl RandomRead {
    /// Creates and loads the tuples. `observe` is called with the number of loaded tuples once per
    /// 2^20 of them.
    ///
    /// # Errors
    /// [`WorkloadError::Config`] outside the limits of the configuration; errors of the pool.
    pub fn load(
        pool: &Pool,
        config: RandomReadConfig,
        mut observe: impl FnMut(u64),
    ) -> Result<Self> {
        if config.tuples == 0 || !(1..=BATCH_MAX).contains(&config.batch) {
            return Err(WorkloadError::Config(format!(
                "at least one tuple and batches of 1 to {BATCH_MAX} are possible, not {} tuples \
                 and batches of {}",
                config.tuples, config.batch
            )));
        }
        let tuples = (0..config.tuples).map(|number| {
            if number % (1 << 20) == 0 {
                observe(number);
            }
            (number.to_be_bytes(), value_of(number))
        });
        let table = Table::bulk_load(pool, "tuple", VALUE_BYTES, config.page_bytes, tuples)?;
        Ok(Self { table, config, sessions: Sessions::default() })
    }

    fn look_up_one(&self, reader: &mut Reader) -> Result<()> {
        let number = reader.random.below(self.config.tuples);
        let key = number.to_be_bytes();
        let value = &mut reader.value;
        self.table.read(&key, |found| value.copy_from_slice(found))?;
        self.check(&key, &reader.value, reader.looked_up)?;
        reader.looked_up += 1;
        Ok(())
    }

    fn look_up_batch(&self, reader: &mut Reader) -> Result<()> {
        for key in &mut reader.keys {
            *key = reader.random.below(self.config.tuples).to_be_bytes();
        }
        let (keys, value, looked_up) = (&reader.keys, &mut reader.value, &mut reader.looked_up);
        let mut wrong = Ok(());
        self.table.read_batch(keys, |at, found| {
            value.copy_from_slice(found);
            if wrong.is_ok() {
                wrong = self.check(&keys[at], value, *looked_up);
            }
            *looked_up += 1;
        })?;
        wrong
    }

    #[inline]
    fn check(&self, key: &Key, value: &Value, looked_up: u64) -> Result<()> {
        let number = u64::from_be_bytes(*key);
        let begins = value[..8] == Random::new(number, 0).next().to_le_bytes();
        if begins && (!looked_up.is_multiple_of(WHOLE_EVERY) || *value == value_of(number)) {
            return Ok(());
        }
        Err(self.table.damaged(key, "it is not the value of the key"))
    }
}

impl Workload for RandomRead {
    type Worker = Reader;

    fn kinds(&self) -> &'static [&'static str] {
        &["look-up"]
    }

    fn latency_every(&self) -> u32 {
        if self.config.batch == 1 { 16 } else { 1 }
    }

    fn worker(&self) -> Reader {
        Reader {
            random: Random::new(self.config.seed, self.sessions.next()),
            keys: vec![Key::default(); self.config.batch],
            value: [0; VALUE_BYTES],
            looked_up: 0,
        }
    }

    fn step(&self, reader: &mut Reader) -> Result<Step> {
        match self.config.batch {
            1 => self.look_up_one(reader)?,
            _ => self.look_up_batch(reader)?,
        }
        Ok(Step { kind: 0, operations: self.config.batch as u64 })
    }
}

impl RandomRead {
    /// Looks up every tuple and verifies its whole value.
    ///
    /// # Errors
    /// [`WorkloadError::Missing`] or [`WorkloadError::Damaged`] for a missing or damaged tuple.
    pub fn check_all(&self) -> Result<()> {
        let mut keys = Vec::with_capacity(to_usize(256));
        for first in (0..self.config.tuples).step_by(256) {
            keys.clear();
            keys.extend((first..self.config.tuples.min(first + 256)).map(u64::to_be_bytes));
            let mut wrong = Ok(());
            self.table.read_batch(&keys, |at, found| {
                if wrong.is_ok() {
                    wrong = match <&Value>::try_from(found) {
                        Ok(value) => self.check(&keys[at], value, 0),
                        Err(_) => {
                            Err(self.table.damaged(&keys[at], "its value has another length"))
                        }
                    };
                }
            })?;
            wrong?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use terrace_ledger::Ledger;
    use terrace_pool::PoolConfig;

    use super::*;

    fn tuples(batch: usize) -> RandomRead {
        let pool = Pool::new(PoolConfig::new("tuples", Ledger::new(16 << 20))).expect("opens");
        let config = RandomReadConfig { tuples: 20_000, batch, page_bytes: 4096, seed: 1 };
        RandomRead::load(&pool, config, |_| ()).expect("loaded")
    }

    #[test]
    fn every_tuple_is_found_one_by_one_and_in_batches() {
        for batch in [1, 7, 64] {
            let tuples = tuples(batch);
            tuples.check_all().expect("all there");
            let mut reader = tuples.worker();
            for _ in 0..5_000 / batch {
                let step = tuples.step(&mut reader).expect("found");
                assert_eq!(step, Step { kind: 0, operations: batch as u64 });
            }
            assert_eq!(reader.looked_up, (5_000 / batch * batch) as u64);
        }
    }

    #[test]
    fn look_ups_are_spread_evenly() {
        let tuples = tuples(1000);
        let mut reader = tuples.worker();
        let mut counts = [0_u32; 10];
        for _ in 0..100 {
            tuples.step(&mut reader).expect("found");
            for key in &reader.keys {
                counts[to_usize(u64::from_be_bytes(*key) / 2_000)] += 1;
            }
        }
        assert!(counts.iter().all(|count| (9_400..10_600).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_tuple_that_is_gone_or_changed_is_told() {
        for batch in [1, 50] {
            let tuples = tuples(batch);
            let key = 77_u64.to_be_bytes();
            tuples.table.update(&key, |value| value[119] ^= 1).expect("changed");
            let error = tuples.check_all().expect_err("changed").to_string();
            assert!(error.contains("000000000000004d of tuple is damaged"), "{error}");
            assert!(tuples.table.remove(&key).expect("removed"));
            let error = tuples.check_all().expect_err("gone").to_string();
            assert_eq!(error, "tuple has no row of key 000000000000004d");
            let mut reader = tuples.worker();
            let error = (0..1_000_000).find_map(|_| tuples.step(&mut reader).err());
            assert_eq!(error.expect("met").to_string(), "tuple has no row of key 000000000000004d");
        }
    }

    #[test]
    fn impossible_batches_are_refused() {
        let pool = Pool::new(PoolConfig::new("tuples", Ledger::new(1 << 20))).expect("opens");
        for (tuples, batch) in [(0, 1), (1, 0), (1, BATCH_MAX + 1)] {
            let config = RandomReadConfig { tuples, batch, page_bytes: 4096, seed: 1 };
            let refused = RandomRead::load(&pool, config, |_| ()).err().expect("refused");
            assert!(refused.to_string().contains("batches of 1 to 4096"), "{refused}");
        }
    }
}
