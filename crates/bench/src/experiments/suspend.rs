//! Effect of a suspended query on other queries, and the cost of the suspension.
//!
//! A sort of all line items holds most of DRAM. Another session queries a table that is not in
//! memory: on an idle engine, during the sort, and while the sort is suspended. The time to its
//! first rows is measured. The three alternate, each in an engine opened anew over the same
//! database. Then the sort is resumed, and must return the answer that it returns undisturbed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::util::pretty::pretty_format_batches;
use futures::StreamExt;
use serde::Serialize;
use terrace_sql::query::Query;
use terrace_sql::{Engine, Session, SqlError};
use terrace_sys::size::{MIB, format_bytes};
use tokio::task::JoinHandle;

use crate::error::{BenchError, Result};
use crate::experiment::{Common, Experiment};
use crate::measure::median;
use crate::report::{Bars, Grid, Report, Series};
use crate::setting::{Conditions, Finding, Setting};
use crate::suite::load::refused;
use crate::suite::run::start;
use crate::tpch::database::Database;

/// Default memory budget, smaller than the state of the sort.
const DRAM_BYTES: u64 = 256 * MIB;
/// Query that holds memory: a sort of all line items by their comments.
const HOLDER: &str = "SELECT count(*), sum(n * l_linenumber) FROM (SELECT l_linenumber, \
     row_number() OVER (ORDER BY l_comment, l_orderkey, l_linenumber) AS n FROM lineitem)";
/// Other query, whose first batch is timed.
const OTHER: &str = "SELECT ps_partkey, ps_suppkey FROM partsupp WHERE ps_supplycost > 500";
/// Share of the budget, in percent, at which the sort is suspended. If its grant is smaller, since
/// the pool keeps some frames unpinned for reads and writes, it is suspended once it has stopped
/// growing.
const HELD_PERCENT: u64 = 80;
/// Timeout to reach the share, and time without growth after which the sort counts as having
/// reached its maximum.
const PATIENCE: Duration = Duration::from_secs(60);
const STEADY: Duration = Duration::from_millis(400);
const LOOK: Duration = Duration::from_millis(1);

/// State of the sort while the other session runs its query.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
enum Beside {
    Idle,
    Running,
    Suspended,
}

const ALL: [Beside; 3] = [Beside::Idle, Beside::Running, Beside::Suspended];

/// Measurements of one visit to an engine.
#[derive(Clone, Debug, Serialize)]
struct Row {
    round: usize,
    beside: Beside,
    /// Time from the text of the other query to its first batch, and to its last.
    first_batch_seconds: f64,
    seconds: f64,
    /// Bytes that the sort held, in pages and otherwise, when the other query started or the sort
    /// was suspended.
    held_bytes: u64,
    /// Time from SUSPEND until no page was pinned.
    unpinned_seconds: Option<f64>,
    /// Bytes written to the store in that time.
    written_bytes: Option<u64>,
    /// True if the sort returned the correct answer in the end.
    right: Option<bool>,
}

#[derive(Clone, Debug, Serialize)]
struct Summary {
    idle_first_batch_seconds: Option<f64>,
    running_first_batch_seconds: Option<f64>,
    suspended_first_batch_seconds: Option<f64>,
    /// Median time to the first batch while the sort is suspended, relative to an idle engine.
    suspended_over_idle: Option<f64>,
    running_over_idle: Option<f64>,
    /// Smallest share of the budget that a suspended sort held.
    held_share: f64,
    unpinned_seconds: Option<f64>,
    /// Maximum bytes that a suspension wrote.
    written_bytes: u64,
    wrong: usize,
}

/// Experiment `suspend`: a session during a suspended query.
pub(crate) struct Suspend;

impl Experiment for Suspend {
    const NAME: &'static str = "suspend";
    const QUESTION: &'static str = "what does a suspended query leave to others?";
    const COMMON: &'static [Common] = &[Common::Scale, Common::Rounds, Common::Encoding];
    type Options = ();

    /// Runs the experiment.
    ///
    /// # Errors
    /// Fails if the tables cannot be loaded or a query fails.
    async fn run(setting: &Setting, (): &(), observe: &mut dyn FnMut(&str)) -> Result<Finding> {
        let database = Database::load(setting, "suspend", DRAM_BYTES, observe).await?;
        let config = setting.conditions(database.config(), database.encoding());
        observe("the sort undisturbed");
        let engine = database.open()?;
        let (_, expected) = Holder::start(&engine.session().map_err(refused)?).await?.end().await?;
        engine.close().map_err(refused)?;
        let mut rows = Vec::new();
        for round in 0..setting.rounds.get() {
            for turn in 0..ALL.len() {
                let beside = ALL[(round + turn) % ALL.len()];
                observe(&format!("round {}, {beside:?}", round + 1));
                let engine = database.open()?;
                rows.push(visit(&engine, beside, round, config.dram_bytes, &expected).await?);
                engine.close().map_err(refused)?;
            }
        }
        finding(&config, &rows)
    }
}

