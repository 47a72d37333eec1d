//! Effect of the location of an allocator's metadata on the cost of allocations.
//!
//! The micro-benchmarks of Weisgut et al., "Separated Allocator Metadata in Disaggregated In-Memory
//! Databases: Friend or Foe?" (2022), figures 8 and 9: sequences of allocations on a region, over a
//! file or emulated memory, and on a memory node, with metadata in DRAM and beside the data. In
//! addition to the paper: the same sequences with objects that are touched, objects that are freed
//! and allocated at random, and temporary state of queries.
//!
//! The two locations alternate, and the first one changes with every round. The ratio of a round is
//! that of its two runs, which request the same sizes in the same order. The destruction of a heap
//! is not measured.

mod case;
mod load;
mod temporary;

use clap::{Args, value_parser};
use serde::Serialize;
use terrace_heap::Metadata;
use terrace_sys::numa::nodes;
use terrace_sys::size::format_bytes;
use terrace_tier::TierSpec;

use crate::error::Result;
use crate::experiment::{Common, Experiment};
use crate::measure::{Estimate, median};
use crate::report::{Bars, Grid, Report, Series};
use crate::setting::{Finding, Setting};
use case::{
    BLOCK_BYTES, CASES, CHURN_SECONDS_MAX, Case, Memory, PUBLISHED_OBJECTS, TOUCHED_BYTES_MAX,
};
use load::{CAP_BYTES, Conditions, Line, measure};

const WAYS: [Metadata; 2] = [Metadata::Separate, Metadata::Together];
/// Maximum distance from one of the ratio of a published case.
const TOLERANCE: f64 = 0.03;

/// Options of the experiment.
#[derive(Args, Clone, Debug)]
pub(crate) struct AllocationOptions {
    /// Allocations of the largest run, which scales the others; the published experiment has
    /// 10000000
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = value_parser!(u64).range(1..=100_000_000))]
    objects: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Config {
    /// Number of allocations of the largest run, and of the largest published run.
    objects: u64,
    published_objects: u64,
    rounds: usize,
    node: u32,
    nodes: usize,
    block_bytes: u64,
    cap_bytes: u64,
    touched_bytes_max: u64,
    churn_seconds_max: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    case: &'static str,
    place: Memory,
    /// Maximum number of objects at a time.
    objects: u64,
    metadata: &'static str,
    round: usize,
    #[serde(flatten)]
    line: Line,
}

/// Medians of the runs with one location of metadata.
#[derive(Clone, Copy, Debug, Serialize)]
struct Way {
    ms: f64,
    ns_per_operation: f64,
    metadata_bytes: f64,
    taken_bytes: f64,
    faults: Option<f64>,
    /// Number of blocks that were brought into memory.
    came_blocks: Option<f64>,
    written_blocks: Option<f64>,
}

/// Comparison of the two locations of metadata in one case: in DRAM, and beside the data.
#[derive(Clone, Debug, Serialize)]
struct Comparison {
    case: &'static str,
    place: Memory,
    objects: u64,
    separate: Way,
    together: Way,
    /// Mean of the ratios of the rounds, separate over together, and half of its 95 % confidence
    /// interval.
    ratio: f64,
    ratio_half_width: Option<f64>,
    ratio_median: f64,
    published: Option<f64>,
    /// True if the ratio is within the tolerance around one; `None` for a case that was not
    /// published.
    within_tolerance: Option<bool>,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    comparisons: Vec<Comparison>,
    tolerance: f64,
    /// Blocks brought into memory in cases that touch no object: the maximum of the runs with
    /// separate metadata, and the minimum of those with metadata beside the data.
    separate_blocks_max: u64,
    together_blocks_min: u64,
    /// Number of objects at addresses outside of their heap.
    outside: u64,
}

/// Experiment `allocations`: cost of allocations by the location of the allocator's metadata.
pub(crate) struct Allocations;

