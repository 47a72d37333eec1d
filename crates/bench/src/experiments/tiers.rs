//! Run time with a memory tier between DRAM and the store, relative to that without.
//!
//! Two engines run over the same tables, one with the tier and one without, at budgets smaller than
//! the data. Each query runs on one and then on the other, round after round; at each budget the
//! sums of the medians are compared, over the queries that succeed on both.

use std::path::Path;

use serde::Serialize;
use terrace_sql::{Engine, EngineConfig};
use terrace_sys::size::{GIB, MIB, format_bytes};
use terrace_tier::TierSpec;
use terrace_tier::spec::EMULATED_LATENCY_NS;

use crate::error::Result;
use crate::experiment::{Common, Experiment};
use crate::measure::{Scratch, median};
use crate::report::{Bars, Grid, Report, Series};
use crate::setting::{Finding, Setting};
use crate::suite::load::{load, refused};
use crate::suite::timing::ours;
use crate::tpch::check::{Precision, check_runs};
use crate::tpch::query::Query;
use crate::tpch::table::Table;

/// Default budgets.
const DRAM_BYTES: [u64; 3] = [64 * MIB, 128 * MIB, 256 * MIB];

/// Budget under which the tables are loaded.
const LOAD_DRAM_BYTES: u64 = GIB;

