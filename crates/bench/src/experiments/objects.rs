//! Memory and time per object of the small-object store.
//!
//! Repeats the local experiments of Nothaas et al., "DXRAM's Local Memory Management" (2019),
//! sections VI.A and VI.B.
//!
//! | module | figure |
//! |---|---|
//! | `overhead` | 3: total bytes of objects of 8 to 256 bytes, as the kernel counts them |
//! | `rates` | operations per processor second: creates, reads, reads in batches of 32 |
//! | `loads` | 4 to 7: YCSB-A and Facebook-B, -D and -F with 1 to 128 threads, with latencies |
//! | `breakdown` | 8: the steps of a get |
//! | `peers` | rates of in-memory maps compared with those of the store |
//! | `durability` | puts with a log, puts during a dump, and restarts from logs and dumps |
//! | `churn` | creates and removes in a full store |
//! | `beyond_dram` | gets from a store larger than DRAM |
//!
//! A rate is the number of all operations divided by the elapsed time. The study's program adds up
//! the rates of threads and kinds of operations, which gives about twice that for two kinds.

mod beyond_dram;
mod breakdown;
mod churn;
mod config;
mod durability;
mod loads;
mod overhead;
mod peers;
mod popularity;
mod rates;
mod store;
mod targets;

use std::str::FromStr;
use std::time::Duration;

use clap::{Args, value_parser};
use serde::Serialize;

use self::config::Config;
use self::popularity::Popularity;
use self::targets::{TARGETS, Targets};
use crate::error::{BenchError, Result};
use crate::experiment::{Common, Experiment};
use crate::flag::seconds;
use crate::measure::Scratch;
use crate::report::{Bars, Grid, Picture, Report};
use crate::setting::{Finding, Setting};

/// Duration of one run, as a share of the option `--seconds`.
const SHARE: f64 = 0.1;

#[derive(Clone, Debug, Serialize)]
#[serde(tag = "experiment", rename_all = "kebab-case")]
enum Row {
    Overhead(overhead::Overhead),
    Rate(rates::Rate),
    Load(loads::Load),
    Breakdown(breakdown::Breakdown),
    Peer(peers::Turn),
    Lasting(durability::Lasting),
    Churn(churn::Churn),
    Larger(beyond_dram::Far),
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    overhead: Vec<overhead::Overhead>,
    rates: Vec<rates::Rate>,
    loads: Vec<loads::Load>,
    breakdowns: Vec<breakdown::Breakdown>,
    peers: Vec<peers::Turn>,
    lasting: Vec<durability::Lasting>,
    churn: Option<churn::Churn>,
    larger: Vec<beyond_dram::Far>,
    targets: Targets,
}

/// Options of the experiment.
#[derive(Args, Clone, Debug)]
pub(crate) struct ObjectOptions {
    /// Number of objects; figure 3 is published with 100000000
    #[arg(long, value_name = "N", default_value_t = 1_000_000,
          value_parser = value_parser!(u64).range(1..=100_000_000))]
    objects: u64,

    /// Compare with DashMap, papaya and scc instead of the figures; requires a program built with
    /// --features peers
    #[arg(long)]
    peers: bool,

    /// Measure logs, dumps and starts from them instead of the figures
    #[arg(long)]
    lasting: bool,

    /// Create and remove objects for this many seconds in a full store instead of the figures; it
    /// has 512 MiB unless --dram is given
    #[arg(long = "churn", value_name = "SECONDS", value_parser = seconds)]
    churn_seconds: Option<f64>,

    /// Memory of the objects: dram, or region for a store larger than DRAM instead of the figures,
    /// of which a quarter is in memory unless --dram is given
    #[arg(long, value_name = "MEMORY", default_value = "dram")]
    memory: ObjectHome,

    /// Duration of the measurement in seconds
    #[arg(long, value_name = "S", default_value_t = 10.0, value_parser = seconds)]
    seconds: f64,
}

/// Memory that holds the objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ObjectHome {
    /// In DRAM.
    Dram,
    /// In a region over a file, with only a part of it in memory.
    Region,
}

impl FromStr for ObjectHome {
    type Err = BenchError;

