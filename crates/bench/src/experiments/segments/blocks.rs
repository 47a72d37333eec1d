//! Figure 5: run time of queries beyond DRAM by block size, in an arena that retains freed memory
//! and in one that returns it.

use serde::Serialize;
use terrace_sys::size::format_bytes;

use super::figure::Figure;
use super::heap_case::{BLOCK, HeapCase, Passes, Visit, beside, case, in_turn};
use super::options::{Block, SegmentOptions};
use super::row::{Group, Line, ratios};
use crate::measure::{Estimate, mean};
use crate::report::{Bars, Series};

const RETAIN: [&str; 2] = ["on", "off"];
/// Block size with the lowest run time, as published, by benchmark.
const PUBLISHED_BEST: [(&str, &str); 2] = [("tpch", BLOCK), ("tpcds", "32KiB")];
/// Only block size with which retaining is faster, as published for TPC-H.
const PUBLISHED_ON_IS_FASTER: &str = "4KiB";
/// Factor for the number of passes in DRAM, which take a tenth of the time of the others and are
/// the baseline for all of them.
const IN_DRAM_PASSES: usize = 3;

/// Results for one kind of memory, by block size.
#[derive(Clone, Debug, Serialize)]
pub(super) struct Curve {
    pub(super) benchmark: &'static str,
    pub(super) scale: f64,
    pub(super) memory: String,
    dram_seconds: f64,
    points: Vec<Point>,
    best_block: Option<&'static str>,
    published_best_block: Option<&'static str>,
}

/// Results for one block size.
#[derive(Clone, Debug, Serialize)]
struct Point {
    block: &'static str,
    on: Side,
    off: Side,
    /// Ratio of the run times with retain off to those with retain on.
    off_over_on: Estimate,
    /// True if retain off was published to be faster; `None` if not published.
    published_off_is_faster: Option<bool>,
}

#[derive(Clone, Copy, Debug, Serialize)]
struct Side {
    seconds: f64,
    over_dram: Estimate,
    taken_bytes: f64,
}

/// Returns the visits of a round: DRAM, then all block sizes. The order of retain on and off
/// changes with every round.
pub(super) fn visits(
    memory: &str,
    data_bytes: u64,
    round: usize,
    options: &SegmentOptions,
) -> Vec<Visit> {
    let passes = options.runs.get();
    let visit = |place, passes| {
        let passes = Passes::Shuffled { warm_ups: 0, passes, seed: round as u64 };
        Visit { figure: Figure::Blocks, place, passes, round }
    };
    let dram = HeapCase::dram_beside(memory, data_bytes);
    let mut visits = vec![visit(dram, IN_DRAM_PASSES * passes)];
    let blocks = &options.blocks;
    for step in 0..blocks.len() {
        // The order varies, so that no block size always follows the same other one.
        let block = blocks[(step + round * 3) % blocks.len()].0;
        for retain in in_turn(round, RETAIN) {
            visits.push(visit(HeapCase::capped(memory, data_bytes, block, retain), passes));
        }
    }
    visits
}

pub(super) fn curves(group: &Group<'_>) -> Vec<Curve> {
    group.memories().into_iter().map(|memory| curve(group, memory)).collect()
}

