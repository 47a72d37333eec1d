//! The options of EXPLAIN.

use std::fmt;

use datafusion::common::format::ExplainStatementOptions;
use datafusion::sql::sqlparser::ast::{Expr, UtilityOption, Value, ValueWithSpan};
use terrace_table::error::SqlError;

use super::super::refusal::refused;

/// Formats whose output DataFusion writes.
const OF_DATAFUSION: [&str; 3] = ["indent", "graphviz", "pgjson"];

/// Form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Format {
    /// One line of text per row.
    Text,
    /// One JSON text, as PostgreSQL's FORMAT JSON.
    Json,
    /// One SVG drawing.
    Svg,
}

impl Format {
    fn name(self) -> &'static str {
        match self {
            Self::Text => "TEXT",
            Self::Json => "JSON",
            Self::Svg => "SVG",
        }
    }
}

/// Contents and form of the output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in super::super) struct Options {
    pub(super) format: Format,
    /// True if the statement is run.
    pub(super) analyze: bool,
    /// True if columns are listed and long expressions are written in full.
    pub(super) verbose: bool,
    /// True to show estimated rows.
    pub(super) costs: bool,
    /// True to show the bytes that each operator held, spilled and read.
    pub(super) buffers: bool,
    /// True to show the time of each operator.
    pub(super) timing: bool,
    /// True to show the times of planning and execution, and the total bytes.
    pub(super) summary: bool,
}

impl Options {
    /// True if the statement is run.
    pub(in super::super) fn runs(self) -> bool {
        self.analyze
    }
}

impl fmt::Display for Options {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let analyze = self.analyze;
        let differs = |name, on: bool, default: bool| (on != default).then_some((name, on));
        write!(f, "(FORMAT {}", self.format.name())?;
        let differing = [
            differs("ANALYZE", analyze, false),
            differs("VERBOSE", self.verbose, false),
            differs("COSTS", self.costs, true),
            differs("BUFFERS", self.buffers, analyze),
            differs("TIMING", self.timing, analyze),
            differs("SUMMARY", self.summary, analyze),
        ];
        for (name, on) in differing.into_iter().flatten() {
            write!(f, ", {name} {}", if on { "ON" } else { "OFF" })?;
        }
        f.write_str(")")
    }
}

/// The component that formats the output of an EXPLAIN.
#[derive(Debug)]
pub(super) enum Writer {
    /// This module, as a tree.
    Terrace(Options),
    /// DataFusion, in one of its own formats.
    DataFusion(ExplainStatementOptions),
}

/// Reads the options of a statement.
///
/// # Errors
/// [`SqlError::Refused`] for an option without a meaning here, and for a value that is not one of
/// an option; DataFusion's errors for its own formats.
pub(super) fn read(options: &[UtilityOption]) -> Result<Writer, SqlError> {
    let mut read = Read::default();
    options.iter().try_for_each(|option| read.take(option))?;
    let format = read.format.as_deref();
    let is_raw = format.is_some_and(|format| OF_DATAFUSION.contains(&format));
    if is_raw || read.has_own_of_datafusion || (read.verbose && format.is_none()) {
        return Ok(Writer::DataFusion(ExplainStatementOptions::from_utility_options(options)?));
    }
    let format = match format {
        None | Some("text" | "tree") => Format::Text,
        Some("json") => Format::Json,
        Some("svg") => Format::Svg,
        Some(other) => {
            let what = format!("EXPLAIN (FORMAT {})", other.to_uppercase());
            return Err(refused(&what, "say TEXT, JSON, SVG, INDENT, GRAPHVIZ or PGJSON"));
        }
    };
    let analyze = read.analyze;
    for (name, option) in [("BUFFERS", read.buffers), ("TIMING", read.timing)] {
        if option == Some(true) && !analyze {
            let what = format!("EXPLAIN option {name} without ANALYZE");
            return Err(refused(&what, &format!("say EXPLAIN (ANALYZE, {name})")));
        }
    }
    Ok(Writer::Terrace(Options {
        format,
        analyze,
        verbose: read.verbose,
        costs: read.costs.unwrap_or(true),
        buffers: read.buffers.unwrap_or(analyze),
        timing: read.timing.unwrap_or(analyze),
        summary: read.summary.unwrap_or(analyze),
    }))
}

/// The parsed options; `None` for those that the statement does not have.
#[derive(Debug, Default)]
struct Read {
    format: Option<String>,
    analyze: bool,
    verbose: bool,
    costs: Option<bool>,
    buffers: Option<bool>,
    timing: Option<bool>,
    summary: Option<bool>,
    /// True if the statement has an option of DataFusion's EXPLAIN that this one lacks.
    has_own_of_datafusion: bool,
}

impl Read {
    fn take(&mut self, option: &UtilityOption) -> Result<(), SqlError> {
        let name = option.name.value.to_ascii_lowercase();
        match name.as_str() {
            "format" => self.format = Some(word(option)?),
            "analyze" | "analyse" => self.analyze = boolean(option)?,
            "verbose" => self.verbose = boolean(option)?,
            "costs" => self.costs = Some(boolean(option)?),
            "buffers" => self.buffers = Some(boolean(option)?),
            "timing" => self.timing = Some(boolean(option)?),
            "summary" => self.summary = Some(boolean(option)?),
            "metrics" | "level" => self.has_own_of_datafusion = true,
            _ => {
                return Err(refused(
                    &format!("EXPLAIN option {}", name.to_uppercase()),
                    "the options are ANALYZE, VERBOSE, COSTS, BUFFERS, TIMING, SUMMARY and FORMAT",
                ));
            }
        }
        Ok(())
    }
}

/// The value of an option as text, in lower case.
fn word(option: &UtilityOption) -> Result<String, SqlError> {
    let value = match &option.arg {
        Some(Expr::Identifier(name)) => name.value.clone(),
        Some(Expr::Value(ValueWithSpan { value, .. })) => match value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            other => other.to_string(),
        },
        Some(other) => other.to_string(),
        None => String::new(),
    };
    match value.is_empty() {
        true => Err(refused(
            &format!("EXPLAIN option {} without a value", option.name.value.to_uppercase()),
            "say EXPLAIN (FORMAT TEXT)",
        )),
        false => Ok(value.to_ascii_lowercase()),
    }
}

/// The value of a Boolean option; true if it has none.
fn boolean(option: &UtilityOption) -> Result<bool, SqlError> {
    if option.arg.is_none() {
        return Ok(true);
    }
    match word(option)?.as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        other => Err(refused(
            &format!("EXPLAIN option {} {other}", option.name.value.to_uppercase()),
            "say ON or OFF",
        )),
    }
}
