//! A store larger than DRAM, whose objects are in a region over a file.
//!
//! The memory cap of the region is a quarter of the objects' bytes, or the budget that the user
//! gave. A read of an object that is not in memory faults its block in, so the cost of a get
//! depends on the fault rate.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use serde::Serialize;
use terrace_ledger::Ledger;
use terrace_objects::{Backing, ObjectConfig, ObjectId, ObjectStore};
use terrace_region::{Contents, Region, RegionConfig, Source};
use terrace_store::{EngineChoice, FileBlocks};
use terrace_sys::file::DirectFile;
use terrace_sys::size::{MIB, format_bytes, to_u64, to_usize};

use super::config::Config;
use super::popularity::Popularity;
use super::store::refused;
use crate::error::{BenchError, Result};
use crate::measure::{by_case, median_of};
use crate::report::{Bars, Series};

/// Bytes of an object.
const LEN: usize = 32;
/// Block sizes: the minimum, and a common one for regions over files.
const BLOCK_BYTES: [u64; 2] = [4 << 10, 64 << 10];
/// Ratio of the objects' bytes to the memory cap.
const SHARE: u64 = 4;
/// Minimum memory cap in bytes.
const CAP_BYTES_MIN: u64 = 2 * MIB;
/// Memory of slabs in addition to the bytes of objects: a sixteenth of these, and a fixed amount.
const SLACK: u64 = 16;
const SLABS_BYTES: u64 = 8 * MIB;
/// Number of gets between two checks of the stop flag.
const STEP: usize = 16;

/// Measurements of one run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Far {
    block_bytes: u64,
    cap_bytes: u64,
    popularity: Popularity,
    threads: usize,
    /// Thousands of gets per second of elapsed time.
    per_second_k: f64,
    /// Blocks read from the device, per get and per second.
    reads_of_a_get: f64,
    reads_per_second_k: f64,
    read_mib_per_second: f64,
}

impl Far {
    pub(super) fn cells(&self) -> [String; 5] {
        let Self { per_second_k, reads_of_a_get, reads_per_second_k, .. } = self;
        [
            String::new(),
            format!(
                "get of {LEN} B, {} in memory, blocks of {}, {}",
                format_bytes(self.cap_bytes),
                format_bytes(self.block_bytes),
                self.popularity.name()
            ),
            self.threads.to_string(),
            format!(
                "{per_second_k:.1} k/s; {reads_of_a_get:.3} reads a get: {reads_per_second_k:.1} \
                 k/s, {:.0} MiB/s",
                self.read_mib_per_second
            ),
            String::new(),
        ]
    }
}

/// Returns the default memory cap in bytes.
pub(super) fn cap_bytes(objects: u64) -> u64 {
    (objects * to_u64(LEN) / SHARE).max(CAP_BYTES_MIN)
}

pub(super) fn measure(
    config: &Config,
    cap_bytes: u64,
    home: &Path,
    observe: &mut dyn FnMut(&str),
) -> Result<Vec<Far>> {
    let mut found = Vec::new();
    for block_bytes in BLOCK_BYTES {
        observe(&format!("writing objects, blocks of {}", format_bytes(block_bytes)));
        let (store, region) = empty(config.objects, cap_bytes, block_bytes, home)?;
        let ids = (0..config.objects).map(|_| store.create_with(&[7; LEN]));
        let ids: Vec<ObjectId> =
            ids.collect::<std::result::Result<_, _>>().map_err(|error| refused(&error))?;
        for round in 1..=config.rounds {
            for popularity in Popularity::ALL {
                for threads in [1, config.threads.max(2)] {
                    let what = format!("{}, {threads} threads, round {round}", popularity.name());
                    observe(&format!("blocks of {}, {what}", format_bytes(block_bytes)));
                    // Each run draws different objects, since those of the previous run are in
                    // memory.
                    let seed = |thread| to_u64((round * 16 + threads) * 64 + thread);
                    let draws: Vec<Vec<ObjectId>> =
                        (0..threads).map(|it| popularity.draw(&ids, seed(it))).collect();
                    found.push(run(config, &store, &region, popularity, &draws)?);
                }
            }
        }
    }
    Ok(found)
}

/// Creates an empty store, and the region that holds it.
fn empty(
    objects: u64,
    cap_bytes: u64,
    block_bytes: u64,
    home: &Path,
) -> Result<(ObjectStore, Arc<Region>)> {
    let failed = |error: &dyn std::fmt::Display| BenchError::Engine(error.to_string());
    let bytes = objects * to_u64(LEN);
    let len = (bytes + bytes / SLACK + SLABS_BYTES).next_multiple_of(2 * MIB);
    let file = DirectFile::temporary(home).map_err(|error| failed(&error))?;
    file.truncate(len).map_err(|error| failed(&error))?;
    let blocks = FileBlocks::open(file, len, EngineChoice::Auto).map_err(|error| failed(&error))?;
    let source = Source { blocks: Arc::new(blocks), offset: 0, len, contents: Contents::Blank };
    let region = RegionConfig {
        block_bytes: to_usize(block_bytes),
        ..RegionConfig::new("bench", Ledger::new(cap_bytes))
    };
    let region = Arc::new(Region::new(region, source).map_err(|error| failed(&error))?);
    let memory = Backing::region(Arc::clone(&region));
    let store = ObjectStore::new(ObjectConfig::new("bench", memory));
    Ok((store.map_err(|error| refused(&error))?, region))
}

