//! Cases of the experiment: memory that holds the objects, object sizes, and operations.

use std::time::Duration;

use serde::Serialize;
use terrace_sys::size::{KIB, MIB, to_usize};
use terrace_workload::random::Random;

use crate::error::BenchError;

/// Number of allocations of the largest published run.
pub(super) const PUBLISHED_OBJECTS: u64 = 10_000_000;
/// Block size of regions, as published.
pub(super) const BLOCK_BYTES: u64 = 256 * KIB;
/// Maximum bytes of objects in cases that touch them, which limits the writes to the device.
pub(super) const TOUCHED_BYTES_MAX: u64 = 256 * MIB;
/// Time limit for the replacement of objects: with metadata in a region a step may take
/// milliseconds.
pub(super) const CHURN_SECONDS_MAX: f64 = 3.0;
/// Number of concurrent queries. Their state is four times the memory cap of the region.
pub(super) const QUERIES: usize = 8;
/// Approximate bytes of the state of a query.
const QUERY_BYTES: u64 = 5 * MIB;
/// Bytes of address space for all queries, twice their state: freed space is not all reused.
pub(super) const ADDRESS_BYTES: u64 = 2 * (QUERIES as u64) * QUERY_BYTES;

/// Memory that holds the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Memory {
    /// A region over a file.
    Region,
    /// A region over emulated remote memory, with the latency that the study's appliance may have
    /// had.
    Emulated,
    Node,
    Dram,
}

impl Memory {
    /// Returns true if the objects are in a region.
    pub(super) fn is_beyond(self) -> bool {
        matches!(self, Memory::Region | Memory::Emulated)
    }
}

/// Operations on the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// Allocates objects; none is freed before the heap is destroyed.
    Allocate,
    /// Allocates all objects, then replaces random ones, one by one.
    Replace,
    /// Allocates the temporary state of queries; an operation is a query.
    Temporary,
}

/// A workload on a heap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) place: Memory,
    /// Range of object sizes, drawn uniformly; both bounds are equal for a single size.
    pub(super) bytes_min: u64,
    pub(super) bytes_max: u64,
    /// Number of allocations, of live objects during the replacement, or of queries, at the
    /// published size.
    pub(super) objects: u64,
    pub(super) work: Work,
    /// True if the first bytes of every object are written.
    pub(super) touches: bool,
    /// Published ratio of separate metadata over metadata beside the data.
    pub(super) published: Option<f64>,
}

/// Returns a case that allocates objects of one size on a region.
const fn sequence(name: &'static str, bytes: u64, objects: u64) -> Case {
    Case {
        name,
        place: Memory::Region,
        bytes_min: bytes,
        bytes_max: bytes,
        objects,
        work: Work::Allocate,
        touches: false,
        published: None,
    }
}

const SMALL: Case = sequence("fig. 8, 1 KiB", KIB, PUBLISHED_OBJECTS);
const LARGE: Case = sequence("fig. 8, 16 KiB", 16 * KIB, 3_000_000);
const MIXED: Case = Case {
    name: "mixed, region",
    bytes_min: 1,
    bytes_max: 16 * KIB,
    objects: 2_000_000,
    work: Work::Replace,
    ..SMALL
};

const NODE_SMALL: Case = Case {
    name: "fig. 9, small",
    place: Memory::Node,
    bytes_min: 1,
    bytes_max: 16 * KIB,
    published: Some(0.9987),
    ..SMALL
};
const NODE_LARGE: Case = Case {
    name: "fig. 9, large",
    place: Memory::Node,
    bytes_min: 16 * KIB,
    bytes_max: 256 * KIB,
    published: Some(0.9976),
    ..SMALL
};
/// Temporary state of queries: sorted runs of these sizes, beside smaller objects.
const TEMPORARY: Case = Case {
    name: "temporary, region",
    bytes_min: 16 * KIB,
    bytes_max: 256 * KIB,
    objects: 10_000,
    work: Work::Temporary,
    touches: true,
    ..SMALL
};

pub(super) const CASES: [Case; 17] = [
    Case { published: Some(1.008), ..SMALL },
    Case { published: Some(1.002), ..LARGE },
    Case { name: "1 KiB, touched", touches: true, ..SMALL },
    Case { name: "16 KiB, touched", touches: true, ..LARGE },
    Case { name: "fig. 8, 1 KiB, emu", place: Memory::Emulated, published: Some(1.008), ..SMALL },
    Case { name: "fig. 8, 16 KiB, emu", place: Memory::Emulated, published: Some(1.002), ..LARGE },
    NODE_SMALL,
    NODE_LARGE,
    // The study measured these on a memory node only.
    Case { name: "fig. 9, small, emu", place: Memory::Emulated, published: None, ..NODE_SMALL },
    Case { name: "fig. 9, large, emu", place: Memory::Emulated, published: None, ..NODE_LARGE },
    Case { name: "mixed, DRAM", place: Memory::Dram, ..MIXED },
    MIXED,
    Case { name: "mixed, emu", place: Memory::Emulated, ..MIXED },
    Case { name: "mixed, touched", touches: true, ..MIXED },
    Case { name: "temporary, DRAM", place: Memory::Dram, ..TEMPORARY },
    TEMPORARY,
    Case { name: "temporary, emu", place: Memory::Emulated, ..TEMPORARY },
];

impl Case {
    /// Draws the size of the next object.
    pub(super) fn size(&self, chance: &mut Random) -> usize {
        to_usize(self.bytes_min + chance.below(self.bytes_max - self.bytes_min + 1))
    }

    fn mean_bytes(&self) -> u64 {
        u64::midpoint(self.bytes_min, self.bytes_max)
    }

    /// Returns the maximum number of live objects, if the largest run has `largest` allocations.
    pub(super) fn objects(&self, largest: u64) -> u64 {
        let objects = (self.objects * largest / PUBLISHED_OBJECTS).max(1);
        match self.work {
            Work::Temporary => objects.min(TOUCHED_BYTES_MAX / QUERY_BYTES),
            _ if self.touches => objects.min(TOUCHED_BYTES_MAX / self.mean_bytes()),
            _ => objects,
        }
    }

    /// Returns the bytes of address space for `objects` objects: size classes are larger than the
    /// requests, and fragmented free space is not all reused.
    pub(super) fn address_bytes(&self, objects: u64) -> u64 {
        let mean = self.mean_bytes();
        let bytes = match self.work {
            Work::Allocate => objects * mean / 10 * 13,
            Work::Replace => objects * mean * 2,
            Work::Temporary => ADDRESS_BYTES,
        };
        (bytes + 64 * MIB).next_multiple_of(BLOCK_BYTES)
    }

    /// Returns true if objects are in a region and never touched: then only the allocator touches
    /// the region.
    pub(super) fn shows_the_allocator(&self) -> bool {
        self.place.is_beyond() && !self.touches
    }
}

/// Number of operations, and their total time.
#[derive(Clone, Copy, Debug)]
pub(super) struct Took {
    pub(super) operations: u64,
    pub(super) time: Duration,
    pub(super) outside: u64,
}

pub(super) fn refused(error: impl std::fmt::Display) -> BenchError {
    BenchError::Engine(error.to_string())
}
