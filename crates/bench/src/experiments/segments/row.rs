//! Rows of the report, their groups, and lines of the table.

use std::collections::BTreeMap;

use serde::Serialize;
use terrace_heap::HeapStats;

use super::figure::Figure;
use crate::measure::mean;

/// Bytes that the tables take in their heap, as the allocator counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Footprint {
    pub(super) small_bytes: u64,
    pub(super) large_bytes: u64,
    pub(super) metadata_bytes: u64,
    /// Bytes of address space.
    pub(super) taken_bytes: u64,
}

impl Footprint {
    pub(super) fn between(before: &HeapStats, after: &HeapStats) -> Footprint {
        let more = |of: fn(&HeapStats) -> u64| of(after).saturating_sub(of(before));
        Footprint {
            small_bytes: more(|stats| stats.small_bytes),
            large_bytes: more(|stats| stats.large_bytes),
            metadata_bytes: more(|stats| stats.metadata_bytes),
            taken_bytes: more(|stats| stats.taken_bytes),
        }
    }
}

/// Measurements of a visit.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Row {
    pub(super) figure: Figure,
    pub(super) benchmark: &'static str,
    pub(super) scale: f64,
    pub(super) memory: String,
    pub(super) case: String,
    pub(super) round: usize,
    pub(super) migration_seconds: f64,
    /// Sum of the mean times of the queries.
    pub(super) run_seconds: f64,
    /// Mean time of each query over its measured runs.
    pub(super) query_seconds: BTreeMap<u32, f64>,
    #[serde(flatten)]
    pub(super) footprint: Footprint,
    /// Numbers of the queries with wrong answers.
    pub(super) wrong: Vec<u32>,
}

/// Times of the measured runs of each query.
pub(super) type QuerySeconds = BTreeMap<u32, Vec<f64>>;

impl Row {
    /// Sets the times of the row: the mean for each query, and their sum.
    pub(super) fn take(&mut self, seconds: &QuerySeconds) {
        let of_query = |(number, all): (&u32, &Vec<f64>)| Some((*number, mean(all)?));
        self.query_seconds = seconds.iter().filter_map(of_query).collect();
        self.run_seconds = self.query_seconds.values().sum();
    }
}

/// Rows of one figure over the same tables.
#[derive(Clone, Copy, Debug)]
pub(super) struct Group<'a> {
    pub(super) rows: &'a [Row],
    pub(super) figure: Figure,
    pub(super) benchmark: &'static str,
    pub(super) scale: f64,
}

impl<'a> Group<'a> {
    /// Returns the groups of a figure, in the order in which they were measured.
    pub(super) fn all(rows: &'a [Row], figure: Figure) -> Vec<Group<'a>> {
        let mut groups: Vec<Group<'a>> = Vec::new();
        for row in rows.iter().filter(|row| row.figure == figure) {
            if !groups.iter().any(|group| group.has(row)) {
                groups.push(Group { rows, figure, benchmark: row.benchmark, scale: row.scale });
            }
        }
        groups
    }

    pub(super) fn has(&self, row: &Row) -> bool {
        let same_scale = row.scale.total_cmp(&self.scale).is_eq();
        row.figure == self.figure && row.benchmark == self.benchmark && same_scale
    }

    /// Returns the memories of the heaps except for DRAM, in the order in which they were measured.
    pub(super) fn memories(&self) -> Vec<&'a str> {
        let mut memories: Vec<&str> = Vec::new();
        for row in self.rows.iter().filter(|row| self.has(row) && row.memory != "dram") {
            if !memories.contains(&row.memory.as_str()) {
                memories.push(&row.memory);
            }
        }
        memories
    }

    /// Returns the rows of a case, ordered by round.
    pub(super) fn rows(&self, memory: &str, case: &str) -> Vec<&'a Row> {
        let same = |row: &&Row| self.has(row) && row.memory == memory && row.case == case;
        let mut rows: Vec<&Row> = self.rows.iter().filter(same).collect();
        rows.sort_by_key(|row| row.round);
        rows
    }

    /// Returns a value of each row of a case, ordered by round.
    pub(super) fn of(&self, memory: &str, case: &str, what: fn(&Row) -> f64) -> Vec<f64> {
        self.rows(memory, case).into_iter().map(what).collect()
    }
}

/// Returns the ratios of pairs of values.
pub(super) fn ratios(above: &[f64], below: &[f64]) -> Vec<f64> {
    above.iter().zip(below).map(|(above, below)| above / below).collect()
}

/// A line of the table: measured and published results.
#[derive(Clone, Debug, Default)]
pub(super) struct Line {
    pub(super) case: String,
    pub(super) seconds: String,
    pub(super) found: String,
    pub(super) published: String,
}