impl Experiment for Allocations {
    const NAME: &'static str = "allocations";
    const QUESTION: &'static str = "does it matter where an allocator keeps its metadata?";
    const COMMON: &'static [Common] = &[Common::Rounds];
    type Options = AllocationOptions;

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if addresses, a file or a memory node are not available, or if the kernel does not
    /// permit regions to this process.
    async fn run(
        setting: &Setting,
        options: &AllocationOptions,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Finding> {
        let home = setting.scratch()?;
        let stage =
            Conditions { objects: options.objects, node: node(setting), home: home.path().into() };
        let config = Config {
            objects: stage.objects,
            published_objects: PUBLISHED_OBJECTS,
            rounds: setting.rounds.get(),
            node: stage.node,
            nodes: nodes().len(),
            block_bytes: BLOCK_BYTES,
            cap_bytes: CAP_BYTES,
            touched_bytes_max: TOUCHED_BYTES_MAX,
            churn_seconds_max: CHURN_SECONDS_MAX,
        };
        let mut rows = Vec::new();
        for case in &CASES {
            // A run that is not measured, so that the one-time set-up of the allocator is charged
            // to neither location.
            observe(&format!("{}, before the first round", case.name));
            measure(case, Metadata::Separate, &stage, 0)?;
            for round in 0..config.rounds {
                for step in 0..WAYS.len() {
                    let metadata = WAYS[(step + round) % WAYS.len()];
                    observe(&format!("{}, {}, round {}", case.name, metadata.as_str(), round + 1));
                    let line = measure(case, metadata, &stage, round as u64)?;
                    rows.push(row(case, &stage, metadata, round, line));
                }
            }
        }
        finding(&config, &rows)
    }
}

/// Returns the first memory node that was given as a tier, or 0.
fn node(setting: &Setting) -> u32 {
    let named = setting.engine.tiers.iter().find_map(|tier| match tier {
        TierSpec::Node { node, .. } => *node,
        _ => None,
    });
    named.unwrap_or(0)
}

fn row(case: &Case, stage: &Conditions, metadata: Metadata, round: usize, line: Line) -> Row {
    Row {
        case: case.name,
        place: case.place,
        objects: case.objects(stage.objects),
        metadata: metadata.as_str(),
        round,
        line,
    }
}

/// Returns the runs of a case with one location of metadata, ordered by round.
fn runs<'a>(rows: &'a [Row], case: &Case, metadata: Metadata) -> Vec<&'a Line> {
    let same = |row: &&Row| row.case == case.name && row.metadata == metadata.as_str();
    let mut rows: Vec<&Row> = rows.iter().filter(same).collect();
    rows.sort_by_key(|row| row.round);
    rows.into_iter().map(|row| &row.line).collect()
}

fn way(lines: &[&Line]) -> Way {
    let mid = |of: &dyn Fn(&Line) -> Option<f64>| {
        let values: Vec<f64> = lines.iter().filter_map(|line| of(line)).collect();
        median(&values)
    };
    let known = |of: fn(&Line) -> f64| mid(&|line| Some(of(line))).unwrap_or(f64::NAN);
    Way {
        ms: known(|line| line.ms),
        ns_per_operation: known(|line| line.ns_per_operation),
        metadata_bytes: known(|line| line.metadata_bytes as f64),
        taken_bytes: known(|line| line.taken_bytes as f64),
        faults: mid(&|line| line.below.map(|below| below.faults as f64)),
        came_blocks: mid(&|line| line.below.map(|below| below.came() as f64)),
        written_blocks: mid(&|line| line.below.map(|below| below.written_blocks as f64)),
    }
}

fn comparison(rows: &[Row], case: &Case, objects: u64) -> Comparison {
    let [separate, together] = WAYS.map(|metadata| runs(rows, case, metadata));
    let both = separate.iter().zip(&together);
    let ratios: Vec<f64> = both.map(|(a, b)| a.ns_per_operation / b.ns_per_operation).collect();
    let Estimate { mean: ratio, half_width: ratio_half_width } = Estimate::of(&ratios);
    Comparison {
        case: case.name,
        place: case.place,
        objects,
        separate: way(&separate),
        together: way(&together),
        ratio,
        ratio_half_width,
        ratio_median: median(&ratios).unwrap_or(f64::NAN),
        published: case.published,
        within_tolerance: case.published.map(|_| (ratio - 1.0).abs() <= TOLERANCE),
    }
}

