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
//! | `in_dram` | none, stated in the text: cost of memory beyond DRAM if all fits in DRAM |
//! | `footprint` | 6: bytes of data and of metadata |
//! | `separation` | 7a and 7b: metadata in DRAM over metadata beside the data |
//!
//! Compared cases alternate within a round, and the ratio of a round is that of its two runs: the
//! speed of devices drifts by more than the expected differences within a minute. For differences
//! of a few percent, two engines run each query in turn (`pair`). Every answer is compared with the
//! answer of the same tables before they were moved to a heap.

mod blocks;
mod figure;
mod footprint;
mod heap_case;
mod in_dram;
mod options;
mod pair;
mod row;
mod separation;
mod sizes;
mod tables;

use serde::Serialize;
use terrace_sys::size::format_bytes;

use crate::error::{BenchError, Result};
use crate::experiment::{Common, Experiment};
use crate::report::{Bars, Grid, Machine, Picture, Report};
use crate::setting::{Conditions, Finding, Setting};

use blocks::Curve;
use figure::Figure;
use footprint::Share;
use heap_case::{HeapCase, Passes, Visit};
use in_dram::Fit;
pub(crate) use options::SegmentOptions;
use pair::Pair;
use row::{Group, Line, Row};
use separation::Change;
use sizes::{engine, engine_count, has_memory, scales};
use tables::Tables;

/// Conditions and options of the experiment.
#[derive(Clone, Debug, Serialize)]
struct Config {
    #[serde(flatten)]
    conditions: Conditions,
    #[serde(flatten)]
    options: SegmentOptions,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    blocks: Vec<Curve>,
    fitting: Vec<Fit>,
    footprint: Vec<Share>,
    queries: Vec<Change>,
    migration: Vec<Change>,
}

/// Experiment `segments`: queries over tables in heaps.
pub(crate) struct Segments;

impl Experiment for Segments {
    const NAME: &'static str = "segments";
    const QUESTION: &'static str =
        "what do tables in a heap cost, and does it matter where its metadata are?";
    const COMMON: &'static [Common] = &[Common::Scale, Common::Rounds, Common::Queries];
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

/// Runs all visits of a figure. Before that it runs the first one without queries and without
/// measuring it, for one-time set-up.
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
        let Visit { place: HeapCase { memory, case, .. }, round, .. } = visit;
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
        more: pictures.map(|(name, bars)| Picture::new(name, bars)).collect(),
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
    use std::collections::BTreeMap;
    use std::num::NonZeroUsize;

    use super::options::Block;
    use super::row::Footprint;
    use super::*;
    use crate::suite::table::Benchmark;

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