/// The sort that holds memory, and the task that runs it.
struct Holder {
    query: Arc<Query>,
    task: JoinHandle<std::result::Result<String, SqlError>>,
}

impl Holder {
    async fn start(session: &Session) -> Result<Self> {
        let handle = start(session, HOLDER).await?;
        let query = Arc::clone(handle.query());
        let task = tokio::spawn(async move {
            let output = handle.collect().await?;
            Ok(pretty_format_batches(&output.batches)?.to_string())
        });
        Ok(Self { query, task })
    }

    /// Returns the bytes of DRAM that the sort takes: its resident pages, pinned or not, and its
    /// heap memory.
    fn held_bytes(&self) -> u64 {
        let memory = self.query.memory();
        let heap = memory.held_bytes().saturating_sub(memory.pinned_bytes());
        self.query.resident_bytes() + heap
    }

    /// Waits until the sort holds its share, or has stopped growing. Returns the bytes held.
    async fn holds(&self, dram_bytes: u64) -> Result<u64> {
        let wanted = dram_bytes / 100 * HELD_PERCENT;
        let began = Instant::now();
        let (mut most, mut since) = (0, began);
        loop {
            let held = self.held_bytes();
            if held > most {
                (most, since) = (held, Instant::now());
            }
            let is_steady = most > dram_bytes / 2 && since.elapsed() >= STEADY;
            if held >= wanted || (is_steady && held >= most / 10 * 9) {
                return Ok(held);
            }
            if self.task.is_finished() || began.elapsed() > PATIENCE {
                return Err(BenchError::input(format!(
                    "the sort held at most {} of {}; a larger --scale or a smaller --dram makes \
                     it hold more",
                    format_bytes(most),
                    format_bytes(dram_bytes)
                )));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    async fn end(self) -> Result<(Arc<Query>, String)> {
        let ended = self.task.await.map_err(|error| BenchError::Engine(error.to_string()))?;
        Ok((self.query, ended.map_err(refused)?))
    }
}

async fn visit(
    engine: &Engine,
    beside: Beside,
    round: usize,
    dram_bytes: u64,
    expected: &str,
) -> Result<Row> {
    let (own, other) = (engine.session().map_err(refused)?, engine.session().map_err(refused)?);
    // A warm-up: the first statement of an engine takes longer in any state.
    other.sql("SELECT count(*) FROM nation").await.map_err(refused)?;
    if beside == Beside::Idle {
        let (first_batch_seconds, seconds) = ask(&other).await?;
        return Ok(Row {
            round,
            beside,
            first_batch_seconds,
            seconds,
            held_bytes: 0,
            unpinned_seconds: None,
            written_bytes: None,
            right: None,
        });
    }
    let holder = Holder::start(&own).await?;
    let held_bytes = holder.holds(dram_bytes).await?;
    let (mut unpinned_seconds, mut written_bytes) = (None, None);
    if beside == Beside::Suspended {
        let before = written(engine);
        let began = Instant::now();
        holder.query.suspend();
        while holder.query.memory().pinned_bytes() > 0 {
            if began.elapsed() > PATIENCE {
                let pinned = format_bytes(holder.query.memory().pinned_bytes());
                return Err(BenchError::Engine(format!("a suspended sort kept {pinned} pinned")));
            }
            tokio::time::sleep(LOOK).await;
        }
        unpinned_seconds = Some(began.elapsed().as_secs_f64());
        written_bytes = Some(written(engine) - before);
    }
    let (first_batch_seconds, seconds) = ask(&other).await?;
    holder.query.resume();
    let (_, answer) = holder.end().await?;
    Ok(Row {
        round,
        beside,
        first_batch_seconds,
        seconds,
        held_bytes,
        unpinned_seconds,
        written_bytes,
        right: Some(answer == expected),
    })
}

/// Returns the bytes written to the store so far.
fn written(engine: &Engine) -> u64 {
    engine.pool().stats().written_bytes
}

/// Runs the other query. Returns the seconds to its first batch and to its last.
async fn ask(session: &Session) -> Result<(f64, f64)> {
    let began = Instant::now();
    let mut handle = start(session, OTHER).await?;
    let mut first = None;
    while let Some(batch) = handle.stream.next().await {
        batch?;
        first.get_or_insert_with(|| began.elapsed().as_secs_f64());
    }
    let seconds = began.elapsed().as_secs_f64();
    Ok((first.unwrap_or(seconds), seconds))
}

fn summarise(rows: &[Row], dram_bytes: u64) -> Summary {
    let of = |beside: Beside| rows.iter().filter(move |row| row.beside == beside);
    let first = |beside| {
        let seconds: Vec<f64> = of(beside).map(|row| row.first_batch_seconds).collect();
        median(&seconds)
    };
    let suspended = || of(Beside::Suspended);
    let (idle, running, own) =
        (first(Beside::Idle), first(Beside::Running), first(Beside::Suspended));
    let over_idle = |seconds: Option<f64>| seconds.zip(idle).map(|(seconds, idle)| seconds / idle);
    let unpinned: Vec<f64> = suspended().filter_map(|row| row.unpinned_seconds).collect();
    let held = suspended().map(|row| row.held_bytes).min().unwrap_or(0);
    Summary {
        idle_first_batch_seconds: idle,
        running_first_batch_seconds: running,
        suspended_first_batch_seconds: own,
        suspended_over_idle: over_idle(own),
        running_over_idle: over_idle(running),
        held_share: held as f64 / dram_bytes.max(1) as f64,
        unpinned_seconds: median(&unpinned),
        written_bytes: suspended().filter_map(|row| row.written_bytes).max().unwrap_or(0),
        wrong: rows.iter().filter(|row| row.right == Some(false)).count(),
    }
}

fn finding(config: &Conditions, rows: &[Row]) -> Result<Finding> {
    let summary = summarise(rows, config.dram_bytes);
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.4}"));
    let mut grid = Grid::new(["the sort is", "first batch s", "over idle"]);
    for (name, seconds, over) in [
        ("not there", summary.idle_first_batch_seconds, Some(1.0)),
        ("running", summary.running_first_batch_seconds, summary.running_over_idle),
        ("suspended", summary.suspended_first_batch_seconds, summary.suspended_over_idle),
    ] {
        grid.push([name.to_owned(), number(seconds), number(over)]);
    }
    let notes = vec![
        format!(
            "the suspended sort held {:.0} % of {} at least, unpinned it in {} s (median), and {} \
             were written for that at most",
            summary.held_share * 100.0,
            format_bytes(config.dram_bytes),
            number(summary.unpinned_seconds),
            format_bytes(summary.written_bytes),
        ),
        format!(
            "{} wrong answers; medians of {} rounds, {} tables",
            summary.wrong, config.rounds, config.encoding
        ),
    ];
    let seconds = [
        summary.idle_first_batch_seconds,
        summary.running_first_batch_seconds,
        summary.suspended_first_batch_seconds,
    ];
    let picture = Bars {
        title: format!(
            "First batch beside a sort, TPC-H scale {}, {} tables",
            config.scale, config.encoding
        ),
        unit: "seconds".into(),
        categories: ["no sort", "running", "suspended"].map(str::to_owned).to_vec(),
        series: vec![Series { name: "first batch".into(), values: seconds.to_vec() }],
    };
    let report = Report::new(Suspend::NAME, config, rows, &summary)?;
    Ok(Finding { failed: summary.wrong, more: Vec::new(), grid, notes, picture, report })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_is_of_medians_and_the_worst() {
        let row = |beside, first_batch_seconds, held_bytes, written_bytes, right| Row {
            round: 0,
            beside,
            first_batch_seconds,
            seconds: 1.0,
            held_bytes,
            unpinned_seconds: (beside == Beside::Suspended).then_some(0.01),
            written_bytes: (beside == Beside::Suspended).then_some(written_bytes),
            right: (beside != Beside::Idle).then_some(right),
        };
        let rows = [
            row(Beside::Idle, 0.010, 0, 0, true),
            row(Beside::Running, 0.030, 90, 0, true),
            row(Beside::Suspended, 0.011, 80, 0, true),
            row(Beside::Suspended, 0.013, 70, 4096, false),
        ];
        let summary = summarise(&rows, 100);
        assert!(summary.suspended_over_idle.is_some_and(|ratio| (ratio - 1.2).abs() < 1e-9));
        assert_eq!((summary.written_bytes, summary.wrong), (4096, 1));
        assert!((summary.held_share - 0.7).abs() < 1e-9);
        let config = Conditions {
            scale: 1.0,
            dram_bytes: 100,
            threads: 2,
            rounds: 2,
            encoding: "compact".into(),
        };
        let finding = finding(&config, &rows).expect("finding");
        assert_eq!((finding.failed, finding.report.rows.len()), (1, 4));
    }
}
