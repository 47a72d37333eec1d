//! TPC-H with ever less DRAM: our engine, DuckDB with the same limit, and DataFusion as it comes.
//!
//! Each engine is a process of its own that keeps its database open ([`crate::peer`]). Each query
//! runs on one engine after another, round after round, and who begins changes from round to round.
//! At each budget the sums and geometric means of the medians are compared.

use std::collections::BTreeMap;

use serde::Serialize;
use terrace_sys::size::{GIB, MIB, format_bytes};

use crate::chart::{Bars, Series};
use crate::error::{BenchError, Result};
use crate::experiment::{Finding, Setting};
use crate::grid::Grid;
use crate::peer::engine::{Arena, Contender};
use crate::peer::process::{Client, Peer};
use crate::report::Report;
use crate::statistic::{geometric_mean, median};
use crate::tpch::query::Query;

/// Who is compared; ours first.
const CONTENDERS: [Contender; 3] = [Contender::Terrace, Contender::DuckDb, Contender::DataFusion];

/// Budgets to compare at, unless one is named. The first is more than any query wants at scale 1.
const DRAM_BYTES: [u64; 5] = [6 * GIB, 512 * MIB, 256 * MIB, 128 * MIB, 64 * MIB];

/// One query on one engine at one budget.
#[derive(Clone, Debug, Serialize)]
struct Row {
    dram_bytes: u64,
    query: u32,
    engine: Contender,
    seconds: Option<f64>,
    rows: usize,
    error: Option<String>,
}

#[derive(Clone, Debug, Serialize)]
struct Config {
    scale: f64,
    ample_dram_bytes: u64,
    threads: usize,
    rounds: usize,
    missing: Option<String>,
}

/// What one engine came to at one budget.
#[derive(Clone, Debug, Serialize)]
struct Total {
    dram_bytes: u64,
    engine: Contender,
    answered: usize,
    failed: Vec<u32>,
    /// Sum of the queries that it answered.
    seconds: f64,
    geometric_mean_seconds: Option<f64>,
    /// Its time over its own with ample DRAM, of the queries that it answered at both.
    slowdown: Option<f64>,
    /// Geometric mean of its times over DuckDB's, of the queries that both answered.
    over_duckdb: Option<f64>,
    peak_rss_bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    totals: Vec<Total>,
}

/// The most resident memory of an engine at a budget.
type Peaks = BTreeMap<(u64, Contender), u64>;

/// Runs the experiment.
///
/// # Errors
/// When the tables cannot be loaded, or two engines give a query another number of rows. A query
/// that fails is a row.
pub async fn run(setting: &Setting, observe: &mut dyn FnMut(&str)) -> Result<Finding> {
    let arena = Arena::prepare(setting, "out-of-core", observe).await?;
    let budgets = budgets(setting);
    let config = Config {
        scale: setting.scale,
        ample_dram_bytes: budgets[0],
        threads: setting.engine.threads,
        rounds: setting.rounds.get(),
        missing: arena.missing(),
    };
    let (mut rows, mut peaks) = (Vec::new(), Peaks::new());
    for dram_bytes in budgets {
        let mut field = Vec::new();
        for contender in CONTENDERS.into_iter().filter(|contender| arena.has(*contender)) {
            let (peer, clients) = arena.start(contender, dram_bytes, 1).await?;
            field.push(Entrant { contender, peer, clients, peak_bytes: 0 });
        }
        for number in &setting.queries {
            observe(&format!("query {number} in {}", format_bytes(dram_bytes)));
            let query = Query::of(*number)?;
            rows.extend(compare(&mut field, query, dram_bytes, setting).await?);
            for entrant in &mut field {
                entrant.start_again_if_stuck(&arena, dram_bytes).await?;
            }
        }
        for entrant in &field {
            peaks.insert((dram_bytes, entrant.contender), entrant.peak_bytes()?);
        }
    }
    finding(&config, &rows, &peaks)
}

