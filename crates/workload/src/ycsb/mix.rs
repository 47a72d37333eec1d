//! The operations and their frequencies in each workload.

use std::str::FromStr;

use crate::error::WorkloadError;
use crate::random::Random;

/// An operation of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Reads a record.
    Read,
    /// Writes one field of a record.
    Update,
    /// Adds a record.
    Insert,
    /// Reads 1 to 100 consecutive records.
    Scan,
    /// Reads a record, then writes one field of it.
    ReadModifyWrite,
}

impl Operation {
    /// Names of the operations, in the order of the variants.
    pub const NAMES: &'static [&'static str] =
        &["read", "update", "insert", "scan", "read-modify-write"];
}

/// A workload of the benchmark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mix {
    /// Update heavy: half reads, half updates.
    A,
    /// Read mostly: 5 % updates.
    B,
    /// Read only.
    C,
    /// Read latest: 5 % inserts, reads of the most recently inserted records.
    D,
    /// Short ranges: 95 % scans, 5 % inserts.
    E,
    /// Half reads, half read-modify-writes.
    F,
}

impl Mix {
    /// All workloads.
    pub const ALL: [Mix; 6] = [Mix::A, Mix::B, Mix::C, Mix::D, Mix::E, Mix::F];

    /// Returns the two operations of the workload, the usual one first, and the percentage of the
    /// second.
    #[must_use]
    pub fn operations(self) -> (Operation, Operation, u64) {
        match self {
            Mix::A => (Operation::Read, Operation::Update, 50),
            Mix::B => (Operation::Read, Operation::Update, 5),
            Mix::C => (Operation::Read, Operation::Read, 0),
            Mix::D => (Operation::Read, Operation::Insert, 5),
            Mix::E => (Operation::Scan, Operation::Insert, 5),
            Mix::F => (Operation::Read, Operation::ReadModifyWrite, 50),
        }
    }

    /// Draws an operation with the frequencies of the workload.
    #[inline]
    pub fn draw(self, random: &mut Random) -> Operation {
        let (usual, other, percent) = self.operations();
        if random.chance(percent) { other } else { usual }
    }
}

impl FromStr for Mix {
    type Err = WorkloadError;

    fn from_str(text: &str) -> Result<Mix, WorkloadError> {
        let letters = ["a", "b", "c", "d", "e", "f"];
        let at = letters.iter().position(|letter| text.eq_ignore_ascii_case(letter));
        let wrong = || format!("\"{text}\" is not a workload of YCSB; a to f are");
        at.map(|at| Mix::ALL[at]).ok_or_else(|| WorkloadError::Config(wrong()))
    }
}
