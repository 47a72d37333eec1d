//! Throughput and latency of B-trees over pages, in framed and in mapped placement.
//!
//! The workloads of the studies of vmcache (Leis et al., SIGMOD 2023, section 5) and of its n-tier
//! successor: TPC-C, look-ups of random tuples one by one and in batches, and YCSB. With the
//! default sizes the data fit in DRAM.

use std::path::PathBuf;

use clap::Args;
use serde::Serialize;
use terrace_pool::Placement;
use terrace_sys::size::{GIB, format_bytes};

use super::case::Figures;
use super::plot::{by_second, write_samples};
use super::{Case, Load, Measured, RunOptions, split_tiers};
use crate::error::{BenchError, Result};
use crate::measure::median;
use crate::report::{Bars, Grid, Picture, Report, Series};
use crate::setting::{Finding, Setting};

/// Default number of tuples or records, as published for a machine of this kind.
pub(super) const TUPLES: u64 = 10_000_000;
const DRAM_BYTES: u64 = 4 * GIB;

/// Options of the workloads.
#[derive(Args, Clone, Debug)]
pub(super) struct WorkloadOptions {
    #[command(flatten)]
    run: RunOptions,

    /// Write a line for every second to this CSV file; for several runs, to one file each beside it
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
}

#[derive(Clone, Debug, Serialize)]
struct Config {
    workloads: Vec<String>,
    placements: Vec<&'static str>,
    policy: String,
    dram_bytes: u64,
    tiers: Vec<String>,
    threads: usize,
    seconds: f64,
    warm_up_seconds: f64,
    rounds: usize,
}

/// Medians of a workload in one placement.
#[derive(Clone, Debug, Serialize)]
struct Line {
    workload: String,
    placement: &'static str,
    per_second: f64,
    p50_us: f64,
    p99_us: f64,
    loads_per_second: f64,
    writes_per_second: f64,
    processors: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    lines: Vec<Line>,
}

/// Runs the loads of an experiment in every placement.
///
/// # Errors
/// Fails if a run fails or leaves inconsistent data.
pub(super) fn run(
    name: &str,
    loads: &[Load],
    setting: &Setting,
    options: &WorkloadOptions,
    observe: &mut dyn FnMut(&str),
) -> Result<Finding> {
    options.csv.iter().try_for_each(|file| Report::fits(file))?;
    let cases = cases(loads, setting, &options.run)?;
    let home = setting.scratch()?;
    let mut runs = Vec::new();
    for round in 0..setting.rounds.get() {
        for (at, _) in cases.iter().enumerate() {
            // Each round begins with a different case, so that no case is always the first.
            let at = (at + round) % cases.len();
            let measured = cases[at].run(home.path(), observe)?;
            if let Some(csv) = &options.csv {
                let name = format!("{at}-{round}");
                let is_only = cases.len() * setting.rounds.get() == 1;
                write_samples(csv, (!is_only).then_some(&name), &measured.report)?;
            }
            runs.push((at, measured));
        }
    }
    runs.sort_by_key(|(at, _)| *at);
    finding(name, &config(setting, &options.run, &cases), &cases, &runs)
}

fn cases(loads: &[Load], setting: &Setting, options: &RunOptions) -> Result<Vec<Case>> {
    let (tiers, store) = split_tiers(&setting.engine.tiers);
    let dram_bytes = if setting.dram_is_named { setting.engine.dram_bytes } else { DRAM_BYTES };
    let case = |(load, placement): (&Load, Placement)| Case {
        load: load.clone(),
        dram_bytes,
        tiers: tiers.clone(),
        store: store.clone(),
        placement,
        policy: options.policy,
        threads: setting.engine.threads,
        warm_up_seconds: options.warm_up_seconds,
        seconds: options.seconds,
    };
    let placements = setting.placements();
    let pairs = loads.iter().flat_map(|load| placements.iter().map(move |p| (load, *p)));
    let cases: Vec<Case> = pairs.map(case).collect();
    if cases.is_empty() {
        return Err(BenchError::input("nothing to run: name a placement and a workload"));
    }
    Ok(cases)
}