/// An engine that runs.
struct Entrant {
    contender: Contender,
    peer: Peer,
    clients: Vec<Client>,
    /// The most resident memory of the processes before this one.
    peak_bytes: u64,
}

impl Entrant {
    fn peak_bytes(&self) -> Result<u64> {
        Ok(self.peak_bytes.max(self.peer.peak_resident_bytes()?))
    }

    /// Another process in place of one that has not answered.
    async fn start_again_if_stuck(&mut self, arena: &Arena, dram_bytes: u64) -> Result<()> {
        if !self.clients.iter().any(Client::is_stuck) {
            return Ok(());
        }
        self.peak_bytes = self.peak_bytes()?;
        self.peer.end();
        (self.peer, self.clients) = arena.start(self.contender, dram_bytes, 1).await?;
        Ok(())
    }

    async fn ask(&mut self, text: &str) -> Result<crate::peer::Reply> {
        match self.clients.first_mut() {
            Some(client) => client.ask(text).await,
            None => Err(BenchError::Peer(format!("{} has no client", self.contender.name()))),
        }
    }
}

/// The budgets, the ample one first.
fn budgets(setting: &Setting) -> Vec<u64> {
    let ample = DRAM_BYTES[0];
    match setting.dram_is_named {
        true => vec![ample.max(setting.engine.dram_bytes), setting.engine.dram_bytes],
        false => DRAM_BYTES.to_vec(),
    }
}

async fn compare(
    field: &mut [Entrant],
    query: Query,
    dram_bytes: u64,
    setting: &Setting,
) -> Result<Vec<Row>> {
    let text = query.text(setting.scale);
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); field.len()];
    let mut rows: Vec<Row> = field.iter().map(|entrant| row(entrant, query, dram_bytes)).collect();
    for round in 0..setting.rounds.get() {
        for turn in 0..field.len() {
            let at = (round + turn) % field.len();
            if rows[at].error.is_some() {
                continue;
            }
            let reply = field[at].ask(&text).await?;
            times[at].push(reply.seconds);
            rows[at].rows = reply.rows;
            rows[at].error = reply.error;
        }
    }
    for (row, times) in rows.iter_mut().zip(&times) {
        row.seconds = median(times).filter(|_| row.error.is_none());
    }
    agree(&rows)?;
    Ok(rows)
}

fn row(entrant: &Entrant, query: Query, dram_bytes: u64) -> Row {
    let engine = entrant.contender;
    Row { dram_bytes, query: query.number, engine, seconds: None, rows: 0, error: None }
}

/// Engines that answer a query give the same number of rows.
fn agree(rows: &[Row]) -> Result<()> {
    let mut answered = rows.iter().filter(|row| row.error.is_none());
    let Some(first) = answered.next() else { return Ok(()) };
    match answered.find(|row| row.rows != first.rows) {
        None => Ok(()),
        Some(other) => Err(BenchError::Engine(format!(
            "query {}: {} rows from {}, {} from {}",
            first.query,
            first.rows,
            first.engine.name(),
            other.rows,
            other.engine.name()
        ))),
    }
}

/// Times by query, of an engine at a budget.
fn times(rows: &[Row], dram_bytes: u64, engine: Contender) -> BTreeMap<u32, f64> {
    let own = rows.iter().filter(|row| row.dram_bytes == dram_bytes && row.engine == engine);
    own.filter_map(|row| Some((row.query, row.seconds?))).collect()
}

