//! Cost of keeping tables in a heap, and the effect of the heap's block size, retention and
//! metadata.
//!
//! Runs TPC-H and TPC-DS over plain tables whose segments are all moved to a heap: figures 5, 6, 7a
//! and 7b of Weisgut et al., "Separated Allocator Metadata in Disaggregated In-Memory Databases:
//! Friend or Foe?" (2022), section IV.B to IV.E. Heaps are over a file, or over emulated memory
//! with the latency that the study's appliance may have had (`emu`).
//!
//! | module | figure |
//! |---|---|
//! | `blocks` | 5: blocks from 4 KiB to 4 MiB, in an arena that retains freed memory or not |
//! | `in_dram` | none, stated in the text: cost of memory beyond DRAM if everything fits |
//! | `footprint` | 6: bytes of data and of metadata |
//! | `separation` | 7a and 7b: metadata in DRAM over metadata beside the data |
//!
//! Compared cases alternate within a round, and the ratio of a round is that of its two runs: the
//! speed of devices drifts by more than the expected differences within a minute. For differences
//! of a few percent, two engines run each query in turn (`pair`). Every answer is compared with the
//! answer of the same tables before they were moved to a heap.

mod blocks;
mod footprint;
mod in_dram;
mod pair;
mod place;
mod separation;
mod sizes;
mod tables;

use std::collections::BTreeMap;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::str::FromStr;

use clap::Args;
use serde::Serialize;
use terrace_heap::HeapStats;
use terrace_sys::size::format_bytes;

use crate::error::{BenchError, Result};
use crate::experiment::Experiment;
use crate::flag::{scale, tpcds_query};
use crate::measure::mean;
use crate::report::{Bars, Grid, Machine, Picture, Report};
use crate::setting::{Conditions, Finding, Setting};
use crate::suite::table::Benchmark;

use blocks::{Block, Curve};
use footprint::Share;
use in_dram::Fit;
use pair::Pair;
use place::{Passes, Place, Visit};
use separation::Change;
use sizes::{engine, engine_count, has_memory, scales};
use tables::Tables;

/// A figure of the study.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub(crate) enum Figure {
    /// 5: run time by block size.
    #[serde(rename = "5")]
    Blocks,
    /// Run time with everything in memory, relative to DRAM.
    #[serde(rename = "fit")]
    Fitting,
    /// 6: bytes of data and metadata.
    #[serde(rename = "6")]
    Footprint,
    /// 7a: run time by location of metadata.
    #[serde(rename = "7a")]
    Queries,
    /// 7b: time of migration by location of metadata.
    #[serde(rename = "7b")]
    Migration,
}

impl Figure {
    /// All figures.
    pub const ALL: [Figure; 5] =
        [Figure::Blocks, Figure::Fitting, Figure::Footprint, Figure::Queries, Figure::Migration];

    /// Returns the number in the study.
    pub fn name(self) -> &'static str {
        match self {
            Figure::Blocks => "5",
            Figure::Fitting => "fit",
            Figure::Footprint => "6",
            Figure::Queries => "7a",
            Figure::Migration => "7b",
        }
    }

    /// Returns true if two engines run its queries in turn.
    fn is_of_pairs(self) -> bool {
        matches!(self, Figure::Fitting | Figure::Queries)
    }

    /// Returns true if queries run for it.
    fn asks(self) -> bool {
        matches!(self, Figure::Blocks | Figure::Fitting | Figure::Queries)
    }
}

impl FromStr for Figure {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<Figure> {
        let found = Figure::ALL.into_iter().find(|figure| figure.name() == text);
        found.ok_or_else(|| BenchError::input("there are the figures 5, fit, 6, 7a and 7b"))
    }
}

