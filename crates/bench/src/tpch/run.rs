//! Running the queries, checking every answer, and reporting.

use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::time::Instant;

use futures::StreamExt;
use serde::Serialize;
use terrace_sql::{Engine, EngineConfig, Session};
use terrace_sys::process::{peak_resident_bytes, reset_peak_resident};

use crate::error::{BenchError, Result};
use crate::meter::{Meter, Reading};
use crate::report::Report;
use crate::statistic::median;
use crate::tpch::answer::Answer;
use crate::tpch::check::{Precision, check};
use crate::tpch::feed::Generator;
use crate::tpch::load::{Load, load, refused};
use crate::tpch::query::Query;
use crate::tpch::reference::{self, Answers};
use crate::tpch::table::Table;

/// The scale whose answers the specification lists.
const OFFICIAL_SCALE: f64 = 1.0;

/// What to run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The scale factor.
    pub scale: f64,
    /// Numbers of the queries.
    pub queries: Vec<u32>,
    /// Runs of each query; the median counts.
    pub repeat: NonZeroUsize,
    /// This program, which generates and computes references in processes of their own.
    pub program: PathBuf,
}

/// What happens, for whoever watches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Another process computes the answers to compare with.
    Reference,
    /// A table is generated and loaded.
    Load(Table),
    /// A query runs.
    Query(u32),
}

/// A query's line of the report.
#[derive(Clone, Debug, Serialize)]
pub struct QueryRow {
    /// Its number.
    pub query: u32,
    /// Median time from the statement's start to its last row; none when it failed.
    pub seconds: Option<f64>,
    /// Rows of the answer.
    pub rows: usize,
    /// Whether it ran and the answer is right.
    pub correct: bool,
    /// Why it failed, or what is wrong with the answer.
    pub error: Option<String>,
    /// Whether there was an answer at all.
    #[serde(skip)]
    pub answered: bool,
    /// The most working memory the query held.
    pub working_peak_bytes: u64,
    /// Bytes it wrote to spill files.
    pub spilled_bytes: u64,
    /// What it took from budget and tiers, in its last run.
    #[serde(flatten)]
    pub reading: Reading,
}

/// The report's summary.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Queries whose answer is right.
    pub correct: usize,
    /// Queries run.
    pub total: usize,
    /// Queries that ended with an error instead of an answer.
    pub failed: usize,
    /// Sum of the queries' times.
    pub seconds: f64,
    /// Most resident memory of this process, from the kernel: loading and queries.
    pub peak_rss_bytes: u64,
    /// Most resident memory until the tables were there.
    pub load_peak_rss_bytes: u64,
    /// Most resident memory while queries ran.
    pub query_peak_rss_bytes: u64,
    /// Time to generate and load; nothing when the tables were there.
    pub load_seconds: f64,
    /// Rows loaded.
    pub loaded_rows: u64,
}

/// The report's configuration.
#[derive(Clone, Debug, Serialize)]
pub struct Config {
    /// The scale factor.
    pub scale: f64,
    /// The budget.
    pub dram_bytes: u64,
    /// Tiers below DRAM, as they were named.
    pub tiers: Vec<String>,
    /// Threads.
    pub threads: usize,
    /// Runs of each query.
    pub repeat: usize,
    /// What the answers were compared with.
    pub answers: &'static str,
}

/// Everything measured.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// How it was run.
    pub config: Config,
    /// One row a query.
    pub rows: Vec<QueryRow>,
    /// What it comes to.
    pub summary: Summary,
}

impl Outcome {
    /// Queries that gave a wrong answer, which is worse than none.
    pub fn wrong(&self) -> usize {
        self.summary.total - self.summary.correct - self.summary.failed
    }

    /// The report for a file.
    ///
    /// # Errors
    /// As [`Report::new`].
    pub fn report(&self) -> Result<Report> {
        Report::new("tpch", &self.config, &self.rows, &self.summary)
    }
}

/// Loads what is missing, runs the queries and checks their answers.
///
/// # Errors
/// When the tables cannot be loaded or there is nothing to compare with. A query that fails is no
/// error here but a row of the outcome.
pub async fn run(
    config: EngineConfig,
    plan: &Plan,
    mut observe: impl FnMut(Step),
) -> Result<Outcome> {
    let threads = NonZeroUsize::new(config.threads).unwrap_or(NonZeroUsize::MIN);
    let expected = Expected::of(plan, threads, &mut observe)?;
    let reported = Config {
        scale: plan.scale,
        dram_bytes: config.dram_bytes,
        tiers: config.tiers.iter().map(ToString::to_string).collect(),
        threads: config.threads,
        repeat: plan.repeat.get(),
        answers: expected.name(),
    };
    let engine = Engine::open(&config).map_err(refused)?;
    let generator = Generator { program: plan.program.clone(), scale: plan.scale, threads };
    let loaded = load(&engine, &generator, |table| observe(Step::Load(table))).await?;
    let load_peak_rss_bytes = peak_resident()?;
    // The two phases have peaks of their own; the report's peak is the larger one.
    reset_peak_resident().map_err(no_figures)?;
    let mut rows = Vec::new();
    for number in &plan.queries {
        observe(Step::Query(*number));
        let query = Query::of(*number)?;
        rows.push(measure(&engine, &query, plan, &expected).await?);
    }
    let summary = summarise(&rows, &loaded, load_peak_rss_bytes, peak_resident()?);
    engine.close().map_err(refused)?;
    Ok(Outcome { config: reported, rows, summary })
}