fn total(rows: &[Row], (dram_bytes, engine): (u64, Contender), ample: u64, peak: u64) -> Total {
    let own = times(rows, dram_bytes, engine);
    let all: Vec<f64> = own.values().copied().collect();
    let over = |other: &BTreeMap<u32, f64>| -> Vec<(f64, f64)> {
        own.iter().filter_map(|(query, own)| Some((*own, *other.get(query)?))).collect()
    };
    let before = over(&times(rows, ample, engine));
    let sums = before.iter().fold((0.0, 0.0), |sums, pair| (sums.0 + pair.0, sums.1 + pair.1));
    let theirs = over(&times(rows, dram_bytes, Contender::DuckDb));
    let ratios: Vec<f64> = theirs.iter().map(|(own, theirs)| own / theirs).collect();
    let failed =
        |row: &&Row| row.dram_bytes == dram_bytes && row.engine == engine && row.error.is_some();
    Total {
        dram_bytes,
        engine,
        answered: own.len(),
        failed: rows.iter().filter(failed).map(|row| row.query).collect(),
        seconds: all.iter().sum(),
        geometric_mean_seconds: geometric_mean(&all),
        slowdown: (!before.is_empty()).then(|| sums.0 / sums.1),
        over_duckdb: geometric_mean(&ratios),
        peak_rss_bytes: peak,
    }
}

fn finding(config: &Config, rows: &[Row], peaks: &Peaks) -> Result<Finding> {
    let ample = config.ample_dram_bytes;
    let mut totals: Vec<Total> =
        peaks.iter().map(|(place, peak)| total(rows, *place, ample, *peak)).collect();
    // Most DRAM first.
    totals.sort_by_key(|total| (std::cmp::Reverse(total.dram_bytes), total.engine));
    let summary = Summary { totals };
    // What the others cannot do is a part of the finding.
    let failed = |row: &&Row| row.engine == Contender::Terrace && row.error.is_some();
    Ok(Finding {
        failed: rows.iter().filter(failed).count(),
        grid: grid(&summary),
        notes: notes(config, rows),
        picture: picture(config, rows, &summary),
        more: Vec::new(),
        report: Report::new("out-of-core", config, rows, &summary)?,
    })
}

fn grid(summary: &Summary) -> Grid {
    let mut grid = Grid::new([
        "DRAM",
        "engine",
        "answered",
        "failed",
        "seconds",
        "mean s",
        "over ample",
        "over DuckDB",
        "resident",
    ]);
    let number = |value: Option<f64>| value.map_or("-".to_string(), |value| format!("{value:.3}"));
    for total in &summary.totals {
        grid.push([
            format_bytes(total.dram_bytes),
            total.engine.name().to_string(),
            total.answered.to_string(),
            total.failed.len().to_string(),
            format!("{:.3}", total.seconds),
            number(total.geometric_mean_seconds),
            number(total.slowdown),
            number(total.over_duckdb),
            format_bytes(total.peak_rss_bytes),
        ]);
    }
    grid
}

fn notes(config: &Config, rows: &[Row]) -> Vec<String> {
    let failed = rows.iter().filter_map(|row| {
        let (engine, dram) = (row.engine.name(), format_bytes(row.dram_bytes));
        let error = row.error.as_ref()?.lines().next().unwrap_or_default().to_string();
        Some(format!("query {} on {engine} in {dram}: {error}", row.query))
    });
    let how = format!(
        "medians of {} rounds, {} threads; sums and means are of the queries that each answered",
        config.rounds, config.threads
    );
    failed.chain(config.missing.clone()).chain([how]).collect()
}