fn line(case: &Case, runs: &[&Figures]) -> Line {
    let mid = |of: fn(&Figures) -> f64| {
        let values: Vec<f64> = runs.iter().map(|run| of(run)).collect();
        median(&values).unwrap_or(f64::NAN)
    };
    Line {
        workload: case.load.to_string(),
        placement: case.placement.name(),
        per_second: mid(|run| run.per_second),
        p50_us: mid(|run| run.p50_us),
        p99_us: mid(|run| run.p99_us),
        loads_per_second: mid(|run| run.loads_per_second),
        writes_per_second: mid(|run| run.writes_per_second),
        processors: mid(|run| run.processors),
    }
}

fn finding(
    name: &str,
    config: &Config,
    cases: &[Case],
    runs: &[(usize, Measured)],
) -> Result<Finding> {
    let of = |at: usize| runs.iter().filter(move |(of, _)| *of == at);
    let lines = cases.iter().enumerate().map(|(at, case)| {
        line(case, &of(at).map(|(_, measured)| &measured.figures).collect::<Vec<_>>())
    });
    let summary = Summary { lines: lines.collect() };
    let rows: Vec<&Figures> = runs.iter().map(|(_, measured)| &measured.figures).collect();
    let firsts = cases.iter().enumerate().filter_map(|(at, case)| {
        let (_, measured) = of(at).next()?;
        Some((format!("{}, {}", case.load, case.placement), &measured.report))
    });
    Ok(Finding {
        failed: 0,
        more: vec![Picture::new("seconds", by_second(&firsts.collect::<Vec<_>>()))],
        notes: vec![note(config)],
        picture: picture(&summary),
        report: Report::new(name, config, &rows, &summary)?,
        grid: grid(&summary),
    })
}

fn config(setting: &Setting, options: &RunOptions, cases: &[Case]) -> Config {
    let mut workloads: Vec<String> = cases.iter().map(|case| case.load.to_string()).collect();
    workloads.dedup();
    Config {
        workloads,
        placements: setting.placements().iter().map(|placement| placement.name()).collect(),
        policy: options.policy.to_string(),
        dram_bytes: cases[0].dram_bytes,
        tiers: setting.engine.tiers.iter().map(ToString::to_string).collect(),
        threads: setting.engine.threads,
        seconds: options.seconds,
        warm_up_seconds: options.warm_up_seconds,
        rounds: setting.rounds.get(),
    }
}

fn grid(summary: &Summary) -> Grid {
    let mut grid = Grid::new([
        "workload",
        "placement",
        "per second",
        "p50 us",
        "p99 us",
        "loads/s",
        "writes/s",
        "cpus",
    ]);
    for line in &summary.lines {
        grid.push([
            line.workload.clone(),
            line.placement.to_string(),
            format!("{:.0}", line.per_second),
            format!("{:.1}", line.p50_us),
            format!("{:.1}", line.p99_us),
            format!("{:.0}", line.loads_per_second),
            format!("{:.0}", line.writes_per_second),
            format!("{:.2}", line.processors),
        ]);
    }
    grid
}

fn note(config: &Config) -> String {
    let tiers = match config.tiers.as_slice() {
        [] => "a file below".to_owned(),
        tiers => format!("{} below", tiers.join(", ")),
    };
    format!(
        "{} of DRAM, {tiers}; {} threads, policy {}; {} s measured after {} s, medians of {} \
         rounds",
        format_bytes(config.dram_bytes),
        config.threads,
        config.policy,
        config.seconds,
        config.warm_up_seconds,
        config.rounds
    )
}

fn picture(summary: &Summary) -> Bars {
    let mut categories: Vec<String> =
        summary.lines.iter().map(|line| line.workload.clone()).collect();
    categories.dedup();
    let mut placements: Vec<&str> = summary.lines.iter().map(|line| line.placement).collect();
    placements.sort_unstable();
    placements.dedup();
    let value = |workload: &String, placement: &str| {
        let same = |line: &&Line| line.workload == *workload && line.placement == placement;
        summary.lines.iter().find(same).map(|line| line.per_second)
    };
    let series = placements.iter().map(|placement| Series {
        name: (*placement).to_owned(),
        values: categories.iter().map(|workload| value(workload, placement)).collect(),
    });
    Bars {
        title: "Trees over pages of the pool".into(),
        unit: "operations a second".into(),
        series: series.collect(),
        categories,
    }
}
