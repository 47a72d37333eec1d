//! PRAGMA: settings and lists by the names that DuckDB has for them.
//!
//! `PRAGMA threads = 2` is a SET. A PRAGMA without a value is a query (`show`).

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{Expr, ObjectName, Set, Statement as SqlStatement};
use terrace_table::error::SqlError;

use super::own_settings::text;
use super::refusal::refused;
use super::setting_names::{is_budget, known_as};

/// Names of the PRAGMAs that return rows.
const QUERIES: [&str; 5] =
    ["database_list", "show_tables", "show_tables_expanded", "table_info", "version"];

/// A PRAGMA that returns rows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Pragma {
    /// `PRAGMA table_info('t')`: the columns of a table.
    TableInfo(String),
    /// `PRAGMA show_tables`: the names of the tables of the search path.
    Tables,
    /// `PRAGMA show_tables_expanded`: all tables with their columns.
    AllTables,
    /// `PRAGMA database_list`.
    Databases,
    /// `PRAGMA version`.
    Version,
    /// `PRAGMA threads`: the value of a setting.
    Setting(String),
}

/// Replaces a PRAGMA that sets a value by a SET; leaves any other statement unchanged.
pub(super) fn as_set(statement: Statement) -> Statement {
    let Statement::Statement(parsed) = &statement else { return statement };
    let SqlStatement::Pragma { name, value: Some(value), is_eq: true } = parsed.as_ref() else {
        return statement;
    };
    let set = Set::SingleAssignment {
        scope: None,
        hivevar: false,
        variable: name.clone(),
        values: vec![Expr::Value(value.clone())],
    };
    Statement::Statement(Box::new(SqlStatement::Set(set)))
}

impl Pragma {
    /// The query of a PRAGMA; `None` for any other statement.
    ///
    /// # Errors
    /// For a name that is neither that of a query nor that of a setting.
    pub(super) fn of(statement: &SqlStatement) -> Result<Option<Self>, SqlError> {
        let SqlStatement::Pragma { name, value, .. } = statement else { return Ok(None) };
        let argument = value.as_ref().map(|value| {
            let value = Expr::Value(value.clone());
            super::setting_names::word(&value)
        });
        Ok(Some(match (lower(name).as_str(), argument) {
            ("table_info", Some(table)) => Self::TableInfo(table),
            ("show_tables", None) => Self::Tables,
            ("show_tables_expanded", None) => Self::AllTables,
            ("database_list", None) => Self::Databases,
            ("version", None) => Self::Version,
            (name, None) if is_budget(name) || known_as(name).is_some() => {
                Self::Setting(name.to_owned())
            }
            _ => {
                let queries = QUERIES.join(", ");
                let instead = format!(
                    "the queries are {queries}, as in PRAGMA table_info('t'); the settings are \
                     those of SET"
                );
                return Err(refused(&statement.to_string(), &instead));
            }
        }))
    }
}

fn lower(name: &ObjectName) -> String {
    text(name).to_ascii_lowercase()
}
