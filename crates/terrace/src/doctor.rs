//! `terrace doctor`: report about the capabilities of this machine.

mod table;

use std::fs;
use std::io::{Write, stdout};
use std::path::Path;

use terrace_tier::doctor::Report;

use crate::args::DoctorArgs;
use crate::error::{CliError, Result};
use crate::settings::Settings;
use table::Tables;

/// Runs the command.
///
/// # Errors
/// If the report cannot be written. Missing features are part of the report.
pub fn run(settings: &Settings, args: &DoctorArgs) -> Result<()> {
    let temporary = std::env::temp_dir();
    let directory = settings.data.as_deref().filter(|path| path.is_dir()).unwrap_or(&temporary);
    let report = Report::gather(&settings.tiers, directory);
    write!(stdout(), "{}", Tables(&report))?;
    match &args.json {
        Some(file) => write_json(&report, file),
        None => Ok(()),
    }
}

fn write_json(report: &Report, file: &Path) -> Result<()> {
    let failed = |source| CliError::File { path: file.to_path_buf(), source };
    let mut text = serde_json::to_string_pretty(report).map_err(|error| failed(error.into()))?;
    text.push('\n');
    fs::write(file, text).map_err(failed)
}
