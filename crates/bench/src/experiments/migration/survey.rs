//! Benchmark of page migration to another memory node and back: by copying, and by every mover of
//! this kernel, for batches of 1 to 2,048 pages.
//!
//! Pages are visited in scattered order in two mappings of 8 MiB, one on the first node and one on
//! the last, and calls alternate between the directions. Each result is the best of five rounds,
//! since other load on the machine only adds time; a round visits all pages, but ends after 250 ms.
//!
//! The example `migrate` of `terrace-tier` includes this file: it runs on emulated machines, which
//! are too small for the command line. So it uses no crate above `terrace-tier`.

use std::io;
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use terrace_sys::map::Mapping;
use terrace_sys::migrate::{MigrateMode, MovePages2, nodes_of};
use terrace_sys::pages::Pages;
use terrace_sys::policy::PreferredNode;
use terrace_sys::probe::Probe;
use terrace_sys::size::PAGE_BYTES;
use terrace_tier::mover::{Mover, MoverCost, Outcome};

/// Batch sizes, in pages per call.
pub const BATCHES: [usize; 7] = [1, 8, 64, 256, 512, 1024, 2048];
/// Pages of each of the two mappings.
const PAGES: usize = 2048;
const ROUNDS: usize = 5;
const ROUND_MAX: Duration = Duration::from_millis(250);

/// Cost of page migration on a machine.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Survey {
    /// Release of the kernel.
    pub kernel: String,
    /// Number of memory nodes.
    pub nodes: usize,
    /// True if pages moved between two nodes; on a machine with one node the calls find every page
    /// on its target already.
    pub between_nodes: bool,
    /// Page size in bytes.
    pub page_bytes: usize,
    /// Microseconds to set and restore the preferred node of a thread's new pages.
    pub policy_us: f64,
    /// Results: one for copying, and one for every mover and batch size.
    pub results: Vec<Speed>,
    /// The mover that calibration chose, with the reason.
    pub chosen: Chosen,
    /// Costs that calibration measured.
    pub calibration: Vec<MoverCost>,
}

/// A mover and the reason for choosing it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Chosen {
    /// Description of the mover.
    pub mover: String,
    /// Human-readable reason.
    pub why: String,
}

/// Cost per page of one mover and batch size.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Speed {
    /// `copy`, `move_pages`, `move_pages2` or `move_pages2 async`.
    pub how: String,
    /// Pages per call.
    pub batch: usize,
    /// Microseconds per page.
    pub page_us: f64,
    /// Pages per second.
    pub pages_per_s: f64,
    /// Pages attempted in the best round.
    pub pages: usize,
    /// Pages of all rounds that did not arrive.
    pub missed: usize,
}