/// Options of the experiment.
#[derive(Args, Clone, Debug, Serialize)]
pub(crate) struct SegmentOptions {
    /// Figures of the study to repeat: 5 (blocks), fit (queries with everything in memory; needs
    /// the memory of two engines), 6 (footprint), 7a (queries), 7b (migration)
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "5,fit,6,7a,7b")]
    figures: Vec<Figure>,

    /// Benchmarks whose tables and queries are used: tpch, tpcds
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "tpch")]
    #[serde(serialize_with = "names")]
    benchmarks: Vec<Benchmark>,

    /// TPC-DS queries to run, such as 1,3,72; all by default
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = tpcds_query)]
    tpcds_queries: Vec<u32>,

    /// Directory with the texts of the TPC-DS queries; by default they come from a package
    #[arg(long, value_name = "DIR")]
    queries_dir: Option<PathBuf>,

    /// Memory of the heaps, as in CREATE HEAP: file, file:DIRECTORY, emu, emu@LATENCY
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_value = "emu")]
    memories: Vec<String>,

    /// Block sizes of figure 5: 4KiB, 16KiB, 32KiB, 64KiB, 256KiB, 1MiB, 4MiB; all by default
    #[arg(long, value_name = "LIST", value_delimiter = ',', default_values_t = Block::ALL,
          hide_default_value = true)]
    blocks: Vec<Block>,

    /// Largest scale of figures 6 and 7b, which are also measured at twice, four and eight times
    /// the scale; 8 is published
    #[arg(long, value_name = "FACTOR", value_parser = scale)]
    scale_max: Option<f64>,

    /// Measured runs of each query in each round; 5 are published for figure 7a
    #[arg(long, value_name = "N", default_value = "1")]
    runs: NonZeroUsize,

    /// Warm-up runs of each query, for figure 7a; 5 are published
    #[arg(long, value_name = "N", default_value_t = 1)]
    warm_runs: usize,
}

fn names<S: serde::Serializer>(
    benchmarks: &[Benchmark],
    serializer: S,
) -> std::result::Result<S::Ok, S::Error> {
    serializer.collect_seq(benchmarks.iter().map(|benchmark| benchmark.name()))
}

/// Conditions and options of the experiment.
#[derive(Clone, Debug, Serialize)]
struct Config {
    #[serde(flatten)]
    conditions: Conditions,
    #[serde(flatten)]
    options: SegmentOptions,
}

/// Bytes that the move of the tables took, as the allocator counts them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
struct Footprint {
    small_bytes: u64,
    large_bytes: u64,
    metadata_bytes: u64,
    /// Bytes of address space.
    taken_bytes: u64,
}

impl Footprint {
    fn between(before: &HeapStats, after: &HeapStats) -> Footprint {
        let more = |of: fn(&HeapStats) -> u64| of(after).saturating_sub(of(before));
        Footprint {
            small_bytes: more(|stats| stats.small_bytes),
            large_bytes: more(|stats| stats.large_bytes),
            metadata_bytes: more(|stats| stats.metadata_bytes),
            taken_bytes: more(|stats| stats.taken_bytes),
        }
    }
}

/// Measurements of a visit.
#[derive(Clone, Debug, Serialize)]
struct Row {
    figure: Figure,
    benchmark: &'static str,
    scale: f64,
    memory: String,
    case: String,
    round: usize,
    migration_seconds: f64,
    /// Sum of the mean times of the queries.
    run_seconds: f64,
    /// Mean time of each query over its measured runs.
    query_seconds: BTreeMap<u32, f64>,
    #[serde(flatten)]
    footprint: Footprint,
    /// Numbers of the queries with wrong answers.
    wrong: Vec<u32>,
}

/// Times of the measured runs of each query.
type QuerySeconds = BTreeMap<u32, Vec<f64>>;

impl Row {
    /// Sets the times of the row: the mean for each query, and their sum.
    fn take(&mut self, seconds: &QuerySeconds) {
        let of_query = |(number, all): (&u32, &Vec<f64>)| Some((*number, mean(all)?));
        self.query_seconds = seconds.iter().filter_map(of_query).collect();
        self.run_seconds = self.query_seconds.values().sum();
    }
}

/// Rows of one figure over the same tables.
#[derive(Clone, Copy, Debug)]
struct Group<'a> {
    rows: &'a [Row],
    figure: Figure,
    benchmark: &'static str,
    scale: f64,
}

