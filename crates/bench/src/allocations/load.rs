//! Workloads of the experiment: objects on a heap, and measurement of their cost.

use std::alloc::Layout;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use terrace_heap::allocator_api2::vec::Vec as HeapVec;
use terrace_heap::{Backing, Heap, HeapConfig, Metadata};
use terrace_ledger::Ledger;
use terrace_region::{Contents, Region, RegionConfig, Source};
use terrace_store::{Blocks, Distance, EmulatedBlocks, EngineChoice, FileBlocks};
use terrace_sys::file::DirectFile;
use terrace_sys::size::{GIB, KIB, MIB, to_usize};

use super::temporary;
use crate::error::{BenchError, Result};
use crate::random::Chance;

/// Number of allocations of the largest published run.
pub(super) const PUBLISHED_OBJECTS: u64 = 10_000_000;
/// Block size of regions, as published.
pub(super) const BLOCK_BYTES: u64 = 256 * KIB;
/// Memory cap of regions, as published.
pub(super) const CAP_BYTES: u64 = 10 * MIB;
/// Maximum bytes of touched objects, so that runs can be repeated by the dozen without wearing out
/// a device.
pub(super) const TOUCHED_BYTES_MAX: u64 = 256 * MIB;
/// Time limit for the replacement of objects: with metadata in a region a step may take
/// milliseconds.
pub(super) const CHURN_SECONDS_MAX: f64 = 3.0;
/// Number of steps between two readings of the clock.
const STEPS: u64 = 16;
/// Memory cap of a region during the destruction of its heap, which is not measured.
const CAP_AT_END_BYTES: u64 = GIB;
/// Number of bytes written to each object in cases that touch objects.
const TOUCH_BYTES: usize = 8;

/// Memory that holds the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Place {
    /// A region over a file.
    Region,
    /// A region over emulated remote memory, with the latency that the study's appliance may have
    /// had.
    Emulated,
    Node,
    Dram,
}

impl Place {
    /// Returns true if the objects are in a region.
    pub(super) fn is_beyond(self) -> bool {
        matches!(self, Place::Region | Place::Emulated)
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
    pub(super) place: Place,
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
        place: Place::Region,
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
    place: Place::Node,
    bytes_min: 1,
    bytes_max: 16 * KIB,
    published: Some(0.9987),
    ..SMALL
};
const NODE_LARGE: Case = Case {
    name: "fig. 9, large",
    place: Place::Node,
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
    Case { name: "fig. 8, 1 KiB, emu", place: Place::Emulated, published: Some(1.008), ..SMALL },
    Case { name: "fig. 8, 16 KiB, emu", place: Place::Emulated, published: Some(1.002), ..LARGE },
    NODE_SMALL,
    NODE_LARGE,
    // The study measured these on a memory node only.
    Case { name: "fig. 9, small, emu", place: Place::Emulated, published: None, ..NODE_SMALL },
    Case { name: "fig. 9, large, emu", place: Place::Emulated, published: None, ..NODE_LARGE },
    Case { name: "mixed, DRAM", place: Place::Dram, ..MIXED },
    MIXED,
    Case { name: "mixed, emu", place: Place::Emulated, ..MIXED },
    Case { name: "mixed, touched", touches: true, ..MIXED },
    Case { name: "temporary, DRAM", place: Place::Dram, ..TEMPORARY },
    TEMPORARY,
    Case { name: "temporary, emu", place: Place::Emulated, ..TEMPORARY },
];

impl Case {
    /// Draws the size of the next object.
    pub(super) fn size(&self, chance: &mut Chance) -> usize {
        to_usize(self.bytes_min + chance.below(self.bytes_max - self.bytes_min + 1))
    }

    fn mean_bytes(&self) -> u64 {
        u64::midpoint(self.bytes_min, self.bytes_max)
    }

    /// Returns the maximum number of live objects, if the largest run has `largest` allocations.
    pub(super) fn objects(&self, largest: u64) -> u64 {
        let objects = (self.objects * largest / PUBLISHED_OBJECTS).max(1);
        match self.work {
            Work::Temporary => objects.min(TOUCHED_BYTES_MAX / temporary::QUERY_BYTES),
            _ if self.touches => objects.min(TOUCHED_BYTES_MAX / self.mean_bytes()),
            _ => objects,
        }
    }

    /// Returns the bytes of address space for `objects` objects: size classes are larger than the
    /// requests, and fragmented free space is not all reused.
    fn address_bytes(&self, objects: u64) -> u64 {
        let mean = self.mean_bytes();
        let bytes = match self.work {
            Work::Allocate => objects * mean / 10 * 13,
            Work::Replace => objects * mean * 2,
            Work::Temporary => temporary::ADDRESS_BYTES,
        };
        (bytes + 64 * MIB).next_multiple_of(BLOCK_BYTES)
    }

    /// Returns true if only the allocator itself can touch memory of the region.
    pub(super) fn shows_the_allocator(&self) -> bool {
        self.place.is_beyond() && !self.touches
    }
}

/// Conditions of the runs.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// Number of allocations of the largest run.
    pub(super) objects: u64,
    pub(super) node: u32,
    /// Directory of the regions' files.
    pub(super) home: PathBuf,
}

/// Measurements of a run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    /// Number of allocations, of replaced objects, or of queries.
    pub(super) operations: u64,
    pub(super) ms: f64,
    pub(super) ns_per_operation: f64,
    pub(super) metadata_bytes: u64,
    pub(super) taken_bytes: u64,
    /// Number of objects at addresses outside of the heap.
    pub(super) outside: u64,
    pub(super) below: Option<Below>,
}

