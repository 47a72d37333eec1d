//! `sqltest slt`: runs the public sqllogictest suite against Terrace.
//!
//! The suite is SQLite's: 622 scripts with 5.7 million queries for the label `postgresql`, whose
//! answers SQLite, PostgreSQL, MySQL and SQL Server agreed on. The crate `sqllogictest` reads a
//! later dialect of the format (no comment after a condition, no conditional `halt`, no types for
//! the driver to format values by), so the scripts are parsed here.

mod archive;
mod download;
mod options;
mod report;
mod run;
mod script;
mod select;
mod value;

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Instant;

use indicatif::{ProgressBar, ProgressStyle};

use crate::error::{CheckError, Result};
use archive::Archive;
pub use options::SltOptions;
use report::{FileReport, Report};

/// Runs the suite and prints the report.
///
/// # Errors
/// [`CheckError::Found`] when an answer is wrong or a query panics, hangs or fails internally;
/// other errors when the suite is not available.
pub async fn run(options: &SltOptions) -> Result<()> {
    let archive = Arc::new(Archive::open(&download::suite()?)?);
    let names = select::scripts(&archive, options)?;
    let processors = std::thread::available_parallelism().map_or(1, usize::from);
    let jobs = options.jobs.unwrap_or(processors).max(1);
    println!("slt: {} of {} scripts, {jobs} at a time", names.len(), archive.names().count());
    let began = Instant::now();
    let reports = run_all(archive, names, jobs, options.sample.max(1)).await?;
    let report = Report::of(reports);
    report.print(options.show, began.elapsed());
    match report.failed() {
        0 => Ok(()),
        failed => Err(CheckError::Found(format!("slt: {failed} failed"))),
    }
}

async fn run_all(
    archive: Arc<Archive>,
    names: Vec<String>,
    jobs: usize,
    sample: u32,
) -> Result<Vec<FileReport>> {
    let (names, next) = (Arc::new(names), Arc::new(AtomicUsize::new(0)));
    let bar = progress(names.len());
    let workers = (0..jobs).map(|_| {
        let (archive, names, next) = (Arc::clone(&archive), Arc::clone(&names), Arc::clone(&next));
        let bar = bar.clone();
        tokio::spawn(async move {
            let mut reports = Vec::new();
            while let Some(name) = names.get(next.fetch_add(1, Ordering::Relaxed)) {
                let text = archive.read(name)?;
                let report = run::script(name, &text, sample).await?;
                bar.inc(1);
                bar.set_message(name.clone());
                reports.push(report);
            }
            Ok::<_, CheckError>(reports)
        })
    });
    let workers: Vec<_> = workers.collect();
    let mut reports = Vec::new();
    for worker in workers {
        let done = worker.await.map_err(|error| CheckError::Rows(format!("a worker: {error}")))?;
        reports.extend(done?);
    }
    bar.finish_and_clear();
    Ok(reports)
}

fn progress(files: usize) -> ProgressBar {
    let bar = ProgressBar::new(u64::try_from(files).unwrap_or(u64::MAX));
    let style = ProgressStyle::with_template("{bar:30} {pos}/{len} scripts, {elapsed} {msg}");
    bar.with_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()))
}