impl<'a> Group<'a> {
    /// Returns the groups of a figure, in the order in which they were measured.
    fn all(rows: &'a [Row], figure: Figure) -> Vec<Group<'a>> {
        let mut groups: Vec<Group<'a>> = Vec::new();
        for row in rows.iter().filter(|row| row.figure == figure) {
            if !groups.iter().any(|group| group.has(row)) {
                groups.push(Group { rows, figure, benchmark: row.benchmark, scale: row.scale });
            }
        }
        groups
    }

    fn has(&self, row: &Row) -> bool {
        let same_scale = row.scale.total_cmp(&self.scale).is_eq();
        row.figure == self.figure && row.benchmark == self.benchmark && same_scale
    }

    /// Returns the memories of the heaps except for DRAM, in the order in which they were measured.
    fn memories(&self) -> Vec<&'a str> {
        let mut memories: Vec<&str> = Vec::new();
        for row in self.rows.iter().filter(|row| self.has(row) && row.memory != "dram") {
            if !memories.contains(&row.memory.as_str()) {
                memories.push(&row.memory);
            }
        }
        memories
    }

    /// Returns the rows of a case, ordered by round.
    fn rows(&self, memory: &str, case: &str) -> Vec<&'a Row> {
        let same = |row: &&Row| self.has(row) && row.memory == memory && row.case == case;
        let mut rows: Vec<&Row> = self.rows.iter().filter(same).collect();
        rows.sort_by_key(|row| row.round);
        rows
    }

    /// Returns a value of each row of a case, ordered by round.
    fn of(&self, memory: &str, case: &str, what: fn(&Row) -> f64) -> Vec<f64> {
        self.rows(memory, case).into_iter().map(what).collect()
    }
}

/// Returns the ratios of pairs of values.
fn ratios(above: &[f64], below: &[f64]) -> Vec<f64> {
    above.iter().zip(below).map(|(above, below)| above / below).collect()
}

/// A line of the table: measured and published results.
#[derive(Clone, Debug, Default)]
struct Line {
    case: String,
    seconds: String,
    found: String,
    published: String,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    blocks: Vec<Curve>,
    fitting: Vec<Fit>,
    footprint: Vec<Share>,
    queries: Vec<Change>,
    migration: Vec<Change>,
}

/// Queries over tables in heaps.
pub(crate) struct Segments;