fn curve(group: &Group<'_>, memory: &str) -> Curve {
    let dram = group.of("dram", &beside(memory), |row| row.run_seconds);
    let seconds = |case: &str| group.of(memory, case, |row| row.run_seconds);
    let side = |case: &str| Side {
        seconds: mean(&seconds(case)).unwrap_or(f64::NAN),
        over_dram: Estimate::of(&ratios(&seconds(case), &dram)),
        taken_bytes: mean(&group.of(memory, case, |row| row.footprint.taken_bytes as f64))
            .unwrap_or(f64::NAN),
    };
    let is_tpch = group.benchmark == "tpch";
    let point = |block: &'static str| {
        let [on, off] = RETAIN.map(|retain| case(block, retain));
        Point {
            block,
            on: side(&on),
            off: side(&off),
            off_over_on: Estimate::of(&ratios(&seconds(&off), &seconds(&on))),
            published_off_is_faster: is_tpch.then_some(block != PUBLISHED_ON_IS_FASTER),
        }
    };
    let has = |block: &&'static str| !seconds(&case(block, RETAIN[0])).is_empty();
    let sizes = Block::ALL.into_iter().map(|block| block.0);
    let points: Vec<Point> = sizes.filter(has).map(point).collect();
    let least = |point: &Point| point.on.over_dram.mean.min(point.off.over_dram.mean);
    let best = points.iter().min_by(|a, b| least(a).total_cmp(&least(b)));
    let published = PUBLISHED_BEST.iter().find(|(benchmark, _)| *benchmark == group.benchmark);
    Curve {
        benchmark: group.benchmark,
        scale: group.scale,
        memory: memory.to_owned(),
        dram_seconds: mean(&dram).unwrap_or(f64::NAN),
        best_block: best.map(|point| point.block),
        published_best_block: published.map(|(_, block)| *block),
        points,
    }
}

impl Curve {
    pub(super) fn lines(&self) -> Vec<Line> {
        let line = |case: &str, seconds: f64, found: String, published: String| Line {
            case: case.to_owned(),
            seconds: format!("{seconds:.2}"),
            found,
            published,
        };
        let mut lines = vec![line("dram", self.dram_seconds, String::new(), "1".into())];
        for point in &self.points {
            let is_best = self.published_best_block == Some(point.block);
            for (retain, side) in RETAIN.into_iter().zip([point.on, point.off]) {
                let case = case(point.block, retain);
                let faster =
                    point.published_off_is_faster.is_some_and(|off| off == (retain == "off"));
                let words = [(is_best, "best block"), (faster, "the faster of the two")];
                let words = words.iter().filter(|(holds, _)| *holds).map(|(_, word)| *word);
                let published = words.collect::<Vec<_>>().join(", ");
                lines.push(line(&case, side.seconds, side.over_dram.to_string(), published));
            }
        }
        lines
    }

    pub(super) fn note(&self) -> String {
        let off: Vec<String> = self
            .points
            .iter()
            .map(|point| format!("{} {}", point.block, point.off_over_on))
            .collect();
        let taken = |of: fn(&Point) -> f64| {
            let most = self.points.iter().map(of).fold(0.0, f64::max);
            format_bytes(format!("{most:.0}").parse().unwrap_or(0))
        };
        format!(
            "{} {}, {}: best block {} (published {}); retain off over on: {} (published below 1 \
             but for 4KiB); addresses at most {} with retain on, {} without",
            self.benchmark,
            self.scale,
            self.memory,
            self.best_block.unwrap_or("none"),
            self.published_best_block.unwrap_or("none"),
            off.join(", "),
            taken(|point| point.on.taken_bytes),
            taken(|point| point.off.taken_bytes),
        )
    }
}

/// Draws a picture for each benchmark.
pub(super) fn pictures(curves: &[Curve]) -> Vec<(String, Bars)> {
    let mut benchmarks: Vec<&str> = curves.iter().map(|curve| curve.benchmark).collect();
    benchmarks.dedup();
    let picture = |benchmark: &str| {
        let own: Vec<&Curve> = curves.iter().filter(|curve| curve.benchmark == benchmark).collect();
        let series = own.iter().flat_map(|curve| {
            let values = |of: fn(&Point) -> f64| curve.points.iter().map(of).map(Some).collect();
            let name = |retain: &str| format!("{}, retain {retain}", curve.memory);
            [
                Series { name: name("on"), values: values(|point| point.on.over_dram.mean) },
                Series { name: name("off"), values: values(|point| point.off.over_dram.mean) },
            ]
        });
        let best = own.first().and_then(|curve| curve.published_best_block).unwrap_or("none");
        let blocks = own.first().into_iter().flat_map(|curve| &curve.points);
        let bars = Bars {
            title: format!(
                "Figure 5: {benchmark}, a fifth of the data in DRAM (published: best at {best})"
            ),
            unit: "time over that in DRAM".into(),
            categories: blocks.map(|point| point.block.to_owned()).collect(),
            series: series.collect(),
        };
        (format!("5-{benchmark}"), bars)
    };
    benchmarks.into_iter().map(picture).collect()
}

