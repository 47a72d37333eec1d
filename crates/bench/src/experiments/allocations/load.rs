//! Workloads of the experiment: objects on a heap, and measurement of their cost.

use std::alloc::Layout;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

use serde::Serialize;
use terrace_heap::allocator_api2::vec::Vec as HeapVec;
use terrace_heap::{Backing, Heap, HeapConfig, Metadata};
use terrace_ledger::Ledger;
use terrace_region::{Contents, Region, RegionConfig, Source};
use terrace_store::{Blocks, Distance, EmulatedBlocks, EngineChoice, FileBlocks};
use terrace_sys::file::DirectFile;
use terrace_sys::size::{GIB, MIB, to_usize};
use terrace_workload::random::Random;

use super::case::{BLOCK_BYTES, CHURN_SECONDS_MAX, Case, Memory, Took, Work, refused};
use super::temporary;
use crate::error::Result;

/// Memory cap of regions, as published.
pub(super) const CAP_BYTES: u64 = 10 * MIB;
/// Number of steps between two readings of the clock.
const STEPS: u64 = 16;
/// Memory cap of a region during the destruction of its heap, which is not measured.
const CAP_AT_END_BYTES: u64 = GIB;
/// Number of bytes written to each object in cases that touch objects.
const TOUCH_BYTES: usize = 8;

/// Conditions that all runs share.
#[derive(Clone, Debug)]
pub(super) struct Conditions {
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

/// Runs a case on a heap of its own. Runs with the same seed request the same sizes in the same
/// order.
pub(super) fn measure(
    case: &Case,
    metadata: Metadata,
    stage: &Conditions,
    seed: u64,
) -> Result<Line> {
    let objects = case.objects(stage.objects);
    let bytes = case.address_bytes(objects);
    let region = match case.place {
        Memory::Region => Some(Arc::new(region(file(stage, bytes)?, bytes)?)),
        Memory::Emulated => {
            let blocks = EmulatedBlocks::over_memory(bytes, Distance::default());
            Some(Arc::new(region(Arc::new(blocks), bytes)?))
        }
        Memory::Node | Memory::Dram => None,
    };
    let memory = match (&region, case.place) {
        (Some(region), _) => Backing::region(Arc::clone(region)),
        (None, Memory::Node) => Backing::Node { node: stage.node, bytes: to_usize(bytes) },
        (None, _) => Backing::Dram { bytes: to_usize(bytes) },
    };
    // Thread caches are off, as published, so that every call reaches the arena and its metadata.
    let config =
        HeapConfig { metadata, thread_caches: false, ..HeapConfig::new("allocations", memory) };
    let heap = Heap::new(config).map_err(refused)?;
    let chance = Random::new(seed, 0);
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
fn file(stage: &Conditions, bytes: u64) -> Result<Arc<dyn Blocks>> {
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
fn fill(heap: &Heap, case: &Case, objects: u64, mut chance: Random) -> Result<Took> {
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
fn churn(heap: &Heap, case: &Case, objects: u64, steps: u64, mut chance: Random) -> Result<Took> {
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
        // The objects are freed with the heap, not one by one.
        object.leak();
    }
    Ok(Took { operations, time, outside })
}
