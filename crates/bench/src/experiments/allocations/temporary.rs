//! Temporary state of queries: sorted runs that were moved out of DRAM, a growing hash table, and
//! the states of its groups.
//!
//! Every new query builds its own state; then the oldest query reads all of its state and ends. So
//! objects of all sizes are allocated in bursts, and the objects of a burst are freed together.

use std::collections::VecDeque;
use std::time::Instant;

use terrace_heap::allocator_api2::vec::Vec as HeapVec;
use terrace_heap::{Heap, HeapBuffer};
use terrace_sys::size::{KIB, to_usize};
use terrace_workload::random::Random;

use super::case::{CHURN_SECONDS_MAX, Case, QUERIES, Took, refused};
use crate::error::{BenchError, Result};

/// Number of sorted runs of a query, 4.25 MiB at the usual sizes.
const RUNS: usize = 32;
const RUN_ALIGN: usize = 64;
/// Bytes read from a run at a time in the merge.
const PIECE_BYTES: usize = 4096;
/// Number of groups of a query: its table has twice as many slots of eight bytes, 512 KiB.
const GROUPS: usize = 32 * 1024;
/// Initial number of slots of a table.
const SLOTS_MIN: usize = 512;
/// Number of groups with a state of their own, of 16 to 80 bytes.
const STATES: usize = 4096;
/// State of a query.
struct Query<'a> {
    runs: Vec<HeapBuffer>,
    table: HeapVec<u64, &'a Heap>,
    states: Vec<HeapVec<u8, &'a Heap>>,
    sum: u64,
    groups: usize,
}

/// Runs `count` queries, or as many as the time limit permits.
pub(super) fn queries(heap: &Heap, case: &Case, count: u64, mut chance: Random) -> Result<Took> {
    let mut alive: VecDeque<Query<'_>> = VecDeque::new();
    let (mut outside, mut operations) = (0, 0);
    let began = Instant::now();
    while operations < count && began.elapsed().as_secs_f64() < CHURN_SECONDS_MAX {
        alive.push_back(Query::begin(heap, case, &mut chance)?);
        if alive.len() == QUERIES
            && let Some(oldest) = alive.pop_front()
        {
            outside += oldest.end(heap)?;
        }
        operations += 1;
    }
    let time = began.elapsed();
    Ok(Took { operations, time, outside })
}

