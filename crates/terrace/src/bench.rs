//! `terrace bench`: experiments by name.

use std::io::{Write, stdout};

use indicatif::ProgressBar;
use terrace_bench::experiment::{Experiment, Finding, Setting};
use terrace_bench::grid::Grid;
use terrace_bench::report::Report;
use tokio::runtime::Runtime;

use crate::args::BenchArgs;
use crate::error::{CliError, Result};
use crate::interrupt;
use crate::settings::Settings;
use crate::suite::{spinner, this_program};
use crate::tpch::chosen;

/// Runs the command.
///
/// # Errors
/// If the experiment does not exist or fails; [`CliError::Said`] if queries of this engine failed,
/// which the finding has named.
pub fn run(runtime: &Runtime, settings: &Settings, args: &BenchArgs) -> Result<()> {
    let Some(name) = &args.name else { return list() };
    let experiment = Experiment::named(name)?;
    args.json.iter().chain(&args.pages.csv).try_for_each(|file| Report::fits(file))?;
    let setting = Setting {
        engine: settings.engine(),
        dram_is_named: !settings.dram_is_default,
        threads_is_named: !settings.threads_is_default,
        scale: args.scale,
        rounds: args.rounds,
        queries: chosen(&args.queries),
        encoding: args.encoding,
        pairs: args.pairs,
        objects: args.objects,
        small_objects: args.small_objects.options(),
        segments: args.segments.options(),
        server: args.server.options(&args.queries),
        tenants: args.tenants.options(),
        pages: args.pages.options(settings.placement, settings.prices),
        lab: args.lab.clone(),
        program: this_program()?,
    };
    let bar: ProgressBar = spinner();
    let mut observe = |step: &str| bar.set_message(step.to_string());
    let finding = interrupt::run(runtime, experiment.run(&setting, &mut observe));
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
    let mut grid = Grid::new(["experiment", "question"]).wide();
    for experiment in Experiment::ALL {
        grid.push([experiment.name(), experiment.question()]);
    }
    Ok(write!(stdout(), "{grid}")?)
}

fn print(finding: &Finding) -> Result<()> {
    let mut out = stdout().lock();
    write!(out, "{}", finding.grid)?;
    for note in &finding.notes {
        writeln!(out, "{note}")?;
    }
    Ok(())
}
