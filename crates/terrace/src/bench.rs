//! `terrace bench`: experiments by name.

use std::io::{Write, stdout};

use indicatif::ProgressBar;
use terrace_bench::registry::{EXPERIMENTS, named};
use terrace_bench::report::{Grid, Report};
use terrace_bench::setting::{Finding, Setting};
use tokio::runtime::Runtime;

use crate::bench_args::{Choice, CommonArgs};
use crate::error::{CliError, Result};
use crate::interrupt;
use crate::settings::Settings;
use crate::suite::{spinner, this_program};
use crate::text_table::TextTable;
use crate::tpch::chosen;

/// Runs the command.
///
/// # Errors
/// If the experiment does not exist or fails; [`CliError::Said`] if queries of this engine failed,
/// which the finding has named.
pub fn run(runtime: &Runtime, settings: &Settings, choice: Option<&Choice>) -> Result<()> {
    let Some(Choice { name, matches }) = choice else { return list() };
    let experiment = named(name)?;
    let refused = |error: clap::Error| CliError::Usage(error.to_string());
    let args = CommonArgs::of(experiment, matches).map_err(refused)?;
    let prepared = experiment.prepare(matches).map_err(refused)?;
    args.json.iter().try_for_each(|file| Report::fits(file))?;
    let setting = Setting {
        engine: settings.engine(),
        dram_is_named: !settings.dram_is_default,
        threads_is_named: !settings.threads_is_default,
        placement_is_named: settings.placement.is_some(),
        scale: args.scale,
        rounds: args.rounds,
        queries: chosen(&args.queries),
        queries_are_named: !args.queries.is_empty(),
        encoding: args.encoding,
        prices: settings.prices,
        program: this_program()?,
    };
    let bar: ProgressBar = spinner();
    let mut observe = |step: &str| bar.set_message(step.to_string());
    let finding = interrupt::run(runtime, prepared.run(&setting, &mut observe));
    bar.finish_and_clear();
    let finding = finding?;
    let printed = print(&finding);
    if let Some(file) = &args.json {
        finding.report.write(file)?;
        finding.picture.draw(&file.with_extension("svg"))?;
        for picture in &finding.more {
            picture.draw(&file.with_extension(format!("{}.svg", picture.name())))?;
        }
    }
    // Failed queries fail the run even if the output was closed.
    if finding.failed > 0 { Err(CliError::Said) } else { printed }
}

fn list() -> Result<()> {
    let mut table = TextTable::new(["experiment", "question"]).wide();
    for experiment in &EXPERIMENTS {
        table.push([experiment.name(), experiment.question()]);
    }
    Ok(write!(stdout(), "{table}")?)
}

fn print(finding: &Finding) -> Result<()> {
    let mut out = stdout().lock();
    write!(out, "{}", table(&finding.grid))?;
    for note in &finding.notes {
        writeln!(out, "{note}")?;
    }
    Ok(())
}

fn table(grid: &Grid) -> TextTable {
    let table = TextTable::new(grid.titles());
    let mut table = if grid.is_wide() { table.wide() } else { table };
    grid.rows().iter().for_each(|row| table.push(row));
    table
}
