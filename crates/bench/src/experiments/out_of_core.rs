//! TPC-H with decreasing DRAM: Terrace, DuckDB with the same limit, and unmodified DataFusion.
//!
//! Each engine is a process of its own that keeps its database open ([`crate::peer`]), in a control
//! group that limits its memory and page cache if groups can be created. Each query runs on one
//! engine after another, round after round, and the first engine changes from round to round. At
//! each budget the sums and geometric means of the medians are compared.
//!
//! Before the rounds each engine answers the query once, untimed, and the complete answers are
//! compared ([`Comparison`]). In the rounds the engines of this program return their answers again;
//! DuckDB returns its row count, as its measured time would include the conversion of rows to
//! Python objects.

use std::collections::BTreeMap;

use serde::Serialize;
use terrace_sys::size::{GIB, MIB, format_bytes};

use crate::error::{BenchError, Result};
use crate::experiment::{Common, Experiment};
use crate::measure::{geometric_mean, median};
use crate::peer::Reply;
use crate::peer::comparison::{Comparison, Question};
use crate::peer::engine::{Arena, Contender};
use crate::peer::process::{Client, Peer};
use crate::report::{Bars, Grid, Report, Series};
use crate::setting::{Finding, Setting};
use crate::tpch::query::Query;

/// Engines that are compared; Terrace first.
const CONTENDERS: [Contender; 3] = [Contender::Terrace, Contender::DuckDb, Contender::DataFusion];

/// Default budgets. The first is more than any query needs at scale 1.
const DRAM_BYTES: [u64; 5] = [6 * GIB, 512 * MIB, 256 * MIB, 128 * MIB, 64 * MIB];

/// Minimum of the bytes that a process may take in addition to the budget of its engine: for the
/// program, its threads, and memory that the engine does not account for, which grows with the
/// work. A process may take the budget / `PROGRAM_SHARE` if that is more.
const PROGRAM_BYTES_MIN: u64 = 128 * MIB;
const PROGRAM_SHARE: u64 = 2;

/// Description of this limit in the report.
const LIMIT: &str = "each engine runs in a control group of its budget and half as much, 128MiB at \
     least, for the program";

/// Result of one query on one engine at one budget.
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
    /// Encoding of Terrace's tables.
    encoding: String,
    /// Description of the engines' memory limit in addition to their budgets.
    memory_limit: String,
    missing: Option<String>,
}

/// Totals of one engine at one budget.
#[derive(Clone, Debug, Serialize)]
struct Total {
    dram_bytes: u64,
    engine: Contender,
    answered: usize,
    failed: Vec<u32>,
    /// Sum of the times of the queries that it answered.
    seconds: f64,
    geometric_mean_seconds: Option<f64>,
    /// Its time relative to its own with ample DRAM, over the queries that it answered at both
    /// budgets.
    slowdown: Option<f64>,
    /// Geometric mean of the ratios of its times to DuckDB's, over the queries that both answered.
    over_duckdb: Option<f64>,
    peak_rss_bytes: u64,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    totals: Vec<Total>,
}

/// Peak resident memory of an engine at a budget.
type Peaks = BTreeMap<(u64, Contender), u64>;

/// Experiment `out-of-core`: three engines under decreasing memory budgets.
pub(crate) struct OutOfCore;

impl Experiment for OutOfCore {
    const NAME: &'static str = "out-of-core";
    const QUESTION: &'static str =
        "what does less DRAM cost us, DuckDB with the same limit, and DataFusion?";
    const COMMON: &'static [Common] = &Common::ALL;
    type Options = ();

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if the tables cannot be loaded, or if two engines answer a query differently; the
    /// error names the query. A failed query is a row of the report.
    async fn run(setting: &Setting, (): &(), observe: &mut dyn FnMut(&str)) -> Result<Finding> {
        let arena = Arena::prepare(setting, "out-of-core", observe).await?;
        let budgets = budgets(setting);
        let config = Config {
            scale: setting.scale,
            ample_dram_bytes: budgets[0],
            threads: setting.engine.threads,
            rounds: setting.rounds.get(),
            encoding: arena.encoding().to_owned(),
            memory_limit: arena.memory_limit(LIMIT),
            missing: arena.missing(),
        };
        let (mut rows, mut peaks) = (Vec::new(), Peaks::new());
        let mut comparison = Comparison::new(setting.scale);
        for dram_bytes in budgets {
            let mut field = Vec::new();
            for contender in CONTENDERS.into_iter().filter(|contender| arena.has(*contender)) {
                let (peer, clients) = start(&arena, contender, dram_bytes).await?;
                field.push(Entrant { contender, peer, clients, peak_bytes: 0, ended: false });
            }
            for number in &setting.queries {
                observe(&format!("query {number} in {}", format_bytes(dram_bytes)));
                let question = (*number, Question::of(Query::of(*number)?, setting.scale));
                let rounds = setting.rounds.get();
                rows.extend(
                    compare(&mut field, &question, (dram_bytes, rounds), &mut comparison).await?,
                );
                for entrant in &mut field {
                    entrant.start_again_if_stuck(&arena, dram_bytes).await?;
                }
            }
            for entrant in &field {
                peaks.insert((dram_bytes, entrant.contender), entrant.peak_bytes());
            }
        }
        finding(&config, &rows, &peaks)
    }
}