/// Counters of the region of a run.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Below {
    pub(super) faults: u64,
    /// Blocks brought into memory: zero-filled, and read from the file.
    pub(super) zeroed_blocks: u64,
    pub(super) read_blocks: u64,
    pub(super) written_blocks: u64,
    pub(super) written_bytes: u64,
}

impl Below {
    /// Returns the number of blocks brought into memory.
    pub(super) fn came(&self) -> u64 {
        self.zeroed_blocks + self.read_blocks
    }

    fn of(region: &Region) -> Below {
        let stats = region.stats();
        Below {
            faults: stats.faults,
            zeroed_blocks: stats.zeroed,
            read_blocks: stats.fills,
            written_blocks: stats.write_backs,
            written_bytes: stats.written_bytes,
        }
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

/// Runs a case on a heap of its own. Runs with the same seed request the same sizes in the same
/// order.
pub(super) fn measure(case: &Case, metadata: Metadata, stage: &Stage, seed: u64) -> Result<Line> {
    let objects = case.objects(stage.objects);
    let bytes = case.address_bytes(objects);
    let region = match case.place {
        Place::Region => Some(Arc::new(region(file(stage, bytes)?, bytes)?)),
        Place::Emulated => {
            let blocks = EmulatedBlocks::over_memory(bytes, Distance::default());
            Some(Arc::new(region(Arc::new(blocks), bytes)?))
        }
        Place::Node | Place::Dram => None,
    };
    let memory = match (&region, case.place) {
        (Some(region), _) => Backing::region(Arc::clone(region)),
        (None, Place::Node) => Backing::Node { node: stage.node, bytes: to_usize(bytes) },
        (None, _) => Backing::Dram { bytes: to_usize(bytes) },
    };
    // Without thread caches every call reaches the arena and its metadata, as published.
    let config =
        HeapConfig { metadata, thread_caches: false, ..HeapConfig::new("allocations", memory) };
    let heap = Heap::new(config).map_err(refused)?;
    let chance = Chance::new(seed);
    let took = match case.work {
        Work::Allocate => fill(&heap, case, objects, chance)?,
        Work::Replace => churn(&heap, case, objects, stage.objects, chance)?,
        Work::Temporary => temporary::queries(&heap, case, objects, chance)?,
    };
    let below = region.as_deref().map(Below::of);
    let stats = heap.stats().map_err(refused)?;
    if let Some(region) = &region {
        // The destruction of the arena visits its metadata object by object.
        region.set_cap(CAP_AT_END_BYTES).map_err(refused)?;
    }
    Ok(Line {
        operations: took.operations,
        ms: took.time.as_secs_f64() * 1e3,
        ns_per_operation: took.time.as_secs_f64() * 1e9 / took.operations as f64,
        metadata_bytes: stats.metadata_bytes,
        taken_bytes: stats.taken_bytes,
        outside: took.outside,
        below,
    })
}

/// Creates a sparse file, which takes space on its device for written blocks only.
fn file(stage: &Stage, bytes: u64) -> Result<Arc<dyn Blocks>> {
    let file = DirectFile::temporary(&stage.home).map_err(refused)?;
    file.truncate(bytes).map_err(refused)?;
    Ok(Arc::new(FileBlocks::open(file, bytes, EngineChoice::Auto).map_err(refused)?))
}

fn region(blocks: Arc<dyn Blocks>, bytes: u64) -> Result<Region> {
    let source = Source { blocks, offset: 0, len: bytes, contents: Contents::Blank };
    let config = RegionConfig {
        cap_bytes: CAP_BYTES,
        block_bytes: to_usize(BLOCK_BYTES),
        ..RegionConfig::new("allocations", Ledger::new(CAP_AT_END_BYTES))
    };
    Region::new(config, source).map_err(refused)
}

/// Allocates an object; writes its first bytes if the case touches objects.
fn object<'a>(heap: &'a Heap, case: &Case, bytes: usize) -> Result<HeapVec<u8, &'a Heap>> {
    let mut object = HeapVec::new_in(heap);
    object.try_reserve_exact(bytes).map_err(refused)?;
    if case.touches {
        object.resize(bytes.min(TOUCH_BYTES), 1);
    }
    Ok(object)
}

/// Allocates objects without freeing any.
fn fill(heap: &Heap, case: &Case, objects: u64, mut chance: Chance) -> Result<Took> {
    let mut outside = 0;
    let began = Instant::now();
    for _ in 0..objects {
        let bytes = case.size(&mut chance);
        let place = if case.touches {
            object(heap, case, bytes)?.leak().as_ptr()
        } else {
            let layout = Layout::array::<u8>(bytes).map_err(refused)?;
            heap.allocate(layout).map_err(refused)?.as_ptr().cast_const()
        };
        outside += u64::from(!heap.contains(place));
    }
    Ok(Took { operations: objects, time: began.elapsed(), outside })
}

/// Replaces objects: each step frees one and allocates another.
fn churn(heap: &Heap, case: &Case, objects: u64, steps: u64, mut chance: Chance) -> Result<Took> {
    let held: Result<Vec<_>> =
        (0..objects).map(|_| object(heap, case, case.size(&mut chance))).collect();
    let mut held = held?;
    let (mut outside, mut operations) = (0, 0);
    let began = Instant::now();
    while operations < steps && began.elapsed().as_secs_f64() < CHURN_SECONDS_MAX {
        for _ in 0..STEPS {
            let slot = &mut held[to_usize(chance.below(objects))];
            *slot = HeapVec::new_in(heap);
            *slot = object(heap, case, case.size(&mut chance))?;
            outside += u64::from(!heap.contains(slot.as_ptr()));
        }
        operations += STEPS;
    }
    let time = began.elapsed();
    for object in held {
        // Not freed one by one, but with the heap.
        object.leak();
    }
    Ok(Took { operations, time, outside })
}