fn summarise(config: &Config, rows: &[Row]) -> Summary {
    let quiet = |metadata| {
        let cases = CASES.iter().filter(|case| case.shows_the_allocator());
        let lines = cases.flat_map(move |case| runs(rows, case, metadata));
        lines.filter_map(|line| line.below).map(|below| below.came())
    };
    Summary {
        comparisons: CASES
            .iter()
            .map(|case| comparison(rows, case, case.objects(config.objects)))
            .collect(),
        tolerance: TOLERANCE,
        separate_blocks_max: quiet(Metadata::Separate).max().unwrap_or(0),
        together_blocks_min: quiet(Metadata::Together).min().unwrap_or(0),
        outside: rows.iter().map(|row| row.line.outside).sum(),
    }
}

/// Counts the failures: separate metadata that touched the region, and objects outside of their
/// heap.
fn failures(summary: &Summary) -> usize {
    usize::from(summary.separate_blocks_max > 0) + usize::from(summary.outside > 0)
}

fn finding(config: &Config, rows: &[Row]) -> Result<Finding> {
    let summary = summarise(config, rows);
    Ok(Finding {
        failed: failures(&summary),
        more: vec![],
        notes: notes(config, &summary),
        picture: picture(&summary),
        report: Report::new(Allocations::NAME, config, rows, &summary)?,
        grid: grid(&summary),
    })
}

/// Formats a ratio as `1.003 +- 0.010`; without the interval after a single round.
fn interval(comparison: &Comparison) -> String {
    Estimate { mean: comparison.ratio, half_width: comparison.ratio_half_width }.to_string()
}

/// Formats a median of byte counts.
fn bytes(count: f64) -> String {
    let whole = format!("{count:.0}").parse().unwrap_or(0);
    format_bytes(whole)
}

fn grid(summary: &Summary) -> Grid {
    let titles = [
        "objects",
        "count",
        "metadata",
        "ms",
        "ns each",
        "of metadata",
        "taken",
        "faults",
        "blocks in",
        "blocks out",
        "separate/together",
        "published",
    ];
    let mut grid = Grid::new(titles);
    let count = |value: Option<f64>| value.map_or_else(String::new, |value| format!("{value:.0}"));
    for comparison in &summary.comparisons {
        let both = [&comparison.separate, &comparison.together];
        for (metadata, way) in WAYS.into_iter().zip(both) {
            let first = metadata == Metadata::Separate;
            let once = |text: String| if first { text } else { String::new() };
            let published = comparison.published.map_or_else(String::new, |it| format!("{it:.4}"));
            grid.push([
                once(comparison.case.to_owned()),
                once(comparison.objects.to_string()),
                metadata.as_str().to_owned(),
                format!("{:.1}", way.ms),
                format!("{:.1}", way.ns_per_operation),
                bytes(way.metadata_bytes),
                bytes(way.taken_bytes),
                count(way.faults),
                count(way.came_blocks),
                count(way.written_blocks),
                once(interval(comparison)),
                once(published),
            ]);
        }
    }
    grid
}

fn notes(config: &Config, summary: &Summary) -> Vec<String> {
    let verdict = |comparison: &Comparison| {
        let published = comparison.published?;
        let side = if comparison.within_tolerance? { "inside" } else { "outside" };
        let is_wide = comparison.ratio_half_width.is_none_or(|half| half > TOLERANCE);
        let width = if is_wide { ", which the interval is wider than" } else { "" };
        Some(format!(
            "{}: separate over together {} (95 %), median {:.3}, {side} 1.00 +- \
             {TOLERANCE}{width}; published {published}",
            comparison.case,
            interval(comparison),
            comparison.ratio_median
        ))
    };
    let mut notes: Vec<String> = summary.comparisons.iter().filter_map(verdict).collect();
    notes.push(format!(
        "a region whose objects are never touched: {} blocks came to memory at most with separate \
         metadata, {} at least with metadata together",
        summary.separate_blocks_max, summary.together_blocks_min
    ));
    if summary.outside > 0 {
        notes.push(format!("{} objects are not in their heap", summary.outside));
    }
    if config.nodes < 2 {
        notes.push(
            "this machine has one memory node: fig. 9 repeats the calls on it, not a remote \
             node's latency"
                .into(),
        );
    }
    notes.push(format!(
        "{} allocations at most, published {}; regions: blocks of {}, {} in memory; touched \
         objects have {} at most, objects are replaced for {} s at most; node {}; means of {} \
         rounds, times are medians",
        config.objects,
        config.published_objects,
        format_bytes(config.block_bytes),
        format_bytes(config.cap_bytes),
        format_bytes(config.touched_bytes_max),
        config.churn_seconds_max,
        config.node,
        config.rounds
    ));
    notes
}