/// Runs gets in a thread for each of `draws`, for twice the duration of a run, and measures the
/// second half. It takes longer if no read of the device has completed by then.
fn run(
    config: &Config,
    store: &ObjectStore,
    region: &Region,
    popularity: Popularity,
    draws: &[Vec<ObjectId>],
) -> Result<Far> {
    let (done, wrong) = (AtomicU64::new(0), AtomicU64::new(0));
    let stop = AtomicBool::new(false);
    let far = std::thread::scope(|scope| {
        for ids in draws {
            let (done, wrong, stop) = (&done, &wrong, &stop);
            scope.spawn(move || get_all(store, ids, done, wrong, stop));
        }
        std::thread::sleep(config.lasts());
        let (before, gets, began) = (region.stats(), done.load(Ordering::Relaxed), Instant::now());
        std::thread::sleep(config.lasts());
        while done.load(Ordering::Relaxed) == gets {
            std::thread::sleep(Duration::from_millis(1));
        }
        let (took, after) = (began.elapsed().as_secs_f64(), region.stats());
        let gets = (done.load(Ordering::Relaxed) - gets) as f64;
        stop.store(true, Ordering::Relaxed);
        let reads = (after.fills - before.fills) as f64;
        Far {
            block_bytes: to_u64(region.block_bytes()),
            cap_bytes: region.cap_bytes(),
            popularity,
            threads: draws.len(),
            per_second_k: gets / took / 1e3,
            reads_of_a_get: reads / gets,
            reads_per_second_k: reads / took / 1e3,
            read_mib_per_second: (after.read_bytes - before.read_bytes) as f64 / MIB as f64 / took,
        }
    });
    match wrong.into_inner() {
        0 => Ok(far),
        wrong => Err(BenchError::Engine(format!("{wrong} objects were not what they should be"))),
    }
}

fn get_all(
    store: &ObjectStore,
    ids: &[ObjectId],
    done: &AtomicU64,
    wrong: &AtomicU64,
    stop: &AtomicBool,
) {
    let mut bytes = [0; LEN];
    for ids in ids.chunks(STEP).cycle() {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        for id in ids {
            bytes[0] = 0;
            let served = store.get(*id, &mut bytes).is_ok() && bytes == [7; LEN];
            wrong.fetch_add(u64::from(!served), Ordering::Relaxed);
        }
        done.fetch_add(to_u64(ids.len()), Ordering::Relaxed);
    }
}

pub(super) fn medians(rows: &[&Far]) -> Vec<Far> {
    let fold = |same: &[&Far]| Far {
        per_second_k: median_of(same, |far| far.per_second_k),
        reads_of_a_get: median_of(same, |far| far.reads_of_a_get),
        reads_per_second_k: median_of(same, |far| far.reads_per_second_k),
        read_mib_per_second: median_of(same, |far| far.read_mib_per_second),
        ..same[0].clone()
    };
    by_case(rows, |far| (far.block_bytes, far.popularity, far.threads), fold)
}

pub(super) fn picture(rows: &[Far]) -> Bars {
    let shown = |popularity| rows.iter().filter(move |far| far.popularity == popularity);
    let series = |popularity: Popularity| Series {
        name: popularity.name().into(),
        values: shown(popularity).map(|far| Some(far.per_second_k)).collect(),
    };
    let name = |far: &Far| format!("{}, {} threads", format_bytes(far.block_bytes), far.threads);
    Bars {
        title: "Gets of 32 bytes from a store larger than DRAM".into(),
        unit: "thousands a second".into(),
        categories: shown(Popularity::Uniform).map(name).collect(),
        series: Popularity::ALL.into_iter().map(series).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Scratch;

    #[test]
    fn objects_come_from_the_device() {
        if !terrace_testkit::needs::regions() {
            return;
        }
        let home = Scratch::of(None, "larger").expect("a directory");
        let config = Config { objects: 300_000, seconds: 0.05, rounds: 1, threads: 2 };
        let rows = measure(&config, cap_bytes(config.objects), home.path(), &mut |_| {});
        let rows = rows.expect("right objects");
        let found = medians(&rows.iter().collect::<Vec<_>>());
        assert_eq!(found.len(), 8);
        let uniform = found.iter().filter(|far| far.popularity == Popularity::Uniform);
        for far in uniform {
            assert!(far.per_second_k > 0.0 && far.reads_of_a_get > 0.3, "{far:?}");
        }
        assert_eq!(picture(&found).categories.len(), 4);
    }
}
