//! Heaps that tables are moved to, and the queries that run there.

use terrace_heap::Metadata;
use terrace_sys::size::{MIB, to_usize};
use terrace_workload::random::Random;

use super::figure::Figure;

/// Best block size of the study, which its other experiments use.
pub(super) const BLOCK: &str = "256KiB";
/// Memory cap: the bytes of the data / `CAP_SHARE`, as published, and its minimum.
const CAP_SHARE: u64 = 5;
const CAP_BYTES_MIN: u64 = 16 * MIB;

/// Both locations of metadata.
pub(super) const BOTH: [Metadata; 2] = [Metadata::Separate, Metadata::Together];

/// Returns `both` in order in even rounds, and reversed in odd rounds.
pub(super) fn in_turn<T>(round: usize, both: [T; 2]) -> [T; 2] {
    let [first, second] = both;
    if round.is_multiple_of(2) { [first, second] } else { [second, first] }
}

/// Definition of a heap.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct HeapCase {
    /// Memory of the heap, in the syntax of `CREATE HEAP`.
    pub(super) memory: String,
    /// Name of the case, which distinguishes it within its figure.
    pub(super) case: String,
    /// Options in SQL.
    pub(super) options: String,
}

impl HeapCase {
    /// Returns a heap for all of the data in DRAM, as in the study: in an arena that retains freed
    /// memory.
    pub(super) fn dram(data_bytes: u64) -> HeapCase {
        let options = format!("memory = 'dram', size = '{}'", size(data_bytes));
        HeapCase { memory: "dram".into(), case: "dram".into(), options }
    }

    /// Returns the heap of [`HeapCase::dram`] as the baseline of `memory`: each kind of memory is
    /// compared with DRAM measured at the same time.
    pub(super) fn dram_beside(memory: &str, data_bytes: u64) -> HeapCase {
        HeapCase { case: beside(memory), ..HeapCase::dram(data_bytes) }
    }

    /// Returns a heap beyond DRAM whose memory cap holds all of the data.
    pub(super) fn fitting(memory: &str, data_bytes: u64) -> HeapCase {
        let cap = size(data_bytes);
        HeapCase::beyond(memory, "fitting", (data_bytes, cap), (BLOCK, "on", Metadata::Separate))
    }

    /// Returns a heap beyond DRAM whose memory cap holds a fifth of the data.
    pub(super) fn capped(memory: &str, data_bytes: u64, block: &str, retain: &str) -> HeapCase {
        let (case, cap) = (case(block, retain), cap(data_bytes));
        HeapCase::beyond(memory, &case, (data_bytes, cap), (block, retain, Metadata::Separate))
    }

    /// Returns the heap of most of the study's experiments, with either location of metadata.
    pub(super) fn published(memory: &str, data_bytes: u64, metadata: Metadata) -> HeapCase {
        let cap = cap(data_bytes);
        HeapCase::beyond(memory, metadata.as_str(), (data_bytes, cap), (BLOCK, "off", metadata))
    }

    fn beyond(
        memory: &str,
        case: &str,
        (data_bytes, cap_bytes): (u64, u64),
        (block, retain, metadata): (&str, &str, Metadata),
    ) -> HeapCase {
        let options = format!(
            "memory = '{memory}', size = '{}', dram = '{cap_bytes}', block = '{block}', retain = \
             '{retain}', metadata = '{}'",
            size(data_bytes),
            metadata.as_str()
        );
        HeapCase { memory: memory.to_owned(), case: case.to_owned(), options }
    }
}

/// Returns the name of the DRAM case that a memory is compared with.
pub(super) fn beside(memory: &str) -> String {
    format!("dram, beside {memory}")
}

/// Returns the name of a case of figure 5.
pub(super) fn case(block: &str, retain: &str) -> String {
    format!("{block}, retain {retain}")
}

/// Returns the bytes of address space of a heap for the data: an arena that retains freed memory
/// takes a fifth more than the data, and this is ample for it.
fn size(data_bytes: u64) -> u64 {
    2 * data_bytes + 256 * MIB
}

fn cap(data_bytes: u64) -> u64 {
    (data_bytes / CAP_SHARE).max(CAP_BYTES_MIN)
}

/// Order and number of the runs of the queries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Passes {
    /// No queries: the tables are only moved.
    None,
    /// All queries in each pass, in a random order; the first passes are warm-ups.
    Shuffled { warm_ups: usize, passes: usize, seed: u64 },
    /// One query after the other, each with some warm-up runs and then some measured runs.
    InTurn { warm_ups: usize, runs: usize },
}

impl Passes {
    /// Returns the sequence of runs: the number of the query, and true if its time counts.
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

/// Returns the numbers in random order, the same for the same seed (Fisher and Yates).
fn shuffled(numbers: &[u32], seed: u64) -> Vec<u32> {
    let mut numbers = numbers.to_vec();
    let mut chance = Random::new(seed, 0);
    for last in (1..numbers.len()).rev() {
        numbers.swap(last, to_usize(chance.below(last as u64 + 1)));
    }
    numbers
}

/// A measurement: one heap and the queries over it.
#[derive(Clone, Debug)]
pub(super) struct Visit {
    pub(super) figure: Figure,
    pub(super) place: HeapCase,
    pub(super) passes: Passes,
    pub(super) round: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_those_of_the_study() {
        let place = HeapCase::published("emu", 1000 * MIB, Metadata::Together);
        let expected = "memory = 'emu', size = '2365587456', dram = '209715200', block = \
                        '256KiB', retain = 'off', metadata = 'together'";
        assert_eq!((place.options.as_str(), place.case.as_str()), (expected, "together"));
        let small = HeapCase::capped("file", MIB, "4KiB", "on");
        assert!(small.options.contains("dram = '16777216', block = '4KiB', retain = 'on'"));
        let fitting = HeapCase::fitting("file", 1000 * MIB);
        assert!(fitting.options.contains("dram = '2365587456'"), "{}", fitting.options);
        assert!(!HeapCase::dram(MIB).options.contains("block"));
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
