//! Forms of INSERT: BY NAME, and those that are refused.

use std::collections::BTreeSet;

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Ident, Insert, ObjectName, OnInsert, SetExpr, SqliteOnConflict, Statement as SqlStatement,
};
use terrace_table::error::SqlError;

use super::refusal::refused;
use super::spelling::BY_NAME;

/// Writes out the columns of `INSERT INTO t BY NAME SELECT`, which are those of the query.
///
/// # Errors
/// [`SqlError::Refused`] for ON CONFLICT and OR, and for BY NAME without a query that has names;
/// errors of planning the query.
pub(super) async fn write_out(state: &SessionState, insert: &mut Insert) -> Result<(), SqlError> {
    refuse_conflicts(insert)?;
    let is_by_name = |name: &ObjectName| {
        let part = name.0.last().and_then(|part| part.as_ident());
        part.is_some_and(|part| part.quote_style.is_some() && part.value == BY_NAME)
    };
    match insert.columns.as_slice() {
        [name] if is_by_name(name) => {}
        _ => return Ok(()),
    }
    let source = insert.source.as_ref().filter(|query| !matches!(*query.body, SetExpr::Values(_)));
    let Some(query) = source else {
        let what = "INSERT BY NAME of values without names";
        return Err(refused(what, "say SELECT value AS column, or leave BY NAME out"));
    };
    let query = Statement::Statement(Box::new(SqlStatement::Query(query.clone())));
    let plan = state.statement_to_plan(query).await?;
    let mut seen = BTreeSet::new();
    let mut columns = Vec::new();
    for field in plan.schema().fields() {
        if !seen.insert(field.name().clone()) {
            let what = format!("INSERT BY NAME of two columns {}", field.name());
            return Err(refused(&what, "name each column once"));
        }
        columns.push(ObjectName::from(vec![Ident::with_quote('"', field.name())]));
    }
    insert.columns = columns;
    Ok(())
}

/// Refuses what depends on a unique index.
fn refuse_conflicts(insert: &Insert) -> Result<(), SqlError> {
    let clause = match (&insert.on, &insert.or) {
        (Some(OnInsert::OnConflict(_)), _) => "ON CONFLICT".to_owned(),
        (Some(_), _) => "ON DUPLICATE KEY".to_owned(),
        (None, Some(or)) => match or {
            SqliteOnConflict::Replace => "INSERT OR REPLACE".to_owned(),
            SqliteOnConflict::Ignore => "INSERT OR IGNORE".to_owned(),
            other => format!("INSERT {other}"),
        },
        (None, None) if insert.replace_into => "REPLACE INTO".to_owned(),
        (None, None) => return Ok(()),
    };
    Err(refused(
        &clause,
        "there are no unique indexes to conflict with: say MERGE INTO ... USING ... ON ...",
    ))
}