impl Experiment for Segments {
    const NAME: &'static str = "segments";
    const QUESTION: &'static str =
        "what do tables in a heap cost, and does it matter where its metadata are?";
    type Options = SegmentOptions;

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if tables cannot be loaded or moved, if a query fails, or if emulated memory would
    /// exceed that of the machine. Wrong answers are counted.
    async fn run(
        setting: &Setting,
        options: &SegmentOptions,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Finding> {
        let mut rows = Vec::new();
        for benchmark in &options.benchmarks {
            let scales = scales(setting.scale, options.scale_max);
            for (index, scale) in scales.iter().copied().enumerate() {
                let mut figures = options.figures.clone();
                figures.retain(|figure| index == 0 || !figure.asks());
                if figures.is_empty() {
                    continue;
                }
                let asks = figures.iter().any(|figure| figure.asks());
                let engines = if index == 0 { engine_count(options) } else { 1 };
                let tables =
                    Tables::load((setting, options), (*benchmark, scale, asks), engines, observe)
                        .await?;
                if index == 0 {
                    let last = scales.last().copied().unwrap_or(scale);
                    let data_bytes =
                        (tables.data_bytes << (scales.len() - 1)).max(engines * tables.data_bytes);
                    let dram_bytes = engine(setting, last, 1)
                        .dram_bytes
                        .max(engines * engine(setting, scale, engines).dram_bytes);
                    let machine = Machine::detect();
                    has_memory(&options.memories, data_bytes, dram_bytes, machine.memory_bytes)?;
                }
                let (pairs, rest): (Vec<_>, Vec<_>) =
                    figures.into_iter().partition(|figure| figure.is_of_pairs());
                for figure in rest {
                    measure((setting, options), figure, &tables, &mut rows, observe).await?;
                }
                if !pairs.is_empty() {
                    let both = Pair::load((setting, options), &tables, observe).await?;
                    for figure in pairs {
                        both.measure((setting, options), figure, &mut rows, observe).await?;
                    }
                }
            }
        }
        let own = engine(setting, setting.scale, engine_count(options));
        let conditions = setting.conditions(&own, &tables::ENCODING.to_string());
        finding(&Config { conditions, options: options.clone() }, &rows)
    }
}

/// Runs all visits of a figure. The first one is made once more before, unmeasured, so that
/// one-time set-up is done.
async fn measure(
    (setting, options): (&Setting, &SegmentOptions),
    figure: Figure,
    tables: &Tables,
    rows: &mut Vec<Row>,
    observe: &mut dyn FnMut(&str),
) -> Result<()> {
    let visits = visits(figure, (setting, options), tables.data_bytes);
    if let Some(first) = visits.first() {
        tables.visit(&Visit { passes: Passes::None, ..first.clone() }).await?;
    }
    for visit in &visits {
        let Visit { place: Place { memory, case, .. }, round, .. } = visit;
        let (name, benchmark, scale) = (figure.name(), tables.benchmark.name(), tables.scale);
        let round = round + 1;
        observe(&format!("figure {name}, {benchmark} {scale}: {memory}, {case}, round {round}"));
        rows.push(tables.visit(visit).await?);
    }
    Ok(())
}

/// Returns the visits of a figure, in order.
fn visits(
    figure: Figure,
    (setting, options): (&Setting, &SegmentOptions),
    data_bytes: u64,
) -> Vec<Visit> {
    let rounds = match figure {
        // Byte counts do not vary.
        Figure::Footprint => 1,
        _ => setting.rounds.get(),
    };
    let mut visits = Vec::new();
    for round in 0..rounds {
        for memory in &options.memories {
            visits.extend(match figure {
                Figure::Blocks => blocks::visits(memory, data_bytes, round, options),
                Figure::Footprint => footprint::visits(memory, data_bytes),
                _ => separation::visits(figure, memory, data_bytes, round, options).to_vec(),
            });
        }
    }
    visits
}

fn summarise(rows: &[Row]) -> Summary {
    let groups = |figure| Group::all(rows, figure);
    Summary {
        blocks: groups(Figure::Blocks).iter().flat_map(blocks::curves).collect(),
        fitting: groups(Figure::Fitting).iter().flat_map(in_dram::fits).collect(),
        footprint: groups(Figure::Footprint).iter().flat_map(footprint::shares).collect(),
        queries: groups(Figure::Queries).iter().flat_map(separation::changes).collect(),
        migration: groups(Figure::Migration).iter().flat_map(separation::changes).collect(),
    }
}

fn finding(config: &Config, rows: &[Row]) -> Result<Finding> {
    let summary = summarise(rows);
    let mut pictures = pictures(&summary).into_iter();
    let first = pictures.next().map(|(_, bars)| bars);
    Ok(Finding {
        failed: rows.iter().map(|row| row.wrong.len()).sum(),
        notes: notes(config, rows, &summary),
        picture: first.ok_or_else(|| BenchError::input("name a figure and a benchmark"))?,
        more: pictures.map(|(name, bars)| Picture::Bars { name, bars }).collect(),
        report: Report::new(Segments::NAME, config, rows, &summary)?,
        grid: grid(&summary),
    })
}

/// Draws the pictures, with their names, in the order of the study.
fn pictures(summary: &Summary) -> Vec<(String, Bars)> {
    let blocks = blocks::pictures(&summary.blocks);
    let fitting = in_dram::picture(&summary.fitting).map(|bars| ("fit".to_owned(), bars));
    let footprint = footprint::picture(&summary.footprint).map(|bars| ("6".to_owned(), bars));
    let changes = [("7a", &summary.queries), ("7b", &summary.migration)];
    let changes = changes.into_iter().filter_map(|(name, changes)| {
        separation::picture(name, changes).map(|bars| (name.to_owned(), bars))
    });
    blocks.into_iter().chain(fitting).chain(footprint).chain(changes).collect()
}

fn grid(summary: &Summary) -> Grid {
    let mut grid = Grid::new(["fig.", "data", "memory", "case", "s", "found", "published"]);
    let mut push = |figure: &str, benchmark: &str, scale: f64, memory: &str, lines: Vec<Line>| {
        let data = format!("{benchmark} {scale}");
        for Line { case, seconds, found, published } in lines {
            let memory = memory.to_owned();
            grid.push([figure.into(), data.clone(), memory, case, seconds, found, published]);
        }
    };
    for curve in &summary.blocks {
        push("5", curve.benchmark, curve.scale, &curve.memory, curve.lines());
    }
    for fit in &summary.fitting {
        push("fit", fit.benchmark, fit.scale, &fit.memory, fit.lines());
    }
    for share in &summary.footprint {
        push("6", share.benchmark, share.scale, &share.memory, share.lines());
    }
    for (figure, changes) in [("7a", &summary.queries), ("7b", &summary.migration)] {
        for change in changes {
            push(figure, change.benchmark, change.scale, &change.memory, change.lines());
        }
    }
    grid
}

fn notes(config: &Config, rows: &[Row], summary: &Summary) -> Vec<String> {
    let wrong = rows.iter().filter(|row| !row.wrong.is_empty());
    let mut notes: Vec<String> = wrong
        .map(|row| {
            let Row { benchmark, memory, case, wrong, .. } = row;
            format!("{benchmark}, {memory}, {case}: wrong answers of {wrong:?}")
        })
        .collect();
    notes.extend(summary.blocks.iter().map(Curve::note));
    notes.extend(summary.fitting.iter().map(Fit::note));
    for changes in [&summary.queries, &summary.migration] {
        notes.extend(separation::note(changes));
    }
    let Config { conditions, options } = config;
    notes.push(format!(
        "found: figure 5 and fit time over that in DRAM, figures 7a and 7b metadata separate over \
         together; means of {} rounds with 95 % confidence intervals, a fifth of the data in DRAM \
         at most; {} tables, budget {}, {} threads, {} runs of a query after {}",
        conditions.rounds,
        conditions.encoding,
        format_bytes(conditions.dram_bytes),
        conditions.threads,
        options.runs,
        options.warm_runs
    ));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn options() -> SegmentOptions {
        SegmentOptions {
            figures: Figure::ALL.to_vec(),
            benchmarks: vec![Benchmark::TpcH],
            tpcds_queries: vec![],
            queries_dir: None,
            memories: vec!["file".into(), "emu".into()],
            blocks: Block::ALL.to_vec(),
            scale_max: None,
            runs: NonZeroUsize::MIN,
            warm_runs: 1,
        }
    }

    /// Creates a row of TPC-H at scale 1 for a visit, with made-up times.
    pub(super) fn made_up(visit: &Visit, migration_seconds: f64, run_seconds: f64) -> Row {
        Row {
            figure: visit.figure,
            benchmark: "tpch",
            scale: 1.0,
            memory: visit.place.memory.clone(),
            case: visit.place.case.clone(),
            round: visit.round,
            migration_seconds,
            run_seconds,
            query_seconds: BTreeMap::new(),
            footprint: Footprint {
                small_bytes: 100,
                large_bytes: 900,
                metadata_bytes: 5,
                taken_bytes: 1100,
            },
            wrong: vec![],
        }
    }

    #[test]
    fn figures_have_the_names_of_the_study() {
        for figure in Figure::ALL {
            assert_eq!(figure.name().parse::<Figure>().expect("known"), figure);
            assert_eq!(serde_json::to_value(figure).expect("json"), figure.name());
        }
        assert!("8".parse::<Figure>().expect_err("elsewhere").to_string().contains("7a and 7b"));
    }

    #[test]
    fn a_finding_has_lines_and_pictures_for_every_figure() {
        let options = options();
        let mut rows = Vec::new();
        for memory in &options.memories {
            rows.extend(blocks::visits(memory, 1000, 0, &options));
            rows.extend(in_dram::visits(memory, 1000, 0, &options));
            rows.extend(footprint::visits(memory, 1000));
            for figure in [Figure::Queries, Figure::Migration] {
                rows.extend(separation::visits(figure, memory, 1000, 0, &options));
            }
        }
        let mut rows: Vec<Row> = rows.iter().map(|visit| made_up(visit, 1.0, 2.0)).collect();
        rows[3].wrong = vec![7, 21];
        let conditions = Conditions {
            scale: 1.0,
            dram_bytes: 1,
            threads: 2,
            rounds: 1,
            encoding: "plain".into(),
        };
        let finding = finding(&Config { conditions, options }, &rows).expect("found");
        assert_eq!(finding.failed, 2);
        assert!(finding.notes[0].contains("wrong answers of [7, 21]"), "{:?}", finding.notes);
        let names: Vec<&str> = finding.more.iter().map(Picture::name).collect();
        assert_eq!(names, ["fit", "6", "7a", "7b"]);
        let table = finding.grid.to_string();
        for figure in Figure::ALL {
            let begins = format!("\n{}", figure.name());
            assert!(table.contains(&begins), "{begins}: {table}");
        }
        assert_eq!(finding.report.config["benchmarks"][0], "tpch");
    }
}