impl<'a> Query<'a> {
    fn begin(heap: &'a Heap, case: &Case, chance: &mut Random) -> Result<Query<'a>> {
        let (mut runs, mut sum) = (Vec::with_capacity(RUNS), 0_u64);
        for _ in 0..RUNS {
            let run = sorted(case.size(chance) / 8, chance);
            sum = sum.wrapping_add(total(&run));
            runs.push(heap.copy(&run, RUN_ALIGN).map_err(refused)?);
        }
        let table = groups(heap, chance)?;
        let states: Result<Vec<_>> = (0..STATES)
            .map(|_| {
                let mut state = HeapVec::new_in(heap);
                let bytes = 16 + to_usize(chance.below(64));
                state.try_reserve_exact(bytes).map_err(refused)?;
                state.resize(bytes, 1);
                Ok(state)
            })
            .collect();
        Ok(Query { runs, table, states: states?, sum, groups: GROUPS })
    }

    /// Reads all of the state, a piece of each run in turn as a merge does, and frees it. Returns
    /// the number of objects at addresses outside of the heap.
    fn end(self, heap: &Heap) -> Result<u64> {
        let longest = self.runs.iter().map(|run| run.as_ref().len()).max().unwrap_or(0);
        let mut sum = 0_u64;
        for at in (0..longest).step_by(PIECE_BYTES) {
            for run in &self.runs {
                let bytes = run.as_ref();
                let end = bytes.len().min(at + PIECE_BYTES);
                sum = sum.wrapping_add(bytes.get(at..end).map_or(0, total));
            }
        }
        let groups = self.table.iter().filter(|key| **key != 0).count();
        let states = self.states.iter().filter(|state| state.first() == Some(&1)).count();
        if (sum, groups, states) != (self.sum, self.groups, STATES) {
            return Err(BenchError::Engine("what a query kept is not what it wrote".into()));
        }
        let places = self.runs.iter().map(|run| run.as_ref().as_ptr());
        let places = places.chain(self.states.iter().map(|state| state.as_ptr()));
        let places = places.chain([self.table.as_ptr().cast()]);
        Ok(places.map(|place| u64::from(!heap.contains(place))).sum())
    }
}

/// Creates a run of ascending numbers in DRAM.
fn sorted(count: usize, chance: &mut Random) -> Vec<u8> {
    let mut number = 0_u64;
    let step = 1 + chance.below(KIB);
    let mut bytes = Vec::with_capacity(8 * count);
    for _ in 0..count {
        number += step;
        bytes.extend_from_slice(&number.to_le_bytes());
    }
    bytes
}

fn total(bytes: &[u8]) -> u64 {
    let numbers = bytes.as_chunks().0.iter().map(|bytes| u64::from_le_bytes(*bytes));
    numbers.fold(0, u64::wrapping_add)
}

/// Builds a hash table of distinct keys that doubles its size when it is half full.
fn groups<'a>(heap: &'a Heap, chance: &mut Random) -> Result<HeapVec<u64, &'a Heap>> {
    let mut table = slots(heap, SLOTS_MIN)?;
    let mut count = 0;
    while count < GROUPS {
        if 2 * count == table.len() {
            let mut larger = slots(heap, 2 * table.len())?;
            for key in table.iter().filter(|key| **key != 0) {
                insert(&mut larger, *key);
            }
            table = larger;
        }
        // Zero stands for a free slot.
        count += usize::from(insert(&mut table, 1 + chance.below(u64::MAX - 1)));
    }
    Ok(table)
}

fn slots(heap: &Heap, count: usize) -> Result<HeapVec<u64, &Heap>> {
    let mut slots = HeapVec::new_in(heap);
    slots.try_reserve_exact(count).map_err(refused)?;
    slots.resize(count, 0);
    Ok(slots)
}

/// Inserts a key. Returns true if it is new.
fn insert(table: &mut [u64], key: u64) -> bool {
    let mask = table.len() - 1;
    let mut at = to_usize(key.wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) & mask;
    while table[at] != 0 && table[at] != key {
        at = (at + 1) & mask;
    }
    let is_new = table[at] == 0;
    table[at] = key;
    is_new
}

#[cfg(test)]
mod tests {
    use terrace_heap::{Backing, HeapConfig};
    use terrace_sys::size::MIB;

    use super::super::case::{ADDRESS_BYTES, CASES};
    use super::*;

    #[test]
    fn a_table_has_every_key_once() {
        let mut table = vec![0; 8];
        assert!(insert(&mut table, 5) && insert(&mut table, 13) && !insert(&mut table, 5));
        assert_eq!(table.iter().filter(|key| **key != 0).count(), 2);
        let run = sorted(100, &mut Random::new(1, 0));
        assert_eq!(run.len(), 800);
        assert_eq!(total(&run), total(&run[..400]) + total(&run[400..]));
    }

    #[test]
    fn queries_free_what_they_kept() {
        let memory = Backing::Dram { bytes: to_usize(ADDRESS_BYTES + 64 * MIB) };
        let config = HeapConfig { thread_caches: false, ..HeapConfig::new("temporary", memory) };
        let heap = Heap::new(config).expect("a heap");
        let case = CASES.iter().find(|case| case.name.contains("temporary")).expect("one");
        let before = heap.stats().expect("statistics");
        let took = queries(&heap, case, 10, Random::new(7, 0)).expect("run");
        assert_eq!((took.operations, took.outside), (10, 0));
        let after = heap.stats().expect("statistics");
        assert_eq!(before.small_bytes + before.large_bytes, after.small_bytes + after.large_bytes);
    }
}