fn picture(config: &Config, rows: &[Row], summary: &Summary) -> Bars {
    let mut budgets: Vec<u64> = summary.totals.iter().map(|total| total.dram_bytes).collect();
    budgets.dedup();
    let engines = CONTENDERS.into_iter();
    let taking_part = |engine: &Contender| summary.totals.iter().any(|t| t.engine == *engine);
    let label = |budget: &u64| match *budget == config.ample_dram_bytes {
        true => "ample".to_string(),
        false => format_bytes(*budget),
    };
    // Bars of one group are sums of the same queries: those that every engine answered there.
    let sum = |budget: u64, engine: Contender| {
        let all: Vec<BTreeMap<u32, f64>> =
            CONTENDERS.iter().filter(|e| taking_part(e)).map(|e| times(rows, budget, *e)).collect();
        let own = times(rows, budget, engine);
        let common =
            own.iter().filter(|(query, _)| all.iter().all(|times| times.contains_key(query)));
        let seconds: f64 = common.map(|(_, seconds)| seconds).sum();
        (seconds > 0.0).then_some(seconds)
    };
    Bars {
        title: format!("TPC-H scale {}, less and less DRAM", config.scale),
        unit: "seconds, sum of the queries that all answered".into(),
        categories: budgets.iter().map(label).collect(),
        series: engines
            .filter(taking_part)
            .map(|engine| Series {
                name: engine.name().into(),
                values: budgets.iter().map(|budget| sum(*budget, engine)).collect(),
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(dram_bytes: u64, query: u32, engine: Contender, seconds: Option<f64>) -> Row {
        let error = seconds.is_none().then(|| "no memory\nmore words".to_string());
        Row { dram_bytes, query, engine, seconds, rows: 1, error }
    }

    fn rows() -> Vec<Row> {
        use Contender::{DuckDb, Terrace};
        vec![
            row(2 * GIB, 1, Terrace, Some(1.0)),
            row(2 * GIB, 2, Terrace, Some(3.0)),
            row(2 * GIB, 1, DuckDb, Some(2.0)),
            row(2 * GIB, 2, DuckDb, Some(2.0)),
            row(64 * MIB, 1, Terrace, Some(1.5)),
            row(64 * MIB, 2, Terrace, None),
            row(64 * MIB, 1, DuckDb, Some(3.0)),
            row(64 * MIB, 2, DuckDb, Some(5.0)),
        ]
    }

    #[test]
    fn slowdowns_and_ratios_are_of_the_queries_that_both_answered() {
        let rows = rows();
        let ours = total(&rows, (64 * MIB, Contender::Terrace), 2 * GIB, 7);
        assert_eq!((ours.answered, ours.failed.as_slice()), (1, &[2][..]));
        assert_eq!((ours.slowdown, ours.seconds), (Some(1.5), 1.5));
        assert!((ours.over_duckdb.expect("a mean") - 0.5).abs() < 1e-9);
        let theirs = total(&rows, (64 * MIB, Contender::DuckDb), 2 * GIB, 7);
        assert_eq!((theirs.slowdown, theirs.answered), (Some(2.0), 2));
    }

    #[test]
    fn what_failed_and_what_is_missing_is_said() {
        let config = Config {
            scale: 1.0,
            ample_dram_bytes: 2 * GIB,
            threads: 2,
            rounds: 3,
            missing: Some("DuckDB is missing".into()),
        };
        let peaks: Peaks = [2 * GIB, 64 * MIB]
            .into_iter()
            .flat_map(|dram| {
                [Contender::Terrace, Contender::DuckDb].map(|engine| ((dram, engine), 1 << 20))
            })
            .collect();
        let finding = finding(&config, &rows(), &peaks).expect("finding");
        let failed = &finding.notes[0];
        assert!(failed.contains("query 2 on terrace in 64MiB: no memory"), "{failed}");
        assert!(!failed.contains("more words"), "{failed}");
        assert!(finding.notes.contains(&"DuckDB is missing".to_string()));
        assert_eq!(finding.picture.categories, ["ample", "64MiB"]);
        // Both answered query 1 in little DRAM; query 2 is in neither bar.
        assert_eq!(finding.picture.series[1].values, [Some(4.0), Some(3.0)]);
    }

    #[test]
    fn engines_that_disagree_are_no_finding() {
        let mut rows = rows();
        rows[3].rows = 2;
        assert!(agree(&rows[1..4]).expect_err("refused").to_string().contains("2 from DuckDB"));
        rows[3].error = Some("no memory".into());
        assert!(agree(&rows[1..4]).is_ok());
    }
}
