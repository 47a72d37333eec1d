//! What it costs to get pages of 4 KiB to another memory node and back: by copying them, and by
//! every mover of this kernel, for calls of 1 to 2,048 pages.
//!
//! `cargo run --release -p terrace-tier --example migrate -- --json FILE`
//!
//! Pages are scattered over two mappings of 8 MiB, one on the first node and one on the last, and
//! calls alternate between the directions. A figure is that of the best of five rounds, each of all
//! pages or a quarter of a second: what else runs on a machine only ever adds.

use std::error::Error;
use std::time::{Duration, Instant};

use serde::Serialize;
use terrace_sys::map::Mapping;
use terrace_sys::migrate::{MigrateMode, MovePages2, nodes_of};
use terrace_sys::pages::Pages;
use terrace_sys::policy::PreferredNode;
use terrace_sys::probe::Probe;
use terrace_sys::size::PAGE_BYTES;
use terrace_tier::mover::{Mover, MoverCost, Outcome};

/// Pages of each of the two mappings.
const PAGES: usize = 2048;
const BATCHES: [usize; 7] = [1, 8, 64, 256, 512, 1024, 2048];
const ROUNDS: usize = 5;
const ROUND_MAX: Duration = Duration::from_millis(250);

#[derive(Serialize)]
struct Report {
    kernel: String,
    nodes: usize,
    /// Whether pages changed their node; on one node calls find them where they should be.
    between_nodes: bool,
    page_bytes: usize,
    /// Microseconds to set and restore the node that a thread's new pages come from.
    policy_us: f64,
    results: Vec<Line>,
    chosen: Chosen,
    calibration: Vec<MoverCost>,
}

/// The mover that calibration chose, and why.
#[derive(Serialize)]
struct Chosen {
    mover: String,
    why: String,
}

#[derive(Serialize)]
struct Line {
    how: &'static str,
    batch: usize,
    page_us: f64,
    pages_per_s: f64,
    /// Pages that were tried in the best round, and those of all rounds that did not arrive.
    pages: usize,
    missed: usize,
}

/// A way to move pages in calls of a number of them.
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

fn main() -> Result<(), Box<dyn Error>> {
    let json = json_file()?;
    let probe = Probe::detect();
    let ids: Vec<u32> = probe.nodes.iter().map(|node| node.id).collect();
    let ends = [ids[0], ids[ids.len() - 1]];
    let mut results = vec![copy(ends)?];
    for (how, mover) in WAYS {
        for (batch, mover) in BATCHES.into_iter().filter_map(|b| Some((b, mover(b)?))) {
            results.push(moves(how, batch, mover, ends)?);
        }
    }
    let choice = Mover::choose(&probe);
    let report = Report {
        between_nodes: ends[0] != ends[1],
        kernel: probe.kernel_release,
        nodes: ids.len(),
        page_bytes: PAGE_BYTES,
        policy_us: policy_us(ends[1])?,
        results,
        chosen: Chosen { mover: choice.mover.to_string(), why: choice.why },
        calibration: choice.costs,
    };
    print(&report);
    if let Some(path) = json {
        std::fs::write(path, serde_json::to_string_pretty(&report)?)?;
    }
    Ok(())
}

fn json_file() -> Result<Option<String>, String> {
    let mut words = std::env::args().skip(1);
    match (words.next().as_deref(), words.next(), words.next()) {
        (None, ..) => Ok(None),
        (Some("--json"), Some(path), None) => Ok(Some(path)),
        _ => Err("usage: migrate [--json FILE]".into()),
    }
}

/// Copies pages one way and the other, in scattered order.
fn copy(ends: [u32; 2]) -> Result<Line, Box<dyn Error>> {
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
    Ok(line("copy", 1, best, PAGES, 0))
}

fn policy_us(node: u32) -> std::io::Result<f64> {
    const TIMES: usize = 1000;
    let start = Instant::now();
    for _ in 0..TIMES {
        drop(PreferredNode::enter(node)?);
    }
    Ok(start.elapsed().as_secs_f64() * 1e6 / count(TIMES))
}

fn pages_on(node: u32) -> std::io::Result<Pages> {
    let mut pages = Pages::reserve(PAGES * PAGE_BYTES, Some(node), false)?;
    pages.touch();
    Ok(pages)
}

/// A mapping whose pages are on a node now and may go to any.
fn movable_on(node: u32) -> Result<Mapping, Box<dyn Error>> {
    let mapping = Mapping::reserve(PAGES * PAGE_BYTES)?;
    // Where there are no huge pages there is nothing to decline.
    let _ = mapping.advise_huge(false);
    mapping.populate(0, PAGES * PAGE_BYTES)?;
    let all: Vec<usize> = scattered().map(|page| page * PAGE_BYTES).collect();
    let pages: Vec<(usize, usize)> = all.iter().map(|offset| (*offset, PAGE_BYTES)).collect();
    let _ = Mover::PLAIN.migrate(&mapping, &pages, node);
    match nodes_of(&mapping, &all)?.iter().all(|found| u32::try_from(*found) == Ok(node)) {
        true => Ok(mapping),
        false => Err(format!("pages could not be brought to node {node}").into()),
    }
}

fn moves(
    how: &'static str,
    batch: usize,
    mover: Mover,
    ends: [u32; 2],
) -> Result<Line, Box<dyn Error>> {
    let mut rounds = Vec::new();
    let mut missed = 0;
    for _ in 0..ROUNDS {
        let mappings = [movable_on(ends[0])?, movable_on(ends[1])?];
        let (seconds, tried, failed) = round(mover, &mappings, [ends[1], ends[0]]);
        rounds.push((seconds / count(tried), tried));
        missed += failed;
    }
    let best = rounds.into_iter().min_by(|a, b| a.0.total_cmp(&b.0));
    let (page_seconds, tried) = best.ok_or("no round")?;
    Ok(line(how, batch, page_seconds * count(tried), tried, missed))
}

/// Moves the pages of each mapping to its target, a call for the one and a call for the other; the
/// seconds, the pages tried, and how many of them did not arrive.
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

/// All pages, each far from the one before: the step is a prime.
fn scattered() -> impl Iterator<Item = usize> {
    (0..PAGES).map(|index| index * 1009 % PAGES)
}

fn line(how: &'static str, batch: usize, seconds: f64, pages: usize, missed: usize) -> Line {
    let page_us = seconds * 1e6 / count(pages);
    Line { how, batch, page_us, pages_per_s: count(pages) / seconds, pages, missed }
}

#[expect(clippy::cast_precision_loss, reason = "some thousands")]
fn count(pages: usize) -> f64 {
    pages as f64
}

#[expect(clippy::print_stdout, reason = "a program that prints")]
fn print(report: &Report) {
    println!("Linux {}, memory nodes: {}", report.kernel, report.nodes);
    if !report.between_nodes {
        println!("one node: calls find every page where it should be, and move nothing");
    }
    println!("{:<18} {:>6} {:>10} {:>12} {:>7}", "how", "batch", "us/page", "pages/s", "missed");
    for line in &report.results {
        let Line { how, batch, page_us, pages_per_s, missed, .. } = line;
        println!("{how:<18} {batch:>6} {page_us:>10.2} {pages_per_s:>12.0} {missed:>7}");
    }
    println!("to prefer a node and no longer: {:.2} us", report.policy_us);
    println!("mover: {}: {}", report.chosen.mover, report.chosen.why);
}
