//! Settings by the names that PostgreSQL and DuckDB have for them.
//!
//! ```text
//! SET search_path = s1, public;  SET schema = 's1';  USE s1;  RESET search_path;
//! SET threads = 2;  SET LOCAL search_path = s1;  SET threads TO DEFAULT;
//! ```
//!
//! DataFusion plans each of them as a SET of its own name. `memory_limit` is the DRAM budget of the
//! engine, so the statement that sets it is an ALTER TIER ([`of_engine`]).

use datafusion::sql::parser::{ResetStatement, Statement};
use datafusion::sql::sqlparser::ast::{
    ContextModifier, Expr, Ident, ObjectName, Set, Statement as SqlStatement, UnaryOperator, Value,
};
use terrace_table::error::SqlError;

use super::own_settings::{PARTITIONS, text};
use super::refusal::refused;
use super::tier::AlterTier;

/// DataFusion's name of the search path.
pub(super) const DEFAULT_SCHEMA: &str = "datafusion.catalog.default_schema";
/// The names of the budget.
const BUDGET: [&str; 2] = ["memory_limit", "max_memory"];
/// PostgreSQL's name of the time zone.
const TIME_ZONE: &str = "timezone";
/// The tier that the budget limits.
const DRAM: &str = "dram";

/// Returns DataFusion's name for a setting that PostgreSQL or DuckDB name differently; `None` for
/// any other name.
pub(super) fn known_as(name: &str) -> Option<&'static str> {
    match name.to_ascii_lowercase().as_str() {
        "search_path" | "schema" => Some(DEFAULT_SCHEMA),
        "threads" | "worker_threads" => Some(PARTITIONS),
        TIME_ZONE => Some("datafusion.execution.time_zone"),
        _ => None,
    }
}

/// Returns true for a name of the engine's budget.
pub(super) fn is_budget(name: &str) -> bool {
    BUDGET.iter().any(|known| name.eq_ignore_ascii_case(known))
}

/// The statement that changes the engine's budget, in place of a SET of `memory_limit`; `None` for
/// any other statement.
///
/// # Errors
/// For a RESET: the engine has one budget, and keeps no other.
pub(super) fn of_engine(statement: &Statement) -> Result<Option<AlterTier>, SqlError> {
    let statement = match statement {
        Statement::Reset(ResetStatement::Variable(name)) if is_budget(&text(name)) => {
            let instead = "name the size, such as SET memory_limit = '2GiB'";
            return Err(refused(&format!("RESET {name}"), instead));
        }
        Statement::Statement(statement) => statement.as_ref(),
        _ => return Ok(None),
    };
    let SqlStatement::Set(Set::SingleAssignment { scope, variable, values, .. }) = statement else {
        return Ok(None);
    };
    let ([value], true) = (values.as_slice(), is_budget(&text(variable))) else { return Ok(None) };
    if matches!(scope, Some(ContextModifier::Local | ContextModifier::Session)) {
        let instead = "say SET memory_limit: the engine has one budget, for all sessions";
        return Err(refused(&statement.to_string(), instead));
    }
    let options = vec![("size".to_owned(), word(value))];
    Ok(Some(AlterTier { name: DRAM.to_owned(), options }))
}

/// Replaces SET TIME ZONE by a SET of the time zone, and RESET TIME ZONE by a RESET; leaves any
/// other statement unchanged.
pub(super) fn of_time_zone(statement: Statement) -> Statement {
    if let Statement::Reset(ResetStatement::Variable(name)) = &statement
        && name.to_string().eq_ignore_ascii_case("time.zone")
    {
        let name = ObjectName::from(vec![Ident::new(TIME_ZONE)]);
        return Statement::Reset(ResetStatement::Variable(name));
    }
    let Statement::Statement(parsed) = &statement else { return statement };
    let SqlStatement::Set(Set::SetTimeZone { local, value }) = parsed.as_ref() else {
        return statement;
    };
    let set = Set::SingleAssignment {
        scope: local.then_some(ContextModifier::Local),
        hivevar: false,
        variable: ObjectName::from(vec![Ident::new(TIME_ZONE)]),
        values: vec![zone(value)],
    };
    Statement::Statement(Box::new(SqlStatement::Set(set)))
}

/// The value for a SET of the time zone: a name unchanged, DEFAULT for the words LOCAL and DEFAULT,
/// and an offset such as `+02:00` for a number of hours.
fn zone(value: &Expr) -> Expr {
    let named = |name: &str| Expr::value(Value::SingleQuotedString(name.to_owned()));
    let hours = |value: &Expr| match value {
        Expr::Value(value) => match &value.value {
            Value::Number(number, _) => number.parse::<f64>().ok(),
            _ => None,
        },
        _ => None,
    };
    let (sign, number) = match value {
        Expr::UnaryOp { op: UnaryOperator::Minus, expr } => ('-', hours(expr)),
        Expr::UnaryOp { op: UnaryOperator::Plus, expr } => ('+', hours(expr)),
        value => ('+', hours(value)),
    };
    match (value, number) {
        (_, Some(hours)) => {
            named(&format!("{sign}{:02}:{:02}", hours.trunc(), (hours.fract() * 60.0).round()))
        }
        (Expr::Identifier(name), None) => {
            let is_default = |word| name.value.eq_ignore_ascii_case(word);
            match name.quote_style.is_none() && ["local", "default"].into_iter().any(is_default) {
                true => Expr::Identifier(Ident::new("default")),
                false => named(&name.value),
            }
        }
        (value, None) => value.clone(),
    }
}

/// A setting that SET LOCAL has changed until the end of the transaction.
pub(super) struct LocalSetting {
    /// DataFusion's name.
    pub(super) key: String,
    /// The value to restore; `None` stands for the initial one.
    pub(super) before: Option<String>,
}

/// The text of a value.
pub(super) fn word(value: &Expr) -> String {
    match value {
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(text) | Value::DoubleQuotedString(text) => text.clone(),
            value => value.to_string(),
        },
        value => value.to_string(),
    }
}