#[cfg(test)]
mod tests {
    use super::super::tests::{made_up, options};
    use super::super::{Row, summarise};
    use super::*;

    #[test]
    fn every_round_has_every_case_beside_its_twin() {
        let options = options();
        let [even, odd] = [0, 1].map(|round| visits("emu", 1000, round, &options));
        assert_eq!(even.len(), 1 + 2 * Block::ALL.len());
        let chosen = SegmentOptions { blocks: vec![Block(BLOCK)], ..options };
        let cases = visits("emu", 1000, 1, &chosen).into_iter().map(|visit| visit.place.case);
        let expected = ["dram, beside emu", "256KiB, retain off", "256KiB, retain on"];
        assert_eq!(cases.collect::<Vec<_>>(), expected);
        assert_eq!("256KiB".parse::<Block>().ok(), Some(chosen.blocks[0]));
        assert!("3KiB".parse::<Block>().is_err_and(|error| error.to_string().contains("32KiB")));
        let cases = |visits: &[Visit]| {
            let mut cases: Vec<String> =
                visits.iter().map(|visit| visit.place.case.clone()).collect();
            cases.sort();
            cases
        };
        assert_eq!(cases(&even), cases(&odd));
        assert_eq!(even[0].place.case, "dram, beside emu");
        assert_eq!(even[1].place.case, "4KiB, retain on");
        assert_eq!(odd[1].place.case, "64KiB, retain off");
        assert_eq!(odd[2].place.case, "64KiB, retain on");
        assert_eq!(even[0].passes, Passes::Shuffled { warm_ups: 0, passes: 3, seed: 0 });
        assert_eq!(odd[4].passes, Passes::Shuffled { warm_ups: 0, passes: 1, seed: 1 });
    }

    #[test]
    fn times_are_compared_with_dram_of_the_same_round() {
        let options = options();
        let seconds = |visit: &Visit| match visit.place.case.as_str() {
            "dram, beside file" => [1.0, 2.0][visit.round],
            "64KiB, retain off" => [3.0, 7.0][visit.round],
            "64KiB, retain on" => [4.0, 8.0][visit.round],
            _ => [5.0, 10.0][visit.round],
        };
        let visits = [0, 1].map(|round| visits("file", 1000, round, &options));
        let rows: Vec<Row> =
            visits.iter().flatten().map(|visit| made_up(visit, 1.0, seconds(visit))).collect();
        let curve = &summarise(&rows).blocks[0];
        assert_eq!((curve.best_block, curve.published_best_block), (Some("64KiB"), Some("256KiB")));
        let point = &curve.points[3];
        assert!((point.off.over_dram.mean - 3.25).abs() < 1e-9, "{point:?}");
        assert!((point.off_over_on.mean - 0.8125).abs() < 1e-9, "{point:?}");
        assert_eq!(point.published_off_is_faster, Some(true));
        assert_eq!(curve.points[0].published_off_is_faster, Some(false));
        assert!(curve.note().contains("best block 64KiB (published 256KiB)"));
        let lines = curve.lines();
        assert_eq!(lines.len(), 1 + 2 * Block::ALL.len());
        assert_eq!(lines[1].published, "the faster of the two", "4 KiB, on");
        assert_eq!(lines[10].published, "best block, the faster of the two", "256 KiB, off");
        let (name, bars) = &pictures(&summarise(&rows).blocks)[0];
        assert_eq!(name, "5-tpch");
        assert_eq!(bars.series[1].values[3], Some(3.25));
    }
}
