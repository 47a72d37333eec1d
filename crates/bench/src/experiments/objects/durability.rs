//! Cost of durability: puts with a log, a dump, puts during a dump, and restarts from both.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use serde::Serialize;
use terrace_objects::{Backing, Durability, LogConfig, ObjectConfig, ObjectId, ObjectStore};
use terrace_sys::size::{format_bytes, to_u64, to_usize};

use super::config::Config;
use super::popularity::Popularity;
use super::store::{ADDRESS_BYTES, refused};
use crate::error::{BenchError, Result};
use crate::measure::{by_case, median_of};
use crate::report::{Bars, Series};

/// Bytes of an object.
const LEN: usize = 32;
/// Numbers of threads that put concurrently.
const THREADS: [usize; 3] = [1, 16, 128];
/// Factor by which a run is longer than those of other experiments, as a synced put takes
/// milliseconds.
const LONGER: u32 = 5;

/// Measurements of one run.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Lasting {
    what: String,
    threads: usize,
    /// Thousands of puts, or of objects written or read, per second of elapsed time.
    per_second_k: f64,
    /// Bytes of the dump or log that was written or read; 0 for puts.
    file_bytes: u64,
}

impl Lasting {
    pub(super) fn cells(&self) -> [String; 5] {
        let bytes = match self.file_bytes {
            0 => String::new(),
            bytes => format!("; a file of {}", format_bytes(bytes)),
        };
        [
            String::new(),
            self.what.clone(),
            self.threads.to_string(),
            format!("{:.1} thousand/s{bytes}", self.per_second_k),
            String::new(),
        ]
    }
}

pub(super) fn measure(
    config: &Config,
    dir: &Path,
    observe: &mut dyn FnMut(&str),
) -> Result<Vec<Lasting>> {
    let mut rows = Vec::new();
    for (durability, name) in [
        (None, "put, no log"),
        (Some(Durability::Deferred), "put, log deferred"),
        (Some(Durability::Written), "put, log written"),
        (Some(Durability::Synced), "put, log synced"),
    ] {
        observe(name);
        let log = dir.join("log");
        let store = open(durability.map(|durability| (&*log, durability)))?;
        let ids = fill(&store, config.objects.min(1 << 20))?;
        for threads in THREADS {
            let per_second_k = puts(config, &store, &ids, threads, None)?;
            rows.push(Lasting { what: name.to_owned(), threads, per_second_k, file_bytes: 0 });
        }
        if durability == Some(Durability::Written) {
            rows.push(again(store, &log, observe)?);
        } else {
            drop(store);
        }
        if durability.is_some() {
            std::fs::remove_dir_all(&log).map_err(|it| BenchError::file("remove", &log, it))?;
        }
    }
    rows.extend(dumps(config, dir, observe)?);
    Ok(rows)
}

fn open(log: Option<(&Path, Durability)>) -> Result<ObjectStore> {
    let memory = Backing::Dram { bytes: to_usize(ADDRESS_BYTES) };
    let config = ObjectConfig::new("bench", memory);
    let store = match log {
        None => ObjectStore::new(config),
        Some((dir, durability)) => {
            ObjectStore::open(config, LogConfig { durability, ..LogConfig::new(dir) })
                .map(|(store, _)| store)
        }
    };
    store.map_err(|error| refused(&error))
}

/// Creates objects in batches, as single creates would be slow in a store whose log is synced.
fn fill(store: &ObjectStore, objects: u64) -> Result<Vec<ObjectId>> {
    let batch = vec![&[7; LEN][..]; 10_000];
    let mut ids = Vec::new();
    while to_u64(ids.len()) < objects {
        ids.extend(store.create_many(&batch).map_err(|error| refused(&error))?);
    }
    Ok(ids)
}