/// Name of a mover, and a function that creates it with a batch size.
type Way = (&'static str, fn(usize) -> Option<Mover>);

const WAYS: [Way; 3] = [
    ("move_pages", |batch| Some(Mover::MovePages { batch })),
    ("move_pages2", |batch| patched(MigrateMode::SyncLight, batch)),
    ("move_pages2 async", |batch| patched(MigrateMode::Async, batch)),
];

fn patched(mode: MigrateMode, batch: usize) -> Option<Mover> {
    let call = MovePages2::find().ok()?;
    Some(Mover::MovePages2 { call, mode, batch })
}

impl Survey {
    /// Measures this machine, which takes seconds, or a minute on an emulated one. `observe` is
    /// called with the name of the next measurement.
    ///
    /// # Errors
    /// Errors of the system if memory cannot be allocated on the required node.
    pub fn take(probe: &Probe, observe: &mut dyn FnMut(&str)) -> io::Result<Survey> {
        let (Some(first), Some(last)) = (probe.nodes.first(), probe.nodes.last()) else {
            return Err(io::Error::other("the kernel names no memory node"));
        };
        let ends = [first.id, last.id];
        observe("copying pages");
        let mut results = vec![copy(ends)?];
        let ways = if probe.move_pages.works() { &WAYS[..] } else { &[] };
        for (how, mover) in ways {
            for (batch, mover) in BATCHES.into_iter().filter_map(|b| Some((b, mover(b)?))) {
                observe(&format!("{how}, {batch} pages a call"));
                results.push(moves(how, batch, mover, ends)?);
            }
        }
        observe("choosing a mover");
        let choice = Mover::choose(probe);
        Ok(Survey {
            between_nodes: ends[0] != ends[1],
            kernel: probe.kernel_release.clone(),
            nodes: probe.nodes.len(),
            page_bytes: PAGE_BYTES,
            policy_us: policy_us(ends[1])?,
            results,
            chosen: Chosen { mover: choice.mover.to_string(), why: choice.why },
            calibration: choice.costs,
        })
    }
}

/// Copies pages between the two nodes in both directions, in scattered order.
fn copy(ends: [u32; 2]) -> io::Result<Speed> {
    let [mut a, mut b] = [pages_on(ends[0])?, pages_on(ends[1])?];
    let mut best = f64::INFINITY;
    for _ in 0..ROUNDS {
        let start = Instant::now();
        for page in scattered() {
            let range = page * PAGE_BYTES..(page + 1) * PAGE_BYTES;
            let (from, to) = if page % 2 == 0 { (&a, &mut b) } else { (&b, &mut a) };
            to.bytes_mut()[range.clone()].copy_from_slice(&from.bytes()[range]);
        }
        best = best.min(start.elapsed().as_secs_f64());
    }
    Ok(speed("copy", 1, best, PAGES, 0))
}

fn policy_us(node: u32) -> io::Result<f64> {
    const TIMES: usize = 1000;
    let start = Instant::now();
    for _ in 0..TIMES {
        drop(PreferredNode::enter(node)?);
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / count(TIMES))
}

fn pages_on(node: u32) -> io::Result<Pages> {
    let mut pages = Pages::reserve(PAGES * PAGE_BYTES, Some(node), false)?;
    pages.touch();
    Ok(pages)
}

/// Returns a mapping whose pages are on `node` now and may move to any other.
fn movable_on(node: u32) -> io::Result<Mapping> {
    let mapping = Mapping::reserve(PAGES * PAGE_BYTES)?;
    // The advice fails on kernels without huge pages, which need none.
    let _ = mapping.advise_huge(false);
    mapping.populate(0, PAGES * PAGE_BYTES)?;
    let all: Vec<usize> = scattered().map(|page| page * PAGE_BYTES).collect();
    let pages: Vec<(usize, usize)> = all.iter().map(|offset| (*offset, PAGE_BYTES)).collect();
    let _ = Mover::PLAIN.migrate(&mapping, &pages, node);
    match nodes_of(&mapping, &all)?.iter().all(|found| u32::try_from(*found) == Ok(node)) {
        true => Ok(mapping),
        false => Err(io::Error::other(format!("pages could not be brought to node {node}"))),
    }
}

fn moves(how: &str, batch: usize, mover: Mover, ends: [u32; 2]) -> io::Result<Speed> {
    let (mut best, mut missed) = ((f64::INFINITY, 1), 0);
    for _ in 0..ROUNDS {
        let mappings = [movable_on(ends[0])?, movable_on(ends[1])?];
        let (seconds, tried, failed) = round(mover, &mappings, [ends[1], ends[0]]);
        if seconds / count(tried) < best.0 / count(best.1) {
            best = (seconds, tried);
        }
        missed += failed;
    }
    Ok(speed(how, batch, best.0, best.1, missed))
}

/// Moves the pages of each mapping to its target, with calls for the two mappings in turn. Returns
/// the seconds, the pages attempted, and the number of them that did not arrive.
fn round(mover: Mover, mappings: &[Mapping; 2], targets: [u32; 2]) -> (f64, usize, usize) {
    let pages: Vec<(usize, usize)> =
        scattered().map(|page| (page * PAGE_BYTES, PAGE_BYTES)).collect();
    let (mut tried, mut missed) = (0, 0);
    let start = Instant::now();
    for batch in pages.chunks(mover.batch()) {
        for (mapping, target) in mappings.iter().zip(targets) {
            let outcomes = mover.migrate(mapping, batch, target);
            tried += batch.len();
            missed += outcomes.iter().filter(|outcome| **outcome != Outcome::Moved).count();
        }
        if start.elapsed() > ROUND_MAX {
            break;
        }
    }
    (start.elapsed().as_secs_f64(), tried, missed)
}

/// Returns the indexes of all pages, each far from the previous one: the step is a prime.
fn scattered() -> impl Iterator<Item = usize> {
    (0..PAGES).map(|index| index * 1009 % PAGES)
}

fn speed(how: &str, batch: usize, seconds: f64, pages: usize, missed: usize) -> Speed {
    let page_us = seconds * 1e6 / count(pages);
    let pages_per_s = count(pages) / seconds;
    Speed { how: how.to_owned(), batch, page_us, pages_per_s, pages, missed }
}

#[expect(clippy::cast_precision_loss, reason = "some thousands")]
fn count(pages: usize) -> f64 {
    pages as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_of_this_machine_is_measured() {
        let probe = Probe::detect();
        let mut steps = 0;
        let survey = Survey::take(&probe, &mut |_| steps += 1).expect("measured");
        let copies = survey.results.iter().filter(|speed| speed.how == "copy").count();
        assert_eq!((copies, survey.nodes), (1, probe.nodes.len()));
        let ways = if MovePages2::find().is_ok() { 3 } else { 1 };
        assert_eq!(survey.results.len(), 1 + ways * BATCHES.len());
        assert_eq!(steps, survey.results.len() + 1);
        for speed in &survey.results {
            assert!(speed.page_us > 0.0 && speed.pages > 0 && speed.missed == 0, "{speed:?}");
        }
        let text = serde_json::to_string(&survey).expect("written");
        let again: Survey = serde_json::from_str(&text).expect("read");
        assert_eq!(again.results.len(), survey.results.len());
    }
}
