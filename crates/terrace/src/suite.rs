//! Shared parts of `terrace tpch` and `terrace tpcds`: run of the queries, table of the results,
//! and exit code.

use std::env;
use std::io::{Write, stderr, stdout};
use std::path::{Path, PathBuf};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};
use terrace_bench::report::Report;
use terrace_bench::suite::feed::Generator;
use terrace_bench::suite::run::{Outcome, Plan, QueryRow, Step};
use terrace_sql::EngineConfig;
use terrace_sys::size::format_bytes;
use tokio::runtime::Runtime;

use crate::args::SuiteArgs;
use crate::error::{CliError, Result};
use crate::interrupt;
use crate::settings::Settings;
use crate::text_table::TextTable;

/// Runs a benchmark: prepares a plan of `queries`, executes `work` with it, and prints and writes
/// the report. `name` is the benchmark's name, for directories.
///
/// # Errors
/// [`CliError::Said`] if an answer is wrong, or if a query failed and failures are not allowed; the
/// table has named them. Otherwise the error that kept the queries from running.
pub fn run<F: Future<Output = terrace_bench::Result<Outcome>>>(
    (runtime, settings, args): (&Runtime, &Settings, &SuiteArgs),
    name: &str,
    queries: Vec<u32>,
    work: impl FnOnce(EngineConfig, Plan, Box<dyn FnMut(Step)>) -> F,
) -> Result<()> {
    args.json.as_deref().map_or(Ok(()), Report::fits)?;
    let mut engine = settings.engine();
    if args.keep && engine.data_dir.is_none() {
        engine.data_dir = Some(kept_directory(name));
    }
    let kept = engine.data_dir.clone();
    let (program, threads) = (this_program()?, settings.threads);
    let generator = Generator { program, scale: args.scale, threads };
    let bar = spinner();
    let observed = bar.clone();
    let observe = Box::new(move |step| observed.set_message(describe(step)));
    let plan = Plan { generator, queries, repeat: args.repeat, encoding: args.encoding };
    let work = work(engine, plan, observe);
    let outcome = interrupt::run(runtime, work);
    bar.finish_and_clear();
    let outcome = outcome?;
    let printed = print(&outcome, kept.as_deref());
    if let Some(file) = &args.json {
        outcome.report()?.write(file)?;
    }
    // A wrong answer fails the run even if the output was closed.
    verdict(&outcome, args.allow_failures)?;
    printed
}

/// Returns the path of this program's executable, which starts child processes.
pub fn this_program() -> Result<PathBuf> {
    env::current_exe()
        .map_err(|source| CliError::File { path: PathBuf::from("/proc/self/exe"), source })
}

fn kept_directory(name: &str) -> PathBuf {
    env::temp_dir().join(format!("terrace-{name}-{}", std::process::id()))
}

/// Creates a progress indicator on standard error, which is hidden unless that is a terminal.
pub fn spinner() -> ProgressBar {
    // The spinner is drawn on standard error, and only if that is a terminal.
    let bar = ProgressBar::new_spinner();
    let style = ProgressStyle::with_template("{spinner} {elapsed} {msg}");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_spinner()));
    bar.enable_steady_tick(Duration::from_millis(200));
    bar
}

fn describe(step: Step) -> String {
    match step {
        Step::Prepare(what) => what.into(),
        Step::Load(table) => format!("loading {table}"),
        Step::Query(number) => format!("query {number}"),
    }
}

fn print(outcome: &Outcome, kept: Option<&Path>) -> Result<()> {
    if let Some(path) = kept {
        writeln!(stderr(), "the tables are kept in {}", path.display())?;
    }

    let tiers = outcome.rows.first().map(|row| row.reading.tiers.as_slice()).unwrap_or_default();
    let fixed = ["query", "seconds", "rows", "answer"].map(String::from);
    let from = tiers.iter().map(|tier| match tier.kind {
        // There is one store, and its name is a path.
        "store" => "from store".to_string(),
        _ => format!("from {}", tier.tier),
    });
    let last = ["peak DRAM", "working", "spilled"].map(String::from);
    let mut table = TextTable::new(fixed.into_iter().chain(from).chain(last));
    for row in &outcome.rows {
        table.push(cells(row));
    }
    let mut out = stdout().lock();
    write!(out, "{table}")?;
    for row in &outcome.rows {
        if let Some(error) = &row.error {
            writeln!(out, "query {}: {error}", row.query)?;
        }
    }
    write_summary(&mut out, outcome)
}

fn cells(row: &QueryRow) -> Vec<String> {
    let verdict = match (row.answered, row.correct) {
        (false, _) => "failed",
        (true, false) => "WRONG",
        (true, true) => "right",
    };
    let seconds = row.seconds.map_or_else(|| "-".to_string(), |seconds| format!("{seconds:.3}"));
    let fixed = [row.query.to_string(), seconds, row.rows.to_string(), verdict.to_string()];
    let tiers = row.reading.tiers.iter().map(|tier| format_bytes(tier.read_bytes));
    let last = [row.reading.peak_dram_bytes, row.working_peak_bytes, row.spilled_bytes];
    fixed.into_iter().chain(tiers).chain(last.map(format_bytes)).collect()
}

fn write_summary(out: &mut impl Write, outcome: &Outcome) -> Result<()> {
    let (summary, config) = (&outcome.summary, &outcome.config);
    writeln!(
        out,
        "{} of {} right in {:.3} s, {} failed, {} wrong; answers: {}",
        summary.correct,
        summary.total,
        summary.seconds,
        summary.failed,
        outcome.wrong(),
        config.answers
    )?;
    if summary.loaded_rows > 0 {
        let (rows, seconds) = (summary.loaded_rows, summary.load_seconds);
        writeln!(out, "loaded {rows} rows in {seconds:.1} s")?;
    }
    writeln!(
        out,
        "{} tables, budget {}, resident at most {} (loading {}, queries {})",
        config.encoding,
        format_bytes(config.dram_bytes),
        format_bytes(summary.peak_rss_bytes),
        format_bytes(summary.load_peak_rss_bytes),
        format_bytes(summary.query_peak_rss_bytes)
    )?;
    Ok(())
}

/// Fails the run on wrong answers, and on failed queries unless they are allowed.
fn verdict(outcome: &Outcome, allow_failures: bool) -> Result<()> {
    let failed = outcome.summary.failed > 0 && !allow_failures;
    if outcome.wrong() > 0 || failed { Err(CliError::Said) } else { Ok(()) }
}
