//! Forms of INSERT that DataFusion lacks: BY NAME, queries with fewer columns than the table, and
//! ON CONFLICT, which is refused.

use std::collections::BTreeSet;

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    Ident, Insert, ObjectName, OnInsert, SetExpr, SqliteOnConflict, Statement as SqlStatement,
    TableObject,
};
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;

use super::refusal::refused;
use super::spelling::{BY_NAME, OVERRIDING, OVERRIDING_USER};
use super::{defaults, duplicate_names, list_literals, order_by_all};

/// Adds the list of columns to `INSERT INTO t BY NAME SELECT`: the columns of the query; and to an
/// INSERT of a query with fewer columns than the table: the first columns of the table.
///
/// # Errors
/// [`SqlError::Refused`] for ON CONFLICT and OR, and for BY NAME without a query that has names;
/// errors of planning the query.
pub(super) async fn write_out(
    state: &SessionState,
    snapshot: &Snapshot,
    insert: &mut Insert,
) -> Result<(), SqlError> {
    refuse_conflicts(insert)?;
    match insert.columns.as_slice() {
        [name] if is_marker(name, BY_NAME) => {}
        _ => return name_first(state, snapshot, insert).await,
    }
    let source = insert.source.as_ref().filter(|query| !matches!(*query.body, SetExpr::Values(_)));
    let Some(query) = source else {
        let what = "INSERT BY NAME of values without names";
        return Err(refused(what, "say SELECT value AS column, or leave BY NAME out"));
    };
    let query = Statement::Statement(Box::new(SqlStatement::Query(query.clone())));
    let plan = list_literals::plan(state, query).await?;
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

/// Adds the list of columns to an INSERT without one, if its query has fewer columns than the
/// table: the first columns of the table.
async fn name_first(
    state: &SessionState,
    snapshot: &Snapshot,
    insert: &mut Insert,
) -> Result<(), SqlError> {
    let is_unnamed = insert
        .columns
        .iter()
        .all(|name| is_marker(name, OVERRIDING) || is_marker(name, OVERRIDING_USER));
    let (true, TableObject::TableName(name)) = (is_unnamed, &insert.table) else { return Ok(()) };
    let Some(query) = insert.source.as_ref() else { return Ok(()) };
    let Some(table) = defaults::target(state, snapshot, name) else { return Ok(()) };
    let fields = table.schema().fields();
    let is_list = matches!(*query.body, SetExpr::Values(_));
    if is_list || order_by_all::columns(&query.body) == Some(fields.len()) {
        return Ok(());
    }
    let query = Statement::Statement(Box::new(SqlStatement::Query(query.clone())));
    // The error of a query is reported when the statement is planned.
    let Ok(plan) = duplicate_names::plan(state, &query).await else { return Ok(()) };
    let given = plan.schema().fields().len();
    if given < fields.len() {
        let names = fields.iter().take(given);
        let names = names.map(|it| ObjectName::from(vec![Ident::with_quote('"', it.name())]));
        insert.columns.splice(0..0, names);
    }
    Ok(())
}

/// True for the quoted name `marker`, as which the spelling rewrite writes a clause of INSERT.
fn is_marker(name: &ObjectName, marker: &str) -> bool {
    let part = name.0.last().and_then(|part| part.as_ident());
    part.is_some_and(|part| part.quote_style.is_some() && part.value == marker)
}

/// Refuses the clauses of INSERT that depend on a unique index.
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
