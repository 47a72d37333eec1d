//! Settings that a session does not take.

use datafusion::common::config::ConfigOptions;
use datafusion::sql::parser::{ResetStatement, Statement};
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart, Set, Statement as SqlStatement};

use terrace_exec::PagedOptions;

use crate::error::SqlError;

const RUNTIME: &str = "datafusion.runtime.";

/// Refuses SET and RESET of what belongs to the engine: DataFusion would answer them with a memory
/// pool or a spill directory of its own, beside the budget.
pub(super) fn refuse(statement: &Statement) -> Result<(), SqlError> {
    names(statement).into_iter().try_for_each(|name| refuse_name(&name))
}

/// Looks whether a session takes these names and values.
pub(crate) fn check(settings: &[(String, String)]) -> Result<(), SqlError> {
    let mut options = ConfigOptions::new();
    options.extensions.insert(PagedOptions::default());
    for (name, value) in settings {
        refuse_name(name)?;
        options.set(name, value).map_err(|error| SqlError::Refused {
            what: format!("the setting {name} = {value}"),
            instead: format!("{}; SHOW ALL lists the settings", error.strip_backtrace()),
        })?;
    }
    Ok(())
}

/// The variables that a statement sets.
fn names(statement: &Statement) -> Vec<String> {
    match statement {
        Statement::Reset(ResetStatement::Variable(name)) => vec![text(name)],
        Statement::Statement(statement) => match statement.as_ref() {
            SqlStatement::Set(Set::SingleAssignment { variable, .. }) => vec![text(variable)],
            SqlStatement::Set(Set::ParenthesizedAssignments { variables, .. }) => {
                variables.iter().map(text).collect()
            }
            SqlStatement::Set(Set::MultipleAssignments { assignments }) => {
                assignments.iter().map(|assignment| text(&assignment.name)).collect()
            }
            _ => vec![],
        },
        _ => vec![],
    }
}

/// A name without the quotation marks of its parts, of whatever kind.
fn text(name: &ObjectName) -> String {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(identifier) => identifier.value.clone(),
        other => other.to_string(),
    };
    name.0.iter().map(part).collect::<Vec<_>>().join(".")
}

fn refuse_name(name: &str) -> Result<(), SqlError> {
    let name = name.to_ascii_lowercase();
    let Some(key) = name.strip_prefix(RUNTIME) else { return Ok(()) };
    let instead = match key {
        "memory_limit" => {
            "the budget is the engine's, for all sessions together: start it with --dram, such as \
             --dram 2GiB"
        }
        "temp_directory" | "max_temp_directory_size" => {
            "spill files are pages of the pool and go where its pages go: start the engine with \
             --tier file:PATH:SIZE to say where and how much"
        }
        "max_spill_merge_fan_in" => "the engine sets how many runs are merged at a time",
        _ => "the caches of file metadata and listings are the engine's",
    };
    Err(SqlError::Refused { what: format!("setting {name}"), instead: instead.to_owned() })
}
