//! What a run does: objects on a heap, and what they cost.

use std::alloc::Layout;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde::Serialize;
use terrace_heap::allocator_api2::vec::Vec as HeapVec;
use terrace_heap::{Heap, HeapConfig, HeapMemory, Metadata};
use terrace_market::Ledger;
use terrace_region::{Contents, Region, RegionConfig, Source};
use terrace_sys::file::DirectFile;
use terrace_sys::size::{GIB, KIB, MIB, to_usize};
use terrace_tier::store::{Blocks, Distance, EmulatedBlocks, EngineChoice, FileBlocks};

use super::temporary;
use crate::chance::Chance;
use crate::error::{BenchError, Result};

/// Allocations of the largest published run.
pub(super) const PUBLISHED_OBJECTS: u64 = 10_000_000;
/// As published.
pub(super) const BLOCK_BYTES: u64 = 256 * KIB;
/// As published.
pub(super) const CAP_BYTES: u64 = 10 * MIB;
/// Objects of a region that are touched have so many bytes at most, so that runs are repeated by
/// the dozen without wearing out a device.
pub(super) const TOUCHED_BYTES_MAX: u64 = 256 * MIB;
/// How long objects are replaced at most: with metadata in a region a step may take milliseconds.
pub(super) const CHURN_SECONDS_MAX: f64 = 3.0;
/// Steps between two looks at the clock.
const STEPS: u64 = 16;
/// A region's cap while its heap ends, when nobody measures.
const CAP_AT_END_BYTES: u64 = GIB;
/// Bytes of an object that are written where objects are touched.
const TOUCH_BYTES: usize = 8;

/// Where objects are.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Place {
    /// A region over a file.
    Region,
    /// A region over memory as far away as the study's appliance may have been.
    Emulated,
    Node,
    Dram,
}

impl Place {
    /// Whether a region has the bytes.
    pub(super) fn is_beyond(self) -> bool {
        matches!(self, Place::Region | Place::Emulated)
    }
}

/// What is done with objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Work {
    /// They are allocated, and none is freed before the heap ends.
    Allocate,
    /// They are replaced one by one, by chance, after as many as there will be were allocated.
    Replace,
    /// They are what queries keep for a while; an operation is a query.
    Temporary,
}

/// What is done to a heap.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) place: Place,
    /// Sizes of objects, uniformly by chance; one size where both are equal.
    pub(super) bytes_min: u64,
    pub(super) bytes_max: u64,
    /// Allocations, or the objects that are held while they are replaced one by one, or queries, at
    /// the published size.
    pub(super) objects: u64,
    pub(super) work: Work,
    /// Whether the first bytes of every object are written.
    pub(super) touches: bool,
    /// Separate over together, as published.
    pub(super) published: Option<f64>,
}

/// Objects of one size, on a region.
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
/// Sorted runs of these sizes, beside smaller objects.
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
    // The study has these on a node alone.
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
    /// Bytes of the next object.
    pub(super) fn size(&self, chance: &mut Chance) -> usize {
        to_usize(self.bytes_min + chance.below(self.bytes_max - self.bytes_min + 1))
    }

    fn mean_bytes(&self) -> u64 {
        u64::midpoint(self.bytes_min, self.bytes_max)
    }

    /// Objects at most at a time, where the largest run allocates so many.
    pub(super) fn objects(&self, largest: u64) -> u64 {
        let objects = (self.objects * largest / PUBLISHED_OBJECTS).max(1);
        match self.work {
            Work::Temporary => objects.min(TOUCHED_BYTES_MAX / temporary::QUERY_BYTES),
            _ if self.touches => objects.min(TOUCHED_BYTES_MAX / self.mean_bytes()),
            _ => objects,
        }
    }

    /// Bytes of addresses that so many objects need: those of size classes are larger than what is
    /// asked for, and what is freed here and there is not all used again.
    fn address_bytes(&self, objects: u64) -> u64 {
        let mean = self.mean_bytes();
        let bytes = match self.work {
            Work::Allocate => objects * mean / 10 * 13,
            Work::Replace => objects * mean * 2,
            Work::Temporary => temporary::ADDRESS_BYTES,
        };
        (bytes + 64 * MIB).next_multiple_of(BLOCK_BYTES)
    }

    /// Whether memory of a region is touched by its allocator alone, if by anybody.
    pub(super) fn shows_the_allocator(&self) -> bool {
        self.place.is_beyond() && !self.touches
    }
}

/// Under what runs are measured.
#[derive(Clone, Debug)]
pub(super) struct Stage {
    /// Allocations of the largest run.
    pub(super) objects: u64,
    pub(super) node: u32,
    /// Where regions have their files.
    pub(super) home: PathBuf,
}

/// What a run gave.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Line {
    /// Allocations, or objects that were replaced.
    pub(super) operations: u64,
    pub(super) ms: f64,
    pub(super) ns_per_operation: f64,
    pub(super) metadata_bytes: u64,
    pub(super) taken_bytes: u64,
    /// Objects whose address is not one of the heap.
    pub(super) outside: u64,
    pub(super) below: Option<Below>,
}

/// What a region did for it.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub(super) struct Below {
    pub(super) faults: u64,
    /// Blocks that came to memory: as zeros, and from the file.
    pub(super) zeroed_blocks: u64,
    pub(super) read_blocks: u64,
    pub(super) written_blocks: u64,
    pub(super) written_bytes: u64,
}

impl Below {
    /// Blocks that came to memory.
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

/// Operations, and how long they took.
#[derive(Clone, Copy, Debug)]
pub(super) struct Took {
    pub(super) operations: u64,
    pub(super) time: Duration,
    pub(super) outside: u64,
}

pub(super) fn refused(error: impl std::fmt::Display) -> BenchError {
    BenchError::Engine(error.to_string())
}

/// Runs a case on a heap of its own. Runs of the same seed ask for the same sizes in the same
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
        (Some(region), _) => HeapMemory::region(Arc::clone(region)),
        (None, Place::Node) => HeapMemory::Node { node: stage.node, bytes: to_usize(bytes) },
        (None, _) => HeapMemory::Dram { bytes: to_usize(bytes) },
    };
    // Without caches of threads every call comes to the arena and its metadata, as published.
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
        // The arena goes through its metadata object by object when it ends.
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

/// A file that has room on its device for what is written alone.
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

/// An object, whose first bytes are written if objects are touched.
fn object<'a>(heap: &'a Heap, case: &Case, bytes: usize) -> Result<HeapVec<u8, &'a Heap>> {
    let mut object = HeapVec::new_in(heap);
    object.try_reserve_exact(bytes).map_err(refused)?;
    if case.touches {
        object.resize(bytes.min(TOUCH_BYTES), 1);
    }
    Ok(object)
}

/// Allocates objects.
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
        // All end at once, with the heap.
        object.leak();
    }
    Ok(Took { operations, time, outside })
}