fn summarise(rows: &[QueryRow], loaded: &Load, load_peak: u64, query_peak: u64) -> Summary {
    Summary {
        correct: rows.iter().filter(|row| row.correct).count(),
        total: rows.len(),
        failed: rows.iter().filter(|row| !row.answered).count(),
        seconds: rows.iter().filter_map(|row| row.seconds).sum(),
        peak_rss_bytes: load_peak.max(query_peak),
        load_peak_rss_bytes: load_peak,
        query_peak_rss_bytes: query_peak,
        load_seconds: loaded.seconds,
        loaded_rows: loaded.tables.iter().map(|(_, rows)| rows).sum(),
    }
}

fn peak_resident() -> Result<u64> {
    peak_resident_bytes().map_err(no_figures)
}

fn no_figures(error: std::io::Error) -> BenchError {
    BenchError::input(format!("the kernel tells nothing about resident memory: {error}"))
}

/// Where expected answers come from.
enum Expected {
    Official,
    Computed(Answers),
}

impl Expected {
    fn of(plan: &Plan, threads: NonZeroUsize, observe: &mut impl FnMut(Step)) -> Result<Expected> {
        if plan.scale.total_cmp(&OFFICIAL_SCALE).is_eq() {
            return Ok(Expected::Official);
        }
        observe(Step::Reference);
        let answers = reference::ask(&plan.program, plan.scale, threads, &plan.queries)?;
        Ok(Expected::Computed(answers))
    }

    fn name(&self) -> &'static str {
        match self {
            Expected::Official => "the specification's, at scale 1",
            Expected::Computed(_) => "DataFusion's, over in-memory tables",
        }
    }

    fn check(&self, query: &Query, found: &Answer) -> Result<(), String> {
        let (expected, precision) = match self {
            Expected::Official => (Answer::official(query.number), Precision::Hundredths),
            Expected::Computed(answers) => (answers.get(&query.number).cloned(), Precision::Exact),
        };
        let expected = expected.ok_or_else(|| "there is no answer to compare with".to_string())?;
        check(query, precision, &expected, found)
    }
}

/// Runs a query as often as wanted. The first run that fails or is wrong decides.
async fn measure(
    engine: &Engine,
    query: &Query,
    plan: &Plan,
    expected: &Expected,
) -> Result<QueryRow> {
    let mut row = QueryRow {
        query: query.number,
        seconds: None,
        rows: 0,
        correct: false,
        error: None,
        answered: false,
        working_peak_bytes: 0,
        spilled_bytes: 0,
        reading: Reading::default(),
    };
    let session = engine.session().map_err(refused)?;
    let text = query.text(plan.scale);
    let mut times = Vec::new();
    for _ in 0..plan.repeat.get() {
        let meter = Meter::start(engine);
        let run = run_once(&session, &text).await;
        row.reading = meter.read();
        match run {
            Ok(run) => {
                times.push(run.seconds);
                row.answered = true;
                row.rows = run.answer.rows.len();
                row.working_peak_bytes = run.working_peak_bytes;
                row.spilled_bytes = run.spilled_bytes;
                row.error = expected.check(query, &run.answer).err();
            }
            Err(error) => {
                row.answered = false;
                row.error = Some(error.to_string());
            }
        }
        if row.error.is_some() {
            break;
        }
    }
    row.correct = row.error.is_none();
    row.seconds = median(&times).filter(|_| row.answered);
    Ok(row)
}

struct Run {
    answer: Answer,
    seconds: f64,
    working_peak_bytes: u64,
    spilled_bytes: u64,
}

/// One run. Turning the rows into text is not part of its time.
async fn run_once(session: &Session, text: &str) -> Result<Run> {
    let began = Instant::now();
    let mut batches = Vec::new();
    let mut handle = start(session, text).await?;
    while let Some(batch) = handle.stream.next().await {
        batches.push(batch?);
    }
    let seconds = began.elapsed().as_secs_f64();
    let query = handle.query();
    Ok(Run {
        answer: Answer::of(&batches)?,
        seconds,
        working_peak_bytes: query.memory().peak_bytes(),
        spilled_bytes: query.spilled().bytes(),
    })
}

/// Starts the one statement of a text.
pub(crate) async fn start(session: &Session, text: &str) -> Result<terrace_sql::QueryHandle> {
    let statement = session.parse(text).map_err(refused)?.into_iter().next();
    let statement = statement.ok_or_else(|| BenchError::input("there is no statement"))?;
    session.execute(statement).await.map_err(refused)
}
