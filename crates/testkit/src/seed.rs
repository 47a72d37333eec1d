//! Seeds and durations of random tests, so that a failure can be repeated and a soak test run.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use terrace_sys::split_mix;

/// A small, fast generator ([`split_mix`]). The same seed gives the same numbers in every version.
#[derive(Clone, Debug)]
pub struct Rng {
    state: u64,
}

impl Rng {
    /// Creates a generator from a seed.
    #[must_use]
    pub fn new(seed: u64) -> Rng {
        Rng { state: seed }
    }

    /// Returns the next 64 random bits.
    pub fn next_u64(&mut self) -> u64 {
        split_mix::next(&mut self.state)
    }

    /// Returns a random number below `bound`.
    ///
    /// # Panics
    /// Panics if `bound` is zero.
    pub fn below(&mut self, bound: u64) -> u64 {
        self.next_u64() % bound
    }

    /// Returns a random index below `len`.
    ///
    /// # Panics
    /// Panics if `len` is zero.
    pub fn index(&mut self, len: usize) -> usize {
        let len = u64::try_from(len).unwrap_or(u64::MAX);
        usize::try_from(self.below(len)).unwrap_or(0)
    }

    /// Returns true once in `times` calls on average.
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times.max(1)) == 0
    }

    /// Fills a slice with random bytes.
    pub fn fill(&mut self, data: &mut [u8]) {
        for chunk in data.chunks_mut(8) {
            chunk.copy_from_slice(&self.next_u64().to_le_bytes()[..chunk.len()]);
        }
    }
}

/// Returns the number of rounds of a soak test: `TERRACE_SOAK_ROUNDS`, or the default.
///
/// # Panics
/// Panics if the variable is not a number.
#[must_use]
pub fn soak_rounds(default: u64) -> u64 {
    variable("TERRACE_SOAK_ROUNDS").unwrap_or(default)
}

/// Returns the duration of a soak test: `TERRACE_SOAK_SECONDS`, or one second.
///
/// # Panics
/// Panics if the variable is not a number.
#[must_use]
pub fn soak_time() -> Duration {
    Duration::from_secs(variable("TERRACE_SOAK_SECONDS").unwrap_or(1))
}

/// Runs a random test with the seed in `TERRACE_SOAK_SEED`, or a fresh one. If the test fails,
/// prints the seed and the command that repeats the test.
///
/// # Panics
/// Panics if the test panics or the variable is not a number.
pub fn with_seed(test: impl FnOnce(u64)) {
    let seed = variable("TERRACE_SOAK_SEED").unwrap_or_else(fresh);
    let _printed_on_failure = Announcement { seed };
    test(seed);
}

fn variable(name: &str) -> Option<u64> {
    let text = std::env::var(name).ok()?;
    let number = text.parse();
    Some(number.unwrap_or_else(|_| panic!("{name} is \"{text}\"; it must be a number below 2^64")))
}

fn fresh() -> u64 {
    // Miri has no clock, and its runs must be repeatable.
    if cfg!(miri) {
        return 1;
    }
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    Rng::new(u64::from(now.subsec_nanos()) ^ now.as_secs().rotate_left(32)).next_u64()
}

struct Announcement {
    seed: u64,
}

impl Drop for Announcement {
    #[expect(clippy::print_stderr, reason = "the test harness shows it with the failure")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            let name = std::thread::current().name().unwrap_or("NAME").to_string();
            eprintln!("to run it again: TERRACE_SOAK_SEED={} cargo test {name}", self.seed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_numbers() {
        let mut first = Rng::new(1234567);
        assert_eq!(first.next_u64(), 6_457_827_717_110_365_317, "the published sequence");
        assert_eq!(first.next_u64(), 3_203_168_211_198_807_973);
        let mut data = [0u8; 13];
        first.fill(&mut data);
        assert!(data.iter().any(|byte| *byte != 0));
        let hits = (0..4000).filter(|_| first.one_in(4)).count();
        assert!((800..1200).contains(&hits), "{hits}");
    }
}