    fn from_str(text: &str) -> Result<ObjectHome> {
        match text {
            "dram" => Ok(ObjectHome::Dram),
            "region" => Ok(ObjectHome::Region),
            _ => Err(BenchError::input("objects are in dram or in a region")),
        }
    }
}

/// Experiment `objects`: memory and time per object of the small-object store.
pub(crate) struct Objects;

impl Experiment for Objects {
    const NAME: &'static str = "objects";
    const QUESTION: &'static str = "what does a small object cost in bytes, and what in time?";
    const COMMON: &'static [Common] = &[Common::Rounds];
    type Options = ObjectOptions;

    /// Repeats the figures, or the measurements that the options select instead.
    ///
    /// # Errors
    /// Fails if the objects do not fit in memory, or if the program was built without a requested
    /// feature.
    async fn run(
        setting: &Setting,
        options: &ObjectOptions,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Finding> {
        let config = Config {
            objects: options.objects,
            seconds: options.seconds * SHARE,
            rounds: setting.rounds.get(),
            threads: setting.engine.threads,
        };
        let mut rows = Vec::new();
        if options.peers {
            rows.extend(peers::measure(&config, observe)?.into_iter().map(Row::Peer));
        }
        if options.lasting {
            let home = Scratch::of(setting.engine.data_dir.as_deref(), "objects")?;
            for round in 1..=config.rounds {
                let mut told = |what: &str| observe(&format!("{what}, round {round}"));
                let measured = durability::measure(&config, home.path(), &mut told)?;
                rows.extend(measured.into_iter().map(Row::Lasting));
            }
        }
        let named = setting.dram_is_named.then_some(setting.engine.dram_bytes);
        if let Some(seconds) = options.churn_seconds {
            let memory_bytes = named.unwrap_or(churn::MEMORY_BYTES);
            let plan = churn::Plan { memory_bytes, threads: config.threads, seconds };
            rows.push(Row::Churn(churn::measure(plan, observe)?));
        }
        if options.memory == ObjectHome::Region {
            let cap_bytes = named.unwrap_or_else(|| beyond_dram::cap_bytes(config.objects));
            let home = setting.scratch()?;
            let larger = beyond_dram::measure(&config, cap_bytes, home.path(), observe)?;
            rows.extend(larger.into_iter().map(Row::Larger));
        }
        if rows.is_empty() {
            rows = figures(&config, observe)?;
        }
        finding(&config, &rows)
    }
}

fn figures(config: &Config, observe: &mut dyn FnMut(&str)) -> Result<Vec<Row>> {
    let mut rows = Vec::new();
    // Measured first: memory that other steps return in the meantime would be counted as well.
    for round in 1..=config.rounds {
        let mut told = |what: &str| observe(&format!("{what}, round {round}"));
        rows.extend(overhead::measure(config, &mut told)?.into_iter().map(Row::Overhead));
    }
    for round in 1..=config.rounds {
        let mut told = |what: &str| observe(&format!("{what}, round {round}"));
        rows.extend(rates::measure(config, &mut told)?.into_iter().map(Row::Rate));
        rows.extend(loads::measure(config, &mut told)?.into_iter().map(Row::Load));
        rows.extend(breakdown::measure(config, &mut told)?.into_iter().map(Row::Breakdown));
    }
    Ok(rows)
}

fn summarise(rows: &[Row]) -> Summary {
    let (mut overhead, mut rates, mut loads, mut breakdowns) = (vec![], vec![], vec![], vec![]);
    let (mut peers, mut lasting, mut churn, mut larger) = (vec![], vec![], None, vec![]);
    for row in rows {
        match row {
            Row::Overhead(row) => overhead.push(row),
            Row::Rate(row) => rates.push(row),
            Row::Load(row) => loads.push(row),
            Row::Breakdown(row) => breakdowns.push(row),
            Row::Peer(row) => peers.push(row),
            Row::Lasting(row) => lasting.push(row),
            Row::Churn(row) => churn = Some(row.clone()),
            Row::Larger(row) => larger.push(row),
        }
    }
    Summary {
        overhead: overhead::medians(&overhead),
        rates: rates::medians(&rates),
        loads: loads::medians(&loads),
        breakdowns: breakdown::medians(&breakdowns),
        peers: peers::medians(&peers),
        lasting: durability::medians(&lasting),
        churn,
        larger: beyond_dram::medians(&larger),
        targets: TARGETS,
    }
}

fn finding(config: &Config, rows: &[Row]) -> Result<Finding> {
    let summary = summarise(rows);
    let mut pictures = pictures(&summary);
    let (_, picture) = pictures.remove(0);
    let bars = pictures.into_iter().map(|(name, bars)| Picture::new(name, bars));
    let lines = summary.churn.iter().map(|churn| Picture::new("churn", churn.picture()));
    Ok(Finding {
        failed: 0,
        more: bars.chain(lines).collect(),
        notes: notes(config, &summary),
        picture,
        report: Report::new(Objects::NAME, config, rows, &summary)?,
        grid: grid(&summary),
    })
}

fn grid(summary: &Summary) -> Grid {
    let mut grid = Grid::new(["fig.", "what", "threads", "found", "target or published"]).wide();
    summary.overhead.iter().for_each(|row| grid.push(row.cells()));
    summary.rates.iter().for_each(|row| grid.push(row.cells()));
    summary.loads.iter().for_each(|row| grid.push(row.cells()));
    summary.breakdowns.iter().for_each(|row| grid.push(row.cells()));
    summary.peers.iter().for_each(|row| grid.push(row.cells()));
    summary.lasting.iter().for_each(|row| grid.push(row.cells()));
    summary.churn.iter().flat_map(churn::Churn::cells).for_each(|row| grid.push(row));
    summary.larger.iter().for_each(|row| grid.push(row.cells()));
    grid
}

/// Draws a picture of each part that was measured.
fn pictures(summary: &Summary) -> Vec<(&'static str, Bars)> {
    let mut pictures = Vec::new();
    if !summary.overhead.is_empty() {
        pictures.push(("overhead", overhead::picture(&summary.overhead)));
        pictures.push(("breakdown", breakdown::picture(&summary.breakdowns)));
    }
    if !summary.peers.is_empty() {
        pictures.push(("peers", peers::picture(&summary.peers)));
    }
    if !summary.lasting.is_empty() {
        pictures.push(("lasting", durability::picture(&summary.lasting)));
    }
    if !summary.larger.is_empty() {
        pictures.push(("larger", beyond_dram::picture(&summary.larger)));
    }
    if let Some(churn) = summary.churn.as_ref().filter(|_| pictures.is_empty()) {
        pictures.push(("shares", churn.shares()));
    }
    pictures
}

fn notes(config: &Config, summary: &Summary) -> Vec<String> {
    let single = Popularity::ALL.map(|popularity| (rates::Way::Single, popularity));
    let mut notes: Vec<String> = [(rates::Way::Create, Popularity::Uniform)]
        .into_iter()
        .chain(single)
        .filter_map(|(way, popularity)| rates::scaling(&summary.rates, way, popularity))
        .collect();
    notes.extend(overhead::left_out(&summary.overhead));
    notes.push(format!(
        "{} objects; {:?} each, medians of {} rounds; rates are for each second that processors \
         worked, M are millions; published rates add up kinds of operations",
        config.objects,
        Duration::from_secs_f64(config.seconds),
        config.rounds
    ));
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_small_run_fills_every_row() {
        let config = Config { objects: 3000, seconds: 0.01, rounds: 1, threads: 2 };
        let mut rows: Vec<Row> = Vec::new();
        let mut told = |_: &str| {};
        rows.extend(
            overhead::measure(&config, &mut told).expect("room").into_iter().map(Row::Overhead),
        );
        rows.extend(rates::measure(&config, &mut told).expect("room").into_iter().map(Row::Rate));
        let loads = loads::measure_by(&config, &[1, 3], &mut told).expect("room");
        rows.extend(loads.into_iter().map(Row::Load));
        let finding = finding(&config, &rows).expect("found");
        assert_eq!(finding.grid.len(), 8 + 2 + 8 + 4 * 2);
        assert_eq!(finding.notes.len(), 4, "{:?}", finding.notes);
        assert_eq!(finding.picture.categories.len(), 8);
    }
}
