//! Names of Terrace's own settings, and settings that a session refuses.

use datafusion::common::config::ConfigOptions;
use datafusion::sql::parser::{ResetStatement, Statement};
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectNamePart, Set, Statement as SqlStatement};
use terrace_exec::PagedOptions;
use terrace_governor::market::MarketKind;
use terrace_sys::duration::parse_timeout;
use terrace_table::error::SqlError;
use terrace_table::transaction::LockTimeout;

/// Prefix of Terrace's own settings.
pub(super) const OWN: &str = "terrace.";
pub(super) const SLA: &str = "terrace.sla";
pub(crate) const TENANT: &str = "terrace.tenant";
pub(crate) const MARKET: &str = "terrace.market";
pub(super) const LOCK_TIMEOUT: &str = "terrace.lock_timeout";
pub(super) const PARTITIONS: &str = "datafusion.execution.target_partitions";
const RUNTIME: &str = "datafusion.runtime.";
/// The alternative to another login role of a session.
const KEEPS_LOGIN: &str = "a session keeps the role that it has logged in with; say SET ROLE to \
                           act as another";

/// Refuses SET and RESET of settings that belong to the engine: DataFusion would create a memory
/// pool or a spill directory of its own, outside of the budget. Refuses to change the role that the
/// session has logged in with.
pub(super) fn refuse(statement: &Statement) -> Result<(), SqlError> {
    if let Statement::Statement(statement) = statement
        && let SqlStatement::Set(Set::SetSessionAuthorization(_)) = statement.as_ref()
    {
        let (what, instead) = (statement.to_string(), KEEPS_LOGIN.to_owned());
        return Err(SqlError::Refused { what, instead });
    }
    names(statement).into_iter().try_for_each(|name| refuse_name(&name))
}

/// Validates initial settings of sessions.
pub(crate) fn check(settings: &[(String, String)]) -> Result<(), SqlError> {
    let mut options = ConfigOptions::new();
    options.extensions.insert(PagedOptions::default());
    for (name, value) in settings {
        refuse_name(name)?;
        match name.as_str() {
            SLA if !value.is_empty() => drop(value.parse::<terrace_market::Sla>()?),
            MARKET => drop(value.parse::<MarketKind>()?),
            LOCK_TIMEOUT => drop(lock_timeout(value)?),
            _ => {}
        }
        options.set(name, value).map_err(|error| SqlError::Refused {
            what: format!("the setting {name} = {value}"),
            instead: format!("{}; SHOW ALL lists the settings", error.strip_backtrace()),
        })?;
    }
    Ok(())
}

/// Parses a value of `terrace.lock_timeout`.
pub(super) fn lock_timeout(text: &str) -> Result<LockTimeout, SqlError> {
    let time = parse_timeout(text).ok_or_else(|| SqlError::Refused {
        what: format!("setting {LOCK_TIMEOUT} = {text}"),
        instead: "say milliseconds, or a number with us, ms, s, min, h or d, at most 24 days"
            .to_owned(),
    })?;
    Ok(LockTimeout::new(time))
}

/// The variables that a statement sets.
pub(super) fn names(statement: &Statement) -> Vec<String> {
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

/// A name without the quotation marks of its parts.
pub(super) fn text(name: &ObjectName) -> String {
    let part = |part: &ObjectNamePart| match part {
        ObjectNamePart::Identifier(identifier) => identifier.value.clone(),
        other => other.to_string(),
    };
    name.0.iter().map(part).collect::<Vec<_>>().join(".")
}

fn refuse_name(name: &str) -> Result<(), SqlError> {
    let name = name.to_ascii_lowercase();
    let Some(key) = name.strip_prefix(RUNTIME) else { return refuse_unused(&name) };
    let instead = match key {
        "memory_limit" => {
            "the budget is the engine's, for all sessions together: start it with --dram, such as \
             --dram 2GiB; ALTER TIER dram SET (size = '2GiB') changes it"
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

/// Refuses settings of components of DataFusion that Terrace does not use, and the role.
fn refuse_unused(name: &str) -> Result<(), SqlError> {
    let instead = match name {
        "datafusion.sql_parser.dialect" => {
            "statements have one dialect, whose operators are PostgreSQL's"
        }
        "datafusion.optimizer.prefer_hash_join" => {
            "joins are hash joins, which leave memory where it is short; merge joins of DataFusion \
             fail on some filters and tell zeros of different signs apart"
        }
        "datafusion.sql_parser.recursion_limit" => {
            "a statement may be as deep as its parser and planner can follow"
        }
        _ => return Ok(()),
    };
    Err(SqlError::Refused { what: format!("setting {name}"), instead: instead.to_owned() })
}