#[derive(Clone, Debug, Serialize)]
struct Row {
    dram_bytes: u64,
    query: u32,
    without_seconds: Option<f64>,
    with_seconds: Option<f64>,
    error: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Config {
    scale: f64,
    tiers: Vec<String>,
    threads: usize,
    rounds: usize,
    /// Encoding of the tables.
    encoding: String,
}

#[derive(Clone, Debug, PartialEq, Serialize)]
struct Budget {
    dram_bytes: u64,
    queries: usize,
    failed: usize,
    without_seconds: f64,
    with_seconds: f64,
    ratio: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    budgets: Vec<Budget>,
    worst_ratio: Option<f64>,
}

/// Experiment `tiers`: queries with a tier below DRAM and without it.
pub(crate) struct Tiers;

impl Experiment for Tiers {
    const NAME: &'static str = "tiers";
    const QUESTION: &'static str = "does a tier between DRAM and the store ever cost time?";
    const COMMON: &'static [Common] = &Common::ALL;
    type Options = ();

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if the tables cannot be loaded. A failed query is a row of the report.
    async fn run(setting: &Setting, (): &(), observe: &mut dyn FnMut(&str)) -> Result<Finding> {
        let tiers = compared_tiers(&setting.engine.tiers);
        let mut config = Config {
            scale: setting.scale,
            tiers: tiers.iter().map(ToString::to_string).collect(),
            threads: setting.engine.threads,
            rounds: setting.rounds.get(),
            encoding: String::new(),
        };
        let home = Scratch::of(setting.engine.data_dir.as_deref(), "tiers")?;
        let pair = [vec![], tiers];
        let names = ["without", "with"];
        for (name, tiers) in names.iter().zip(&pair) {
            let engine = open(setting, &home.path().join(name), tiers, LOAD_DRAM_BYTES)?;
            let generator = setting.generator();
            let loading = |table: Table| observe(&format!("loading {table} {name} tier"));
            let encoding = setting.encoding.unwrap_or_default();
            config.encoding = load(&engine, &generator, encoding, loading).await?.encoding;
            engine.close().map_err(refused)?;
        }
        let mut rows = Vec::new();
        for dram_bytes in budgets(setting) {
            let without = open(setting, &home.path().join(names[0]), &pair[0], dram_bytes)?;
            let with = open(setting, &home.path().join(names[1]), &pair[1], dram_bytes)?;
            for number in &setting.queries {
                observe(&format!("query {number} in {}", format_bytes(dram_bytes)));
                let query = Query::of(*number)?;
                rows.push(compare(&without, &with, query, dram_bytes, setting).await?);
            }
            without.close().map_err(refused)?;
            with.close().map_err(refused)?;
        }
        finding(&config, &rows)
    }
}

/// Returns the given tiers, or an emulated one of 1 GiB by default.
fn compared_tiers(named: &[TierSpec]) -> Vec<TierSpec> {
    if named.is_empty() {
        let latency_ns = EMULATED_LATENCY_NS;
        return vec![TierSpec::Emulated { capacity_bytes: GIB, latency_ns }];
    }
    named.to_vec()
}

fn budgets(setting: &Setting) -> Vec<u64> {
    match setting.dram_is_named {
        true => vec![setting.engine.dram_bytes],
        false => DRAM_BYTES.to_vec(),
    }
}

fn open(setting: &Setting, data: &Path, tiers: &[TierSpec], dram_bytes: u64) -> Result<Engine> {
    let config = EngineConfig {
        dram_bytes,
        tiers: tiers.to_vec(),
        data_dir: Some(data.to_path_buf()),
        ..setting.engine.clone()
    };
    Engine::open(&config).map_err(refused)
}

async fn compare(
    without: &Engine,
    with: &Engine,
    query: Query,
    dram_bytes: u64,
    setting: &Setting,
) -> Result<Row> {
    let text = query.text(setting.scale);
    let sessions = [without.session().map_err(refused)?, with.session().map_err(refused)?];
    let mut times = [Vec::new(), Vec::new()];
    let mut first = [None, None];
    let mut error = None;
    for round in 0..setting.rounds.get() {
        for turn in 0..2 {
            let side = (round + turn) % 2;
            match ours(&sessions[side], &text).await {
                Ok(timed) => {
                    times[side].push(timed.seconds);
                    first[side].get_or_insert(timed);
                }
                Err(failure) => {
                    error.get_or_insert(format!("{}: {failure}", ["without", "with"][side]));
                }
            }
        }
    }
    if let [Some(without), Some(with)] = &first
        && let Err(difference) = check_runs(&query, Precision::Exact, without, with)
    {
        error.get_or_insert(format!("not the answer without the tier: {difference}"));
    }
    let valid = |side: usize| median(&times[side]).filter(|_| error.is_none());
    let (without_seconds, with_seconds) = (valid(0), valid(1));
    Ok(Row { dram_bytes, query: query.number, without_seconds, with_seconds, error })
}

fn summarise(rows: &[Row]) -> Summary {
    let mut budgets: Vec<Budget> = Vec::new();
    for row in rows {
        if budgets.last().is_none_or(|budget| budget.dram_bytes != row.dram_bytes) {
            budgets.push(Budget {
                dram_bytes: row.dram_bytes,
                queries: 0,
                failed: 0,
                without_seconds: 0.0,
                with_seconds: 0.0,
                ratio: None,
            });
        }
        let Some(budget) = budgets.last_mut() else { continue };
        match row.without_seconds.zip(row.with_seconds) {
            Some((without, with)) => {
                budget.queries += 1;
                budget.without_seconds += without;
                budget.with_seconds += with;
                budget.ratio = Some(budget.with_seconds / budget.without_seconds);
            }
            None => budget.failed += 1,
        }
    }
    let worst_ratio = budgets.iter().filter_map(|budget| budget.ratio).max_by(f64::total_cmp);
    Summary { budgets, worst_ratio }
}

fn finding(config: &Config, rows: &[Row]) -> Result<Finding> {
    let summary = summarise(rows);
    let mut grid = Grid::new(["DRAM", "queries", "failed", "without s", "with s", "ratio"]);
    for budget in &summary.budgets {
        grid.push([
            format_bytes(budget.dram_bytes),
            budget.queries.to_string(),
            budget.failed.to_string(),
            format!("{:.3}", budget.without_seconds),
            format!("{:.3}", budget.with_seconds),
            budget.ratio.map_or("-".to_string(), |ratio| format!("{ratio:.3}")),
        ]);
    }
    let failed = rows.iter().filter_map(|row| {
        let dram = format_bytes(row.dram_bytes);
        Some(format!("query {} in {dram}, {}", row.query, row.error.as_ref()?))
    });
    let tier = config.tiers.join(" ");
    let (rounds, encoding) = (config.rounds, &config.encoding);
    let how = format!("tier {tier}, medians of {rounds} rounds, {encoding} tables");
    let notes = failed.chain([how]);
    Ok(Finding {
        failed: rows.iter().filter(|row| row.error.is_some()).count(),
        more: Vec::new(),
        grid,
        notes: notes.collect(),
        picture: picture(config, &summary),
        report: Report::new(Tiers::NAME, config, rows, &summary)?,
    })
}

fn picture(config: &Config, summary: &Summary) -> Bars {
    let series = |name: String, value: fn(&Budget) -> f64| Series {
        name,
        values: summary.budgets.iter().map(|budget| Some(value(budget))).collect(),
    };
    let label = |budget: &Budget| {
        format!("{} ({} queries)", format_bytes(budget.dram_bytes), budget.queries)
    };
    Bars {
        title: format!("TPC-H scale {}, {} tables, little DRAM", config.scale, config.encoding),
        unit: "seconds, sum of the queries".into(),
        categories: summary.budgets.iter().map(label).collect(),
        series: vec![
            series("DRAM and store".into(), |budget| budget.without_seconds),
            series(format!("with {}", config.tiers.join(" ")), |budget| budget.with_seconds),
        ],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(dram_bytes: u64, query: u32, times: Option<(f64, f64)>) -> Row {
        Row {
            dram_bytes,
            query,
            without_seconds: times.map(|times| times.0),
            with_seconds: times.map(|times| times.1),
            error: times.is_none().then(|| "without: no memory".to_string()),
        }
    }

    #[test]
    fn sums_are_of_the_queries_that_both_ran() {
        let rows = [
            row(64 * MIB, 1, Some((2.0, 1.0))),
            row(64 * MIB, 2, None),
            row(64 * MIB, 3, Some((2.0, 1.0))),
            row(128 * MIB, 1, Some((1.0, 1.5))),
        ];
        let summary = summarise(&rows);
        assert_eq!(summary.budgets.len(), 2);
        assert_eq!((summary.budgets[0].queries, summary.budgets[0].failed), (2, 1));
        assert_eq!(summary.budgets[0].ratio, Some(0.5));
        assert_eq!(summary.worst_ratio, Some(1.5));
        let config = Config {
            scale: 1.0,
            tiers: vec!["emu:1GiB".into()],
            threads: 2,
            rounds: 3,
            encoding: "compact".into(),
        };
        let finding = finding(&config, &rows).expect("finding");
        assert!(finding.notes[0].contains("query 2 in 64MiB, without: no memory"));
        assert_eq!(finding.report.rows.len(), 4);
        assert!(finding.notes.iter().any(|note| note.contains("compact tables")));
        assert!(finding.picture.title.contains("compact tables"));
    }
}