/// A running engine.
struct Entrant {
    contender: Contender,
    peer: Peer,
    clients: Vec<Client>,
    /// Peak resident memory of earlier processes of this engine.
    peak_bytes: u64,
    /// True if the process has ended: the kernel kills one that exceeds the memory of its control
    /// group.
    ended: bool,
}

impl Entrant {
    /// Returns the peak resident memory of the engine's processes. That of a process which has
    /// ended by itself is not available.
    fn peak_bytes(&self) -> u64 {
        self.peak_bytes.max(self.peer.peak_resident_bytes().unwrap_or_default())
    }

    /// Replaces a process that has not answered or has ended.
    async fn start_again_if_stuck(&mut self, arena: &Arena, dram_bytes: u64) -> Result<()> {
        if !self.ended && !self.clients.iter().any(Client::is_stuck) {
            return Ok(());
        }
        self.peak_bytes = self.peak_bytes();
        self.ended = false;
        self.peer.end();
        (self.peer, self.clients) = start(arena, self.contender, dram_bytes).await?;
        Ok(())
    }

    /// Runs a query. If the process ends, the reply has an error.
    async fn ask(&mut self, text: &str, answer: bool) -> Result<Reply> {
        let none = || BenchError::Peer(format!("{} has no client", self.contender.name()));
        let client = self.clients.first_mut().ok_or_else(none)?;
        let reply = match answer {
            true => client.ask_for_answer(text).await,
            false => client.ask(text).await,
        };
        Ok(reply.unwrap_or_else(|error| {
            self.ended = true;
            Reply { error: Some(error.to_string()), ..Reply::default() }
        }))
    }
}

/// Starts an engine with one client, in a control group.
async fn start(
    arena: &Arena,
    contender: Contender,
    dram_bytes: u64,
) -> Result<(Peer, Vec<Client>)> {
    let limit_bytes =
        dram_bytes.saturating_add((dram_bytes / PROGRAM_SHARE).max(PROGRAM_BYTES_MIN));
    arena.start_limited(contender, dram_bytes, 1, limit_bytes).await
}

/// Returns the budgets, the ample one first.
fn budgets(setting: &Setting) -> Vec<u64> {
    let ample = DRAM_BYTES[0];
    match setting.dram_is_named {
        true => vec![ample.max(setting.engine.dram_bytes), setting.engine.dram_bytes],
        false => DRAM_BYTES.to_vec(),
    }
}

/// Runs the query on every engine once to compare the answers, and then `rounds` times in turns to
/// time it.
async fn compare(
    field: &mut [Entrant],
    (number, question): &(u32, Question),
    (dram_bytes, rounds): (u64, usize),
    comparison: &mut Comparison,
) -> Result<Vec<Row>> {
    let mut times: Vec<Vec<f64>> = vec![Vec::new(); field.len()];
    let mut rows: Vec<Row> =
        field.iter().map(|entrant| row(entrant, *number, dram_bytes)).collect();
    for (entrant, row) in field.iter_mut().zip(&mut rows) {
        let reply = entrant.ask(&question.text, true).await?;
        comparison.judge(question, entrant.contender.name(), &reply)?;
        row.error = reply.error;
    }
    for round in 0..rounds {
        for turn in 0..field.len() {
            let at = (round + turn) % field.len();
            if rows[at].error.is_some() {
                continue;
            }
            let contender = field[at].contender;
            let reply = field[at].ask(&question.text, contender.answers_untimed()).await?;
            comparison.judge(question, contender.name(), &reply)?;
            times[at].push(reply.seconds);
            rows[at].rows = reply.rows;
            rows[at].error = reply.error;
        }
    }
    for (row, times) in rows.iter_mut().zip(&times) {
        row.seconds = median(times).filter(|_| row.error.is_none());
    }
    Ok(rows)
}

fn row(entrant: &Entrant, query: u32, dram_bytes: u64) -> Row {
    let engine = entrant.contender;
    Row { dram_bytes, query, engine, seconds: None, rows: 0, error: None }
}

/// Returns the times of an engine at a budget, by query.
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
    // Largest budget first.
    totals.sort_by_key(|total| (std::cmp::Reverse(total.dram_bytes), total.engine));
    let summary = Summary { totals };
    // Failures of the other engines are part of the result.
    let failed = |row: &&Row| row.engine == Contender::Terrace && row.error.is_some();
    Ok(Finding {
        failed: rows.iter().filter(failed).count(),
        grid: grid(&summary),
        notes: notes(config, rows),
        picture: picture(config, rows, &summary),
        more: Vec::new(),
        report: Report::new(OutOfCore::NAME, config, rows, &summary)?,
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
        "medians of {} rounds, {} tables, {} threads; sums and means are of the queries that each \
         answered; all answers are the same",
        config.rounds, config.encoding, config.threads
    );
    let limit = format!("memory: {}", config.memory_limit);
    failed.chain(config.missing.clone()).chain([how, limit]).collect()
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
    // The bars of one group are sums over the same queries: those that every engine answered there.
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
        title: format!("TPC-H scale {}, {} tables, ever less DRAM", config.scale, config.encoding),
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
            encoding: "compact".into(),
            memory_limit: "NOT LIMITED".into(),
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
        assert!(finding.notes.contains(&"memory: NOT LIMITED".to_string()));
        assert!(finding.picture.title.contains("compact tables"));
        assert_eq!(finding.picture.categories, ["ample", "64MiB"]);
        // Both answered query 1 in little DRAM; query 2 is in neither bar.
        assert_eq!(finding.picture.series[1].values, [Some(4.0), Some(3.0)]);
    }
}
