//! Result of the experiment: its table, notes, pictures and report.

use serde::Serialize;
use terrace_sys::size::format_bytes;

use super::config::Config;
use super::load::{Engine, LoadRow};
use super::priority::PriorityRow;
use super::wire::{FLIGHT, ROWS, WireRow};
use crate::error::Result;
use crate::report::{Bars, Grid, Picture, Report, Series};
use crate::setting::Finding;

/// All measurements.
#[derive(Clone, Debug, Default)]
pub(super) struct Measured {
    pub(super) load: Vec<LoadRow>,
    pub(super) priority: Vec<PriorityRow>,
    pub(super) wire: Vec<WireRow>,
}

/// A row of the report.
#[derive(Serialize)]
#[serde(tag = "part", rename_all = "lowercase")]
enum Row<'a> {
    Load(&'a LoadRow),
    Priority(&'a PriorityRow),
    Wire(&'a WireRow),
}

/// Terrace's rate relative to PostgreSQL's in one case.
#[derive(Clone, Debug, Serialize)]
struct Ratio {
    case: &'static str,
    connections: usize,
    rate_over_postgres: f64,
    p99_over_postgres: Option<f64>,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    /// Number of Terrace's clients that finished, and of all its clients.
    finished: Option<(usize, usize)>,
    /// 95th percentile of short queries with a priority during the load, relative to an idle
    /// server.
    short_p95_over_idle: Option<f64>,
    wire: Vec<Ratio>,
}

impl Measured {
    fn summary(&self) -> Summary {
        let ours = self.load.iter().find(|row| row.engine == Engine::Terrace);
        let p95 = |beside| {
            let mut rows = self.priority.iter();
            rows.find(|row| row.beside_load == beside && row.has_priority)?.p95_seconds
        };
        Summary {
            finished: ours.map(|row| (row.finished, row.clients)),
            short_p95_over_idle: p95(true).zip(p95(false)).map(|(beside, idle)| beside / idle),
            wire: self.wire.iter().filter_map(|row| self.ratio(row)).collect(),
        }
    }

    /// Compares a case of Terrace with the same case of PostgreSQL; `None` if there is no such
    /// pair.
    fn ratio(&self, row: &WireRow) -> Option<Ratio> {
        let of = |other: &&WireRow| {
            other.engine == Engine::Postgres
                && (other.case, other.connections) == (row.case, row.connections)
        };
        let theirs = self.wire.iter().find(of).filter(|_| row.engine == Engine::Terrace)?;
        Some(Ratio {
            case: row.case,
            connections: row.connections,
            rate_over_postgres: row.rate? / theirs.rate?,
            p99_over_postgres: row.p99_us.zip(theirs.p99_us).map(|(ours, theirs)| ours / theirs),
        })
    }

    /// Returns the number of Terrace's queries and cases that failed or gave wrong answers.
    fn failed(&self) -> usize {
        let load = self.load.iter().filter(|row| row.engine == Engine::Terrace);
        let load: usize = load.map(|row| row.failed + row.wrong).sum();
        let short: usize = self.priority.iter().map(|row| row.failed + row.load_failed).sum();
        let wire = self.wire.iter().filter(|row| row.engine == Engine::Terrace);
        load + short + wire.filter(|row| row.error.is_some()).count()
    }
}

/// Sums up the measurements for the report `name`.
///
/// # Errors
/// Fails if the report has no JSON form.
pub(super) fn finding(name: &str, config: &Config, measured: &Measured) -> Result<Finding> {
    let load = measured.load.iter().map(Row::Load);
    let priority = measured.priority.iter().map(Row::Priority);
    let rows: Vec<_> = load.chain(priority).chain(measured.wire.iter().map(Row::Wire)).collect();
    let summary = measured.summary();
    let mut pictures = pictures(config, measured).into_iter();
    let (_, picture) = pictures.next().unwrap_or_else(|| ("", empty()));
    Ok(Finding {
        failed: measured.failed(),
        grid: grid(measured),
        notes: notes(config, measured, &summary),
        picture,
        more: pictures.map(|(name, bars)| Picture::new(name, bars)).collect(),
        report: Report::new(name, config, &rows, &summary)?,
    })
}

fn grid(measured: &Measured) -> Grid {
    let mut grid = Grid::new(["part", "case", "engine", "result"]).wide();
    for row in &measured.load {
        let case = format!("{} clients", row.clients);
        grid.push(["load".to_owned(), case, row.engine.name().to_owned(), load_result(row)]);
    }
    for row in &measured.priority {
        let beside = if row.beside_load { "beside the load" } else { "idle" };
        let priority = if row.has_priority { "" } else { ", no priority" };
        let result = format!(
            "p50 {}, p95 {}, {} answers, {} failed; load meanwhile: {} answers, {} failed",
            seconds(row.p50_seconds),
            seconds(row.p95_seconds),
            row.answered,
            row.failed,
            row.load_answered,
            row.load_failed,
        );
        grid.push(["priority".to_owned(), format!("{beside}{priority}"), "terrace".into(), result]);
    }
    for row in &measured.wire {
        let case = match row.case {
            ROWS => "rows in binary by COPY".to_owned(),
            FLIGHT => "rows by Flight SQL".to_owned(),
            mode => format!("SELECT 1, {mode}, {} connections", row.connections),
        };
        grid.push(["wire".to_owned(), case, row.engine.name().to_owned(), wire_result(row)]);
    }
    grid
}

fn load_result(row: &LoadRow) -> String {
    let count = |value: Option<u64>| value.map_or("?".to_owned(), |value| value.to_string());
    let bytes = |value: Option<u64>| value.map_or("?".to_owned(), format_bytes);
    format!(
        "{} of {} clients finished, {} of {} queries failed, {} wrong, {} processes killed, group \
         at most {}, resident at most {}, {:.1} s, p50 {}, p95 {}",
        row.finished,
        row.clients,
        row.failed,
        row.asked,
        row.wrong,
        count(row.killed),
        bytes(row.peak_bytes),
        bytes(row.resident_bytes),
        row.wall_seconds,
        seconds(row.p50_seconds),
        seconds(row.p95_seconds),
    )
}

fn wire_result(row: &WireRow) -> String {
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.0}"));
    match (&row.error, row.case) {
        (Some(error), _) => format!("failed: {}", error.lines().next().unwrap_or_default()),
        (None, ROWS | FLIGHT) => format!("{} rows/s", number(row.rate)),
        (None, _) => format!(
            "{} queries/s, p50 {} us, p99 {} us",
            number(row.rate),
            number(row.p50_us),
            number(row.p99_us)
        ),
    }
}

fn seconds(value: Option<f64>) -> String {
    value.map_or("-".to_owned(), |value| format!("{value:.3} s"))
}

fn notes(config: &Config, measured: &Measured, summary: &Summary) -> Vec<String> {
    let errors = measured.load.iter().flat_map(|row| {
        let told = |(error, count): &(String, usize)| {
            format!("load on {}, {count} times: {error}", row.engine.name())
        };
        row.errors.iter().map(told)
    });
    let short = measured.priority.iter().filter_map(|row| row.error.clone());
    let ratio = summary.short_p95_over_idle;
    let ratio = ratio.map(|ratio| {
        format!("short queries with a priority beside the load: p95 {ratio:.2} times idle")
    });
    let wire = summary.wire.iter().map(|ratio| {
        let p99 = ratio.p99_over_postgres;
        let p99 = p99.map_or(String::new(), |p99| format!(", {p99:.2} of its p99"));
        let (case, connections, rate) = (ratio.case, ratio.connections, ratio.rate_over_postgres);
        format!("{case}, {connections} connections: {rate:.2} of PostgreSQL's rate{p99}")
    });
    let how = format!(
        "scale {}, budget {}, limit {}, {} threads, queries {:?} in an order of seed {}; wire: \
         medians of {} rounds, in turns",
        config.scale,
        format_bytes(config.dram_bytes),
        format_bytes(config.limit_bytes),
        config.threads,
        config.queries,
        config.options.seed,
        config.rounds,
    );
    let versions = format!("versions: {}", config.versions.join(", "));
    let limit = Some(format!("memory: {}", config.memory_limit));
    let limit = limit.filter(|_| !config.memory_limit.is_empty());
    let missing = config.missing.iter().cloned();
    let all = errors.chain(short).chain(ratio).chain(wire).chain(missing);
    all.chain([how, versions]).chain(limit).collect()
}

fn empty() -> Bars {
    let (title, unit) = ("nothing was measured".to_owned(), String::new());
    Bars { title, unit, categories: Vec::new(), series: Vec::new() }
}

/// Draws a picture of each part that has one, with its name.
fn pictures(config: &Config, measured: &Measured) -> Vec<(&'static str, Bars)> {
    let mut pictures = Vec::new();
    if !measured.load.is_empty() {
        pictures.push(("load", load_picture(config, &measured.load)));
    }
    let rates: Vec<&WireRow> =
        measured.wire.iter().filter(|row| ![ROWS, FLIGHT].contains(&row.case)).collect();
    if !rates.is_empty() {
        pictures.push(("wire", wire_picture(&rates)));
    }
    pictures
}

fn load_picture(config: &Config, rows: &[LoadRow]) -> Bars {
    let count = |count: usize| u32::try_from(count).ok().map(f64::from);
    let series = rows.iter().map(|row| Series {
        name: row.engine.name().to_owned(),
        values: vec![count(row.finished), count(row.failed), count(row.wrong)],
    });
    Bars {
        title: format!(
            "{} clients, TPC-H scale {}, limit {}",
            config.options.clients,
            config.scale,
            format_bytes(config.limit_bytes)
        ),
        unit: "count".to_owned(),
        categories: ["clients finished", "queries failed", "answers wrong"].map(Into::into).into(),
        series: series.collect(),
    }
}

fn wire_picture(rows: &[&WireRow]) -> Bars {
    let mut cases: Vec<(&str, usize)> =
        rows.iter().map(|row| (row.case, row.connections)).collect();
    cases.dedup();
    let of = |engine: Engine, case: &(&str, usize)| {
        let mut rows = rows.iter();
        rows.find(|row| row.engine == engine && (row.case, row.connections) == *case)?.rate
    };
    let engines = [Engine::Terrace, Engine::Postgres];
    let there = engines.into_iter().filter(|engine| rows.iter().any(|row| row.engine == *engine));
    Bars {
        title: "SELECT 1 by pgbench".to_owned(),
        unit: "queries per second".to_owned(),
        categories: cases.iter().map(|(mode, count)| format!("{mode}, {count}")).collect(),
        series: there
            .map(|engine| Series {
                name: engine.name().to_owned(),
                values: cases.iter().map(|case| of(engine, case)).collect(),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wire(engine: Engine, rate: f64) -> WireRow {
        let (case, connections) = ("prepared", 32);
        let p99_us = Some(1000.0 / rate);
        WireRow { engine, case, connections, rate: Some(rate), p50_us: None, p99_us, error: None }
    }

    fn priority(beside_load: bool, p95: f64) -> PriorityRow {
        PriorityRow {
            beside_load,
            has_priority: true,
            answered: 1,
            failed: 0,
            p50_seconds: Some(p95),
            p95_seconds: Some(p95),
            load_answered: 0,
            load_failed: 0,
            error: None,
        }
    }

    #[test]
    fn ratios_are_of_the_same_case_and_failures_are_of_ours() {
        let mut measured = Measured {
            wire: vec![wire(Engine::Terrace, 50.0), wire(Engine::Postgres, 100.0)],
            priority: vec![priority(false, 0.2), priority(true, 0.3)],
            load: Vec::new(),
        };
        let summary = measured.summary();
        assert!((summary.wire[0].rate_over_postgres - 0.5).abs() < 1e-9);
        assert!(summary.short_p95_over_idle.is_some_and(|ratio| (ratio - 1.5).abs() < 1e-9));
        assert_eq!((summary.wire.len(), measured.failed()), (1, 0));
        measured.wire[1].error = Some("theirs".to_owned());
        assert_eq!(measured.failed(), 0);
        measured.wire[0].error = Some("ours".to_owned());
        assert_eq!(measured.failed(), 1);
    }
}