/// Returns the thousands of puts per second, measured until the time is over or `work` is done.
fn puts(
    config: &Config,
    store: &ObjectStore,
    ids: &[ObjectId],
    threads: usize,
    work: Option<&mut dyn FnMut() -> Result<()>>,
) -> Result<f64> {
    let (done, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let draws = Popularity::Uniform.draw(ids, 3);
    let began = Instant::now();
    let worked = std::thread::scope(|scope| {
        for thread in 0..threads {
            let (done, stop, draws) = (&done, &stop, &draws);
            scope.spawn(move || {
                let mut count = 0;
                let own = draws.iter().cycle().skip(thread * draws.len() / threads);
                for id in own {
                    if stop.load(Ordering::Relaxed) || store.put(*id, &[9; LEN]).is_err() {
                        break;
                    }
                    count += 1;
                }
                done.fetch_add(count, Ordering::Relaxed);
            });
        }
        let worked = match work {
            None => {
                std::thread::sleep(config.lasts() * LONGER);
                Ok(())
            }
            Some(work) => work(),
        };
        stop.store(true, Ordering::Relaxed);
        worked
    });
    worked?;
    Ok(done.into_inner() as f64 / 1e3 / began.elapsed().as_secs_f64())
}

/// Reopens a store from its log.
fn again(store: ObjectStore, log: &Path, observe: &mut dyn FnMut(&str)) -> Result<Lasting> {
    observe("start from a log");
    let file_bytes = store.log_bytes();
    drop(store);
    let began = Instant::now();
    let memory = Backing::Dram { bytes: to_usize(ADDRESS_BYTES) };
    let opened = ObjectStore::open(ObjectConfig::new("bench", memory), LogConfig::new(log));
    let (_, found) = opened.map_err(|error| refused(&error))?;
    let per_second_k = found.changes as f64 / 1e3 / began.elapsed().as_secs_f64();
    Ok(Lasting {
        what: "changes of a log made again".to_owned(),
        threads: 1,
        per_second_k,
        file_bytes,
    })
}

/// Measures a dump alone, puts alone, both at once, and a store restored from the dump.
fn dumps(config: &Config, dir: &Path, observe: &mut dyn FnMut(&str)) -> Result<Vec<Lasting>> {
    observe("dump");
    let (store, path) = (open(None)?, dir.join("objects.dump"));
    let ids = fill(&store, config.objects)?;
    let mut rows = Vec::new();
    let mut row = |what: &str, threads, per_second_k, file_bytes| {
        rows.push(Lasting { what: what.to_owned(), threads, per_second_k, file_bytes });
    };
    let objects_k = to_u64(ids.len()) as f64 / 1e3;
    let began = Instant::now();
    let dumped = store.dump(&path).map_err(|error| refused(&error))?;
    row("objects dumped", 1, objects_k / began.elapsed().as_secs_f64(), dumped.dump_bytes);
    let alone = puts(config, &store, &ids, config.threads, None)?;
    row("put, no dump", config.threads, alone, 0);
    let mut took = 0.0;
    let mut dump = || {
        let began = Instant::now();
        store.dump(&path).map_err(|error| refused(&error))?;
        took = began.elapsed().as_secs_f64();
        Ok(())
    };
    let beside = puts(config, &store, &ids, config.threads, Some(&mut dump))?;
    row("put beside a dump", config.threads, beside, 0);
    row("objects dumped beside puts", 1, objects_k / took, 0);
    drop(store);
    let began = Instant::now();
    let memory = Backing::Dram { bytes: to_usize(ADDRESS_BYTES) };
    let restored = ObjectStore::restore(ObjectConfig::new("bench", memory), &path);
    restored.map_err(|error| refused(&error))?;
    row("objects restored", 1, objects_k / began.elapsed().as_secs_f64(), dumped.dump_bytes);
    std::fs::remove_file(&path).map_err(|it| BenchError::file("remove", &path, it))?;
    Ok(rows)
}

pub(super) fn medians(rows: &[&Lasting]) -> Vec<Lasting> {
    let fold = |same: &[&Lasting]| Lasting {
        per_second_k: median_of(same, |it| it.per_second_k),
        ..same[0].clone()
    };
    by_case(rows, |it| (&it.what, it.threads), fold)
}

/// Draws the rate of puts by the number of threads, for each durability.
pub(super) fn picture(rows: &[Lasting]) -> Bars {
    let puts = || rows.iter().filter(|row| row.what.starts_with("put, "));
    let mut names: Vec<&str> = puts().map(|row| row.what.as_str()).collect();
    names.dedup();
    let of = |what: &str, threads| {
        rows.iter().find(|row| row.what == what && row.threads == threads).map(|it| it.per_second_k)
    };
    let series = |what: &&str| Series {
        name: (*what).into(),
        values: THREADS.iter().map(|threads| of(what, *threads)).collect(),
    };
    Bars {
        title: "Puts of 32 bytes, by threads and by what they wait for".into(),
        unit: "thousand/s".into(),
        categories: THREADS.iter().map(ToString::to_string).collect(),
        series: names.iter().filter(|what| of(what, THREADS[0]).is_some()).map(series).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::measure::Scratch;

    #[test]
    fn a_small_run_fills_every_row() {
        let config = Config { objects: 3000, seconds: 0.002, rounds: 1, threads: 2 };
        let home = Scratch::of(None, "lasting-test").expect("made");
        let rows = measure(&config, home.path(), &mut |_| {}).expect("room");
        let rows = medians(&rows.iter().collect::<Vec<_>>());
        assert_eq!(rows.len(), 4 * THREADS.len() + 1 + 5);
        assert!(rows.iter().all(|row| row.per_second_k > 0.0), "{rows:?}");
        assert_eq!(picture(&rows).series.len(), 4);
        let left = std::fs::read_dir(home.path()).expect("there").count();
        assert_eq!(left, 0, "files are left");
    }
}
