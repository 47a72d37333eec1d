//! Figure 3: total memory per object.

use serde::Serialize;
use terrace_sys::probe::Probe;
use terrace_sys::process::resident_bytes;
use terrace_sys::size::to_usize;
use terrace_workload::random::Random;

use super::config::Config;
use super::store::{refused, store};
use super::targets::TARGETS;
use crate::error::{BenchError, Result};
use crate::measure::median_of;
use crate::report::{Bars, Series};

/// Overhead in bytes of an object in the study's own store: an entry of 8 bytes and a marker of
/// one.
const PUBLISHED_BESIDE: f64 = 9.0;

/// Ranges of object lengths. Those of the last are drawn uniformly.
const LENS: [(u64, u64); 8] =
    [(8, 8), (16, 16), (32, 32), (64, 64), (100, 100), (128, 128), (256, 256), (16, 128)];

/// Memory of objects of one kind.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Overhead {
    /// Length of the shortest and of the longest object.
    lens: (u64, u64),
    objects: u64,
    /// Mean length of an object.
    mean_bytes: f64,
    /// Mean memory of an object, from the resident bytes of the process as the kernel counts them.
    taken_bytes: f64,
    /// Millions of objects per second that one thread created.
    created_m: f64,
}

fn name((first, last): (u64, u64)) -> String {
    if first == last { format!("{first}") } else { format!("{first} to {last}") }
}

impl Overhead {
    fn name(&self) -> String {
        name(self.lens)
    }

    fn beside(&self) -> f64 {
        self.taken_bytes - self.mean_bytes
    }

    pub(super) fn cells(&self) -> [String; 5] {
        let target = match self.lens {
            (32, 32) => format!("at most {} B", TARGETS.bytes_of_32),
            (16, 128) => format!("at most {} B beside", TARGETS.beside_mix),
            _ => format!("{:.1} B", self.mean_bytes + PUBLISHED_BESIDE),
        };
        let share = 100.0 * self.beside() / self.taken_bytes;
        let (taken, beside, made) = (self.taken_bytes, self.beside(), self.created_m);
        [
            "3".to_owned(),
            format!("an object of {} B", self.name()),
            "1".to_owned(),
            format!("{taken:.2} B, {beside:.2} beside it ({share:.1} %); {made:.1} M/s made"),
            target,
        ]
    }
}

/// Fills stores with objects of each kind, except for those that do not fit in memory.
pub(super) fn measure(config: &Config, observe: &mut dyn FnMut(&str)) -> Result<Vec<Overhead>> {
    let mut measured = Vec::new();
    for lens in LENS {
        let (needed, available) = (needed_bytes(config.objects, lens), available_bytes());
        if needed <= available {
            observe(&format!("objects of {} to {} bytes", lens.0, lens.1));
            measured.push(fill(config.objects, lens)?);
        } else if lens == LENS[0] {
            return Err(BenchError::input(format!(
                "{} objects take {needed} bytes, and {available} are available; \
                 ask for fewer with --objects",
                config.objects
            )));
        }
    }
    Ok(measured)
}

/// Returns an estimate of the memory of objects of one kind, including an overhead of 3 bytes each.
fn needed_bytes(objects: u64, lens: (u64, u64)) -> u64 {
    objects.saturating_mul(lens.0.midpoint(lens.1) + 3).saturating_add(64 << 20)
}

fn available_bytes() -> u64 {
    let probe = Probe::detect();
    probe.memory_available_bytes.min(probe.memory_limit_bytes.unwrap_or(u64::MAX))
}

/// Returns a note that names the kinds of objects that did not fit in memory.
pub(super) fn left_out(measured: &[Overhead]) -> Option<String> {
    let is_missing = |lens: &&(u64, u64)| measured.iter().all(|row| row.lens != **lens);
    let missing = LENS.iter().filter(is_missing).map(|lens| name(*lens));
    let missing: Vec<String> = missing.collect();
    let none = missing.is_empty() || measured.is_empty();
    let text = || format!("no memory for that many objects of {} bytes", missing.join(", "));
    (!none).then(text)
}

fn fill(objects: u64, lens: (u64, u64)) -> Result<Overhead> {
    let resident = || resident_bytes().map_err(|error| BenchError::Engine(error.to_string()));
    let mut chance = Random::new(0, 0);
    let bytes = [7_u8; 256];
    let before = resident()?;
    let store = store()?;
    let (began, mut sum) = (std::time::Instant::now(), 0);
    for _ in 0..objects {
        let len = lens.0 + chance.below(lens.1 - lens.0 + 1);
        store.create_with(&bytes[..to_usize(len)]).map_err(|error| refused(&error))?;
        sum += len;
    }
    let took = began.elapsed().as_secs_f64();
    let taken = resident()?.saturating_sub(before);
    Ok(Overhead {
        lens,
        objects,
        mean_bytes: sum as f64 / objects as f64,
        taken_bytes: taken as f64 / objects as f64,
        created_m: objects as f64 / took / 1e6,
    })
}

pub(super) fn medians(rows: &[&Overhead]) -> Vec<Overhead> {
    let case = |lens| {
        let same: Vec<&Overhead> = rows.iter().copied().filter(|row| row.lens == lens).collect();
        same.first().map(|first| Overhead {
            mean_bytes: median_of(&same, |row| row.mean_bytes),
            taken_bytes: median_of(&same, |row| row.taken_bytes),
            created_m: median_of(&same, |row| row.created_m),
            ..(*first).clone()
        })
    };
    LENS.into_iter().filter_map(case).collect()
}

pub(super) fn picture(rows: &[Overhead]) -> Bars {
    Bars {
        title: "Bytes beside an object".into(),
        unit: "bytes".into(),
        categories: rows.iter().map(|row| row.name()).collect(),
        series: vec![
            Series {
                name: "here".into(),
                values: rows.iter().map(|row| Some(row.beside())).collect(),
            },
            Series {
                name: "published".into(),
                values: rows.iter().map(|_| Some(PUBLISHED_BESIDE)).collect(),
            },
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_does_not_fit_into_memory_is_left_out() {
        let filled = |objects| {
            let config = Config { objects, seconds: 0.01, rounds: 1, threads: 1 };
            measure(&config, &mut |_| {})
        };
        let error = filled(1 << 50).expect_err("a petabyte");
        assert!(error.to_string().contains("--objects"), "{error}");
        let all = filled(1000).expect("room");
        assert_eq!((all.len(), left_out(&all)), (LENS.len(), None));
        let text = left_out(&all[..6]).expect("two are missing");
        assert_eq!(text, "no memory for that many objects of 256, 16 to 128 bytes");
    }
}
