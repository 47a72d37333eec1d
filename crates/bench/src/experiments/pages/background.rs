//! Effect of background migration on the latency of readers.
//!
//! Readers access popular records of a tree that fits in DRAM and the remote tier together. The set
//! of popular records shifts periodically, so that pages are promoted and demoted all the time.
//! This is compared with a policy that never promotes, under which no page migrates after the first
//! second.

use clap::{Args, value_parser};
use serde::Serialize;
use terrace_pool::{Placement, Policy};
use terrace_sys::size::{MIB, format_bytes};
use terrace_tier::TierSpec;
use terrace_workload::ycsb::Mix;

use super::case::Figures;
use super::{Case, Load, RunOptions, theta};
use crate::error::{BenchError, Result};
use crate::experiment::{Common, Experiment};
use crate::measure::median;
use crate::report::{Bars, Grid, Report, Series};
use crate::setting::{Finding, Setting};

/// Default bytes of DRAM, and default number of records, which take about four times as much.
const DRAM_BYTES: u64 = 256 * MIB;
const RECORDS: u64 = 6_000_000;
/// Size of the remote tier, as a multiple of DRAM, and the additional latency of a fix there.
const REMOTE_PARTS: u64 = 6;
const REMOTE_LATENCY_NS: u64 = 250;
/// Period after which other records become popular.
const SHIFT_SECONDS: f64 = 2.0;
/// Policy without promotion, as Spitfire's probabilities.
const STILL: &str = "spitfire:0,0,0,1";
/// Maximum ratio of the 99th percentile with migration to that without.
const TARGET: f64 = 2.0;

/// Options of the experiment.
#[derive(Args, Clone, Debug)]
pub(crate) struct BackgroundOptions {
    /// Number of records of YCSB; by default 6 million
    #[arg(long, value_name = "N", value_parser = value_parser!(u64).range(1..))]
    tuples: Option<u64>,

    /// Skew of YCSB; 0 for none
    #[arg(long, value_name = "THETA", default_value_t = 0.99, value_parser = theta)]
    theta: f64,

    #[command(flatten)]
    run: RunOptions,
}

#[derive(Clone, Debug, Serialize)]
struct Config {
    workload: String,
    dram_bytes: u64,
    remote: String,
    policy: String,
    without: String,
    threads: usize,
    seconds: f64,
    warm_up_seconds: f64,
    rounds: usize,
}

#[derive(Clone, Debug, Serialize)]
struct Row {
    migrates: bool,
    round: usize,
    #[serde(flatten)]
    figures: Figures,
}

/// Medians of a placement, with migration and without.
#[derive(Clone, Debug, Serialize)]
struct Line {
    placement: &'static str,
    per_second: [f64; 2],
    p50_us: [f64; 2],
    p95_us: [f64; 2],
    p99_us: [f64; 2],
    /// Pages promoted per second with migration.
    promoted_per_second: f64,
    /// Ratio of the 99th percentile with migration to that without.
    p99_ratio: f64,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    lines: Vec<Line>,
    worst_p99_ratio: f64,
    target: f64,
}

/// Experiment `background`: latency of readers during migration.
pub(crate) struct Background;

impl Experiment for Background {
    const NAME: &'static str = "background";
    const QUESTION: &'static str = "does migration in the background delay readers?";
    const COMMON: &'static [Common] = &[Common::Rounds];
    type Options = BackgroundOptions;

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if a run fails.
    async fn run(
        setting: &Setting,
        options: &BackgroundOptions,
        observe: &mut dyn FnMut(&str),
    ) -> Result<Finding> {
        let home = setting.scratch()?;
        let still =
            STILL.parse::<Policy>().map_err(|error| BenchError::input(error.to_string()))?;
        let mut rows = Vec::new();
        for round in 0..setting.rounds.get() {
            let mut runs = Vec::new();
            for placement in setting.placements() {
                runs.extend([(placement, true), (placement, false)]);
            }
            // The order of the runs is reversed in every other round.
            if round % 2 == 1 {
                runs.reverse();
            }
            for (placement, migrates) in runs {
                let policy = if migrates { options.run.policy } else { still };
                let case = case(setting, options, placement, policy)?;
                let mut say = |text: &str| observe(&format!("{text}, policy {policy}"));
                let figures = case.run(home.path(), &mut say)?.figures;
                rows.push(Row { migrates, round, figures });
            }
        }
        finding(setting, &options.run, &rows)
    }
}

fn case(
    setting: &Setting,
    options: &BackgroundOptions,
    placement: Placement,
    policy: Policy,
) -> Result<Case> {
    if !setting.engine.tiers.is_empty() {
        return Err(BenchError::input("the tiers of background are its own: name none"));
    }
    let dram_bytes = if setting.dram_is_named { setting.engine.dram_bytes } else { DRAM_BYTES };
    let capacity_bytes = dram_bytes * REMOTE_PARTS;
    Ok(Case {
        load: Load::Ycsb {
            mix: Mix::C,
            records: options.tuples.unwrap_or(RECORDS),
            theta: options.theta,
            shift_seconds: Some(SHIFT_SECONDS),
        },
        dram_bytes,
        tiers: vec![TierSpec::Emulated { capacity_bytes, latency_ns: REMOTE_LATENCY_NS }],
        store: None,
        placement,
        policy,
        threads: setting.engine.threads,
        warm_up_seconds: options.run.warm_up_seconds,
        seconds: options.run.seconds,
    })
}

