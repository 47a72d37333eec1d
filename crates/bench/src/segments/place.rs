//! Where tables are moved to, and what is done there.

use terrace_heap::Metadata;
use terrace_sys::size::{MIB, to_usize};

use super::Figure;
use crate::chance::Chance;

/// The study's best block, which its other experiments use.
pub(super) const BLOCK: &str = "256KiB";
/// One part in so many of the data may be in DRAM, as published.
const CAP_SHARE: u64 = 5;
const CAP_BYTES_MIN: u64 = 16 * MIB;

/// Both ways to keep metadata.
pub(super) const BOTH: [Metadata; 2] = [Metadata::Separate, Metadata::Together];

/// Two that are compared, the first one first in even rounds.
pub(super) fn in_turn<T>(round: usize, both: [T; 2]) -> [T; 2] {
    let [first, second] = both;
    if round.is_multiple_of(2) { [first, second] } else { [second, first] }
}

/// A heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// What its bytes are in, as `CREATE HEAP` has it.
    pub(super) memory: String,
    /// What it differs in from others of its figure.
    pub(super) case: String,
    /// Its options in SQL.
    pub(super) options: String,
}

impl Place {
    /// All of the data in DRAM, as the study has it: in an arena that keeps what is freed.
    pub(super) fn dram(data_bytes: u64) -> Place {
        let options = format!("memory = 'dram', size = '{}'", size(data_bytes));
        Place { memory: "dram".into(), case: "dram".into(), options }
    }

    /// As [`Place::dram`], to compare a memory with: each with DRAM of its own time.
    pub(super) fn dram_beside(memory: &str, data_bytes: u64) -> Place {
        Place { case: beside(memory), ..Place::dram(data_bytes) }
    }

    /// Beyond DRAM, with room for all of the data in it.
    pub(super) fn fitting(memory: &str, data_bytes: u64) -> Place {
        let cap = size(data_bytes);
        Place::beyond(memory, "fitting", (data_bytes, cap), (BLOCK, "on", Metadata::Separate))
    }

    /// Beyond DRAM, with a fifth of the data in it.
    pub(super) fn capped(memory: &str, data_bytes: u64, block: &str, retain: &str) -> Place {
        let (case, cap) = (case(block, retain), cap(data_bytes));
        Place::beyond(memory, &case, (data_bytes, cap), (block, retain, Metadata::Separate))
    }

    /// As most of the study's experiments have it, with metadata here or there.
    pub(super) fn published(memory: &str, data_bytes: u64, metadata: Metadata) -> Place {
        let cap = cap(data_bytes);
        Place::beyond(memory, metadata.as_str(), (data_bytes, cap), (BLOCK, "off", metadata))
    }

    fn beyond(
        memory: &str,
        case: &str,
        (data_bytes, cap_bytes): (u64, u64),
        (block, retain, metadata): (&str, &str, Metadata),
    ) -> Place {
        let options = format!(
            "memory = '{memory}', size = '{}', dram = '{cap_bytes}', block = '{block}', retain = \
             '{retain}', metadata = '{}'",
            size(data_bytes),
            metadata.as_str()
        );
        Place { memory: memory.to_owned(), case: case.to_owned(), options }
    }
}

/// The case of DRAM that a memory is compared with.
pub(super) fn beside(memory: &str) -> String {
    format!("dram, beside {memory}")
}

/// The name of a case of figure 5.
pub(super) fn case(block: &str, retain: &str) -> String {
    format!("{block}, retain {retain}")
}

/// Addresses: an arena that keeps what is freed takes a fifth more than the data.
fn size(data_bytes: u64) -> u64 {
    2 * data_bytes + 256 * MIB
}

fn cap(data_bytes: u64) -> u64 {
    (data_bytes / CAP_SHARE).max(CAP_BYTES_MIN)
}

/// Which queries run, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passes {
    /// None: the tables are moved, and that is all.
    None,
    /// All of them so many times, each time in an order by chance; the first times for nothing.
    Shuffled { warm_ups: usize, passes: usize, seed: u64 },
    /// One after the other, each some times for nothing and then some times that count.
    InTurn { warm_ups: usize, runs: usize },
}

impl Passes {
    /// The runs: which query, and whether its time counts.
    pub(super) fn runs(self, queries: &[u32]) -> Vec<(u32, bool)> {
        match self {
            Passes::None => Vec::new(),
            Passes::Shuffled { warm_ups, passes, seed } => (0..warm_ups + passes)
                .flat_map(|pass| {
                    let order = shuffled(queries, seed.wrapping_mul(1009) + pass as u64);
                    order.into_iter().map(move |query| (query, pass >= warm_ups))
                })
                .collect(),
            Passes::InTurn { warm_ups, runs } => queries
                .iter()
                .flat_map(|query| (0..warm_ups + runs).map(move |run| (*query, run >= warm_ups)))
                .collect(),
        }
    }
}

/// The same numbers in another order, the same for the same seed (Fisher and Yates).
fn shuffled(numbers: &[u32], seed: u64) -> Vec<u32> {
    let mut numbers = numbers.to_vec();
    let mut chance = Chance::new(seed);
    for last in (1..numbers.len()).rev() {
        numbers.swap(last, to_usize(chance.below(last as u64 + 1)));
    }
    numbers
}

/// What is measured at once.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    pub(super) figure: Figure,
    pub(super) place: Place,
    pub(super) passes: Passes,
    pub(super) round: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_the_study() {
        let place = Place::published("emu", 1000 * MIB, Metadata::Together);
        let expected = "memory = 'emu', size = '2365587456', dram = '209715200', block = \
                        '256KiB', retain = 'off', metadata = 'together'";
        assert_eq!((place.options.as_str(), place.case.as_str()), (expected, "together"));
        let small = Place::capped("file", MIB, "4KiB", "on");
        assert!(small.options.contains("dram = '16777216', block = '4KiB', retain = 'on'"));
        let fitting = Place::fitting("file", 1000 * MIB);
        assert!(fitting.options.contains("dram = '2365587456'"), "{}", fitting.options);
        assert!(!Place::dram(MIB).options.contains("block"));
    }

    #[test]
    fn ways_take_turns() {
        assert_eq!(in_turn(0, BOTH), [Metadata::Separate, Metadata::Together]);
        assert_eq!(in_turn(1, BOTH), [Metadata::Together, Metadata::Separate]);
    }

    #[test]
    fn queries_run_as_often_as_was_said() {
        let queries: Vec<u32> = (1..=22).collect();
        let runs = Passes::InTurn { warm_ups: 2, runs: 1 }.runs(&queries);
        assert_eq!(runs[..4], [(1, false), (1, false), (1, true), (2, false)]);
        assert_eq!(runs.len(), 66);
        let shuffled = |seed| Passes::Shuffled { warm_ups: 1, passes: 1, seed }.runs(&queries);
        let (one, other) = (shuffled(1), shuffled(2));
        assert!(!one[..22].iter().any(|run| run.1) && one[22..].iter().all(|run| run.1));
        let numbers = |runs: &[(u32, bool)]| runs.iter().map(|run| run.0).collect::<Vec<_>>();
        assert_eq!(one, shuffled(1));
        assert_ne!(one, other);
        assert_ne!(numbers(&one[..22]), numbers(&one[22..]), "each pass has an order of its own");
        for pass in one.chunks(22).chain(other.chunks(22)) {
            let mut numbers = numbers(pass);
            numbers.sort_unstable();
            assert_eq!(numbers, queries);
        }
        assert!(Passes::None.runs(&queries).is_empty());
    }
}