fn picture(summary: &Summary) -> Bars {
    let series = |name: &str, of: fn(&Comparison) -> Option<f64>| Series {
        name: name.to_owned(),
        values: summary.comparisons.iter().map(of).collect(),
    };
    Bars {
        title: "Allocations with metadata in DRAM over metadata beside the data".into(),
        unit: "time, separate over together".into(),
        categories: summary.comparisons.iter().map(|it| it.case.to_owned()).collect(),
        series: vec![
            series("here", |comparison| Some(comparison.ratio)),
            series("published", |comparison| comparison.published),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::load::Below;
    use super::*;
    use crate::measure::Scratch;

    fn config() -> Config {
        Config {
            objects: 1000,
            published_objects: PUBLISHED_OBJECTS,
            rounds: 2,
            node: 0,
            nodes: 1,
            block_bytes: BLOCK_BYTES,
            cap_bytes: CAP_BYTES,
            touched_bytes_max: TOUCHED_BYTES_MAX,
            churn_seconds_max: CHURN_SECONDS_MAX,
        }
    }

    fn made_up(case: &Case, metadata: Metadata, round: usize, ns: f64) -> Row {
        let separate = metadata == Metadata::Separate;
        let zeroed_blocks = if separate { 0 } else { 7 };
        let below = Below { zeroed_blocks, ..Below::default() };
        let line = Line {
            operations: 1000,
            ms: ns / 1e3,
            ns_per_operation: ns,
            metadata_bytes: 1 << 20,
            taken_bytes: 1 << 21,
            outside: 0,
            below: case.place.is_beyond().then_some(below),
        };
        let stage = Conditions { objects: 1000, node: 0, home: std::env::temp_dir() };
        row(case, &stage, metadata, round, line)
    }

    #[test]
    fn ratios_are_means_over_pairs_of_a_round() {
        let times = [(100.0, 100.0), (303.0, 300.0)];
        let rows: Vec<Row> = CASES
            .iter()
            .flat_map(|case| (0..).zip(times).map(move |(round, times)| (case, round, times)))
            .flat_map(|(case, round, (separate, together))| {
                [
                    made_up(case, Metadata::Together, round, together),
                    made_up(case, Metadata::Separate, round, separate),
                ]
            })
            .collect();
        let summary = summarise(&config(), &rows);
        let first = &summary.comparisons[0];
        assert!((first.ratio - 1.005).abs() < 1e-12, "{first:?}");
        let half = first.ratio_half_width.expect("two rounds");
        assert!((half - 12.706 * 0.005).abs() < 1e-9, "{half}");
        assert_eq!((first.published, first.within_tolerance), (Some(1.008), Some(true)));
        assert!((first.separate.ms - 0.2015).abs() < 1e-12, "{first:?}");
        assert_eq!(summary.comparisons[2].within_tolerance, None);
        assert_eq!((summary.separate_blocks_max, summary.together_blocks_min), (0, 7));
        assert_eq!(failures(&summary), 0);
        assert_eq!(failures(&Summary { separate_blocks_max: 1, outside: 1, ..summary }), 2);
        let finding = finding(&config(), &rows).expect("found");
        assert!(finding.notes[0].contains("inside 1.00 +- 0.03, which the interval is"));
        assert_eq!(finding.picture.series[1].values.iter().flatten().count(), 6);
        assert_eq!(finding.grid.len(), 2 * CASES.len());
    }

    #[test]
    fn separate_metadata_touch_no_region() {
        let home = Scratch::of(None, "allocations").expect("a directory");
        let stage = Conditions { objects: 5_000, node: 0, home: home.path().into() };
        for case in &CASES {
            let lines = WAYS.map(|metadata| measure(case, metadata, &stage, 1).expect("measured"));
            let came = lines.each_ref().map(|line| line.below.map(|below| below.came()));
            assert_eq!(came[0].is_some(), case.place.is_beyond(), "{}", case.name);
            if case.shows_the_allocator() {
                assert_eq!(came[0], Some(0), "{}", case.name);
                assert!(came[1] > Some(0), "{}", case.name);
            }
            assert!(lines.iter().all(|line| line.outside == 0 && line.metadata_bytes > 0));
        }
    }
}
