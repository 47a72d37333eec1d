//! Run of a benchmark's queries: loads the tables, runs the queries, checks every answer, and
//! reports.

use std::num::NonZeroUsize;
use std::time::Instant;

use futures::StreamExt;
use serde::Serialize;
use terrace_sql::{Encoding, Engine, EngineConfig, Session};
use terrace_sys::process::{peak_resident_bytes, reset_peak_resident};

use crate::error::{BenchError, Result};
use crate::measure::{Meter, Reading, median};
use crate::report::Report;
use crate::suite::answer::Answer;
use crate::suite::feed::Generator;
use crate::suite::load::{Load, load, refused};
use crate::suite::table::{Benchmark, Generated};

/// Source of a benchmark's query texts, and checker of their answers.
pub trait Judge {
    /// Returns the text of a query: one statement.
    ///
    /// # Errors
    /// Fails if there is no such query.
    fn text(&self, number: u32) -> Result<String>;

    /// Returns the name of the reference that the answers are compared with.
    fn answers(&self) -> &str;

    /// Compares an answer with the expected one.
    ///
    /// # Errors
    /// The first difference, as text.
    fn check(&self, number: u32, found: &Answer) -> std::result::Result<(), String>;
}

/// Plan of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Generator of the tables, which runs in a child process.
    pub generator: Generator,
    /// Numbers of the queries.
    pub queries: Vec<u32>,
    /// Number of runs of each query; the median counts.
    pub repeat: NonZeroUsize,
    /// Encoding of tables that are loaded.
    pub encoding: Encoding,
}

/// Progress of a run, for the user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Preparation before the run: texts, reference answers.
    Prepare(&'static str),
    /// A table is being generated and loaded.
    Load(&'static str),
    /// A query is running.
    Query(u32),
}

/// A query's row of the report.
#[derive(Clone, Debug, Serialize)]
pub struct QueryRow {
    /// Number of the query.
    pub query: u32,
    /// Median time in seconds from the start of the statement to its last row; `None` if it failed.
    pub seconds: Option<f64>,
    /// Number of rows of the answer.
    pub rows: usize,
    /// True if it ran and the answer is correct.
    pub correct: bool,
    /// Error of the query, or of its answer.
    pub error: Option<String>,
    /// True if there was an answer at all.
    #[serde(skip)]
    pub answered: bool,
    /// Peak of the query's working memory in bytes.
    pub working_peak_bytes: u64,
    /// Bytes that it wrote to spill files.
    pub spilled_bytes: u64,
    /// Peak memory, and bytes read from each tier, of its last run.
    #[serde(flatten)]
    pub reading: Reading,
}

/// Summary of the report.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// Number of queries with a correct answer.
    pub correct: usize,
    /// Number of queries that were run.
    pub total: usize,
    /// Number of queries that ended with an error instead of an answer.
    pub failed: usize,
    /// Sum of the queries' times.
    pub seconds: f64,
    /// Peak resident memory of this process as the kernel counts it, over loading and queries.
    pub peak_rss_bytes: u64,
    /// Peak resident memory until the tables were loaded.
    pub load_peak_rss_bytes: u64,
    /// Peak resident memory while queries ran.
    pub query_peak_rss_bytes: u64,
    /// Time to generate and load; 0 if the tables existed.
    pub load_seconds: f64,
    /// Number of rows loaded.
    pub loaded_rows: u64,
}

/// Configuration of the report.
#[derive(Clone, Debug, Serialize)]
pub struct Config {
    /// The scale factor.
    pub scale: f64,
    /// Memory budget in bytes.
    pub dram_bytes: u64,
    /// Tiers below DRAM, as the user gave them.
    pub tiers: Vec<String>,
    /// The encoding of the tables.
    pub encoding: String,
    /// Number of threads.
    pub threads: usize,
    /// Number of runs of each query.
    pub repeat: usize,
    /// Name of the reference that the answers were compared with.
    pub answers: String,
}

/// Result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The benchmark.
    pub benchmark: Benchmark,
    /// Configuration of the run.
    pub config: Config,
    /// One row per query.
    pub rows: Vec<QueryRow>,
    /// Summary of the rows.
    pub summary: Summary,
}

impl Outcome {
    /// Returns the number of queries with a wrong answer.
    pub fn wrong(&self) -> usize {
        self.summary.total - self.summary.correct - self.summary.failed
    }

    /// Returns the report for a file.
    ///
    /// # Errors
    /// As [`Report::new`].
    pub fn report(&self) -> Result<Report> {
        Report::new(self.benchmark.name(), &self.config, &self.rows, &self.summary)
    }
}

/// Loads missing tables, runs the queries and checks their answers.
///
/// # Errors
/// Fails if the tables cannot be loaded. A failed query is not an error here but a row of the
/// outcome.
pub async fn run<T: Generated>(
    config: EngineConfig,
    plan: &Plan,
    judge: &impl Judge,
    mut observe: impl FnMut(Step),
) -> Result<Outcome> {
    let mut reported = Config {
        scale: plan.generator.scale,
        dram_bytes: config.dram_bytes,
        tiers: config.tiers.iter().map(ToString::to_string).collect(),
        encoding: String::new(),
        threads: config.threads,
        repeat: plan.repeat.get(),
        answers: judge.answers().to_string(),
    };
    let engine = Engine::open(&config).map_err(refused)?;
    let loading = |table: T| observe(Step::Load(table.name()));
    let loaded = load(&engine, &plan.generator, plan.encoding, loading).await?;
    reported.encoding.clone_from(&loaded.encoding);
    let load_peak_rss_bytes = peak_resident()?;
    // Loading and queries are measured separately; the peak of the report is the larger one.
    reset_peak_resident().map_err(no_figures)?;
    let mut rows = Vec::new();
    for number in &plan.queries {
        observe(Step::Query(*number));
        rows.push(measure(&engine, *number, plan, judge).await?);
    }
    let summary = summarise(&rows, &loaded, load_peak_rss_bytes, peak_resident()?);
    engine.close().map_err(refused)?;
    Ok(Outcome { benchmark: T::BENCHMARK, config: reported, rows, summary })
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

/// Runs a query as often as planned, and stops at the first run that fails or has a wrong answer.
async fn measure(
    engine: &Engine,
    number: u32,
    plan: &Plan,
    judge: &impl Judge,
) -> Result<QueryRow> {
    let mut row = QueryRow {
        query: number,
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
    let text = judge.text(number)?;
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
                row.error = judge.check(number, &run.answer).err();
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

/// Runs a query once. The conversion of rows to text is not part of its time.
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

/// Starts the single statement of a text.
pub(crate) async fn start(session: &Session, text: &str) -> Result<terrace_sql::QueryHandle> {
    let statement = session.parse(text).map_err(refused)?.into_iter().next();
    let statement = statement.ok_or_else(|| BenchError::input("there is no statement"))?;
    session.execute(statement).await.map_err(refused)
}