fn line(rows: &[Row], placement: &'static str, seconds: f64) -> Line {
    let mid = |migrates: bool, of: fn(&Figures) -> f64| {
        let same = |row: &&Row| row.migrates == migrates && row.figures.placement == placement;
        let values: Vec<f64> = rows.iter().filter(same).map(|row| of(&row.figures)).collect();
        median(&values).unwrap_or(f64::NAN)
    };
    let both = |of: fn(&Figures) -> f64| [mid(true, of), mid(false, of)];
    let p99_us = both(|run| run.p99_us);
    Line {
        placement,
        per_second: both(|run| run.per_second),
        p50_us: both(|run| run.p50_us),
        p95_us: both(|run| run.p95_us),
        p99_us,
        promoted_per_second: mid(true, |run| run.promoted as f64) / seconds,
        p99_ratio: p99_us[0] / p99_us[1],
    }
}

fn finding(setting: &Setting, options: &RunOptions, rows: &[Row]) -> Result<Finding> {
    let lines: Vec<Line> = setting
        .placements()
        .iter()
        .map(|placement| line(rows, placement.name(), options.seconds))
        .collect();
    let worst = lines.iter().map(|line| line.p99_ratio).fold(0.0, f64::max);
    let summary = Summary { lines, worst_p99_ratio: worst, target: TARGET };
    let first = rows.first().map(|row| &row.figures);
    let config = Config {
        workload: first.map_or_else(String::new, |run| run.workload.clone()),
        dram_bytes: first.map_or(0, |run| run.dram_bytes),
        remote: first.map_or_else(String::new, |run| run.tiers.join(", ")),
        policy: options.policy.to_string(),
        without: STILL.to_owned(),
        threads: setting.engine.threads,
        seconds: options.seconds,
        warm_up_seconds: options.warm_up_seconds,
        rounds: setting.rounds.get(),
    };
    Ok(Finding {
        failed: 0,
        more: vec![],
        notes: notes(&config, &summary),
        picture: picture(&summary),
        report: Report::new(Background::NAME, &config, rows, &summary)?,
        grid: grid(&summary),
    })
}

const NAMES: [&str; 2] = ["migrates", "stays"];

fn grid(summary: &Summary) -> Grid {
    let titles = ["placement", "pages", "per second", "p50 us", "p95 us", "p99 us", "promoted/s"];
    let mut grid = Grid::new(titles);
    for line in &summary.lines {
        for (at, name) in NAMES.iter().enumerate() {
            let promoted = if at == 0 { line.promoted_per_second } else { 0.0 };
            grid.push([
                line.placement.to_owned(),
                (*name).to_owned(),
                format!("{:.0}", line.per_second[at]),
                format!("{:.2}", line.p50_us[at]),
                format!("{:.2}", line.p95_us[at]),
                format!("{:.2}", line.p99_us[at]),
                format!("{promoted:.0}"),
            ]);
        }
    }
    grid
}

fn notes(config: &Config, summary: &Summary) -> Vec<String> {
    vec![
        format!(
            "the 99th percentile with migration is at most {:.2} times that without, target \
             {TARGET}",
            summary.worst_p99_ratio
        ),
        format!(
            "{}; {} of DRAM and {}; policy {} over {}; {} threads; {} s measured after {} s, \
             medians of {} rounds",
            config.workload,
            format_bytes(config.dram_bytes),
            config.remote,
            config.policy,
            config.without,
            config.threads,
            config.seconds,
            config.warm_up_seconds,
            config.rounds
        ),
    ]
}

fn picture(summary: &Summary) -> Bars {
    let series = NAMES.iter().enumerate().map(|(at, name)| Series {
        name: (*name).to_owned(),
        values: summary
            .lines
            .iter()
            .flat_map(|line| [line.p50_us, line.p95_us, line.p99_us].map(|of| Some(of[at])))
            .collect(),
    });
    let quantiles = |line: &Line| ["p50", "p95", "p99"].map(|q| format!("{}, {q}", line.placement));
    Bars {
        title: "A look-up while pages migrate".into(),
        unit: "microseconds".into(),
        categories: summary.lines.iter().flat_map(quantiles).collect(),
        series: series.collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::pages::sweep::tests::row;

    #[test]
    fn quantiles_are_compared_within_a_placement() {
        let run = |migrates, p99_us, promoted| {
            let figures = Figures { p99_us, promoted, ..row(4, 0, 1000.0).figures };
            Row { migrates, round: 0, figures }
        };
        let mut rows = vec![run(true, 6.0, 400), run(false, 4.0, 0), run(true, 5.0, 200)];
        rows.push(run(false, 5.0, 1_000_000));
        rows[3].figures.placement = "mapped";
        let line = line(&rows, "framed", 10.0);
        assert_eq!((line.p99_us, line.promoted_per_second), ([5.5, 4.0], 30.0));
        assert_eq!(line.p99_ratio, 5.5 / 4.0);
        let summary =
            Summary { worst_p99_ratio: line.p99_ratio, lines: vec![line], target: TARGET };
        let text = grid(&summary).to_string();
        assert!(text.contains("5.50") && text.contains("stays"), "{text}");
        assert_eq!(picture(&summary).categories.len(), 3);
    }

    #[test]
    fn what_never_promotes_is_a_policy() {
        assert!(STILL.parse::<Policy>().is_ok_and(|policy| policy.to_string() == STILL));
    }
}
