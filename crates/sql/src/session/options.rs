//! Parts of CREATE TABLE that DataFusion does not plan: options, defaults and constraints.

use std::collections::BTreeSet;

use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    CreateTableOptions, Expr, OnCommit as SqlOnCommit, SqlOption, Statement as SqlStatement, Value,
};
use terrace_table::Encoding;
use terrace_table::catalog::OnCommit;
use terrace_table::error::SqlError;

use super::column_options::{self, Written};

/// Parts of a CREATE TABLE that DataFusion does not plan.
#[derive(Clone, Debug, Default)]
pub(super) struct TableOptions {
    /// Encoding of the table's segments.
    pub(super) encoding: Encoding,
    /// Defaults and constraints.
    pub(super) written: Written,
    /// True for a temporary table.
    pub(super) is_temporary: bool,
    /// Effect of the end of a transaction on a temporary table.
    pub(super) on_commit: Option<OnCommit>,
    /// The statement of a view that calls functions.
    pub(super) view: Option<WrittenView>,
}

/// The statement of a view as written, whose query calls functions or macros.
#[derive(Clone, Debug)]
pub(super) struct WrittenView {
    pub(super) text: String,
    /// Schemas and keys of the functions.
    pub(super) calls: BTreeSet<(String, String)>,
}

/// True for a statement that may have defaults and constraints.
pub(super) fn are_in(statement: &Statement) -> bool {
    match statement {
        Statement::Statement(statement) => {
            matches!(statement.as_ref(), SqlStatement::CreateTable(_) | SqlStatement::AlterTable(_))
        }
        _ => false,
    }
}

/// Removes the parts that DataFusion does not plan from a CREATE TABLE, and returns them.
///
/// # Errors
/// [`SqlError::Refused`] for an option that is not supported.
pub(super) fn take(statement: &mut Statement) -> Result<TableOptions, SqlError> {
    let (encoding, written) = (take_encoding(statement)?, column_options::take(statement)?);
    let on_commit = take_on_commit(statement)?;
    let is_temporary = take_temporary(statement);
    Ok(TableOptions { encoding, written, is_temporary, on_commit, view: None })
}

/// Removes TEMPORARY from a CREATE TABLE. Returns true if it was there.
fn take_temporary(statement: &mut Statement) -> bool {
    let Statement::Statement(statement) = statement else { return false };
    match statement.as_mut() {
        SqlStatement::CreateTable(create) => std::mem::take(&mut create.temporary),
        _ => false,
    }
}

fn take_on_commit(statement: &mut Statement) -> Result<Option<OnCommit>, SqlError> {
    let Statement::Statement(statement) = statement else { return Ok(None) };
    let SqlStatement::CreateTable(create) = statement.as_mut() else { return Ok(None) };
    let Some(effect) = create.on_commit.take() else { return Ok(None) };
    if !create.temporary {
        return Err(SqlError::Refused {
            what: format!("ON COMMIT of table {}", create.name),
            instead: "ON COMMIT can only be used on temporary tables".to_owned(),
        });
    }
    Ok(match effect {
        SqlOnCommit::PreserveRows => None,
        SqlOnCommit::DeleteRows => Some(OnCommit::DeleteRows),
        SqlOnCommit::Drop => Some(OnCommit::Drop),
    })
}

/// Removes the options from a statement, which DataFusion would refuse, and returns the table's
/// encoding. A statement without options gets the default encoding.
fn take_encoding(statement: &mut Statement) -> Result<Encoding, SqlError> {
    let Statement::Statement(statement) = statement else { return Ok(Encoding::default()) };
    let SqlStatement::CreateTable(create) = statement.as_mut() else {
        return Ok(Encoding::default());
    };
    let CreateTableOptions::With(options) = &create.table_options else {
        return Ok(Encoding::default());
    };
    let encodings = options.iter().map(encoding_of).collect::<Result<Vec<_>, _>>()?;
    if let [first, second, ..] = &encodings[..] {
        return Err(SqlError::Refused {
            what: format!("the encoding '{first}' and '{second}' for one table"),
            instead: "name one".to_owned(),
        });
    }
    create.table_options = CreateTableOptions::None;
    Ok(encodings.first().copied().unwrap_or_default())
}

fn encoding_of(option: &SqlOption) -> Result<Encoding, SqlError> {
    let SqlOption::KeyValue { key, value } = option else { return Err(unknown(option)) };
    if !key.value.eq_ignore_ascii_case("encoding") {
        return Err(unknown(option));
    }
    let name = match value {
        Expr::Identifier(name) => Some(name.value.as_str()),
        Expr::Value(value) => match &value.value {
            Value::SingleQuotedString(name) | Value::DoubleQuotedString(name) => {
                Some(name.as_str())
            }
            _ => None,
        },
        _ => None,
    };
    name.and_then(|name| name.parse().ok()).ok_or_else(|| SqlError::Refused {
        what: format!("the encoding {value}"),
        instead: format!("name one of {}", names()),
    })
}

fn unknown(option: &SqlOption) -> SqlError {
    SqlError::Refused {
        what: format!("the table option {option}"),
        instead: format!("the only one is encoding, one of {}", names()),
    }
}

fn names() -> String {
    Encoding::ALL.map(|encoding| format!("'{encoding}'")).join(", ")
}
