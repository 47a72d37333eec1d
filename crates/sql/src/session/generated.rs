//! Columns whose values are generated: computed from other columns of the row, or taken from a
//! sequence.
//!
//! ```text
//! CREATE TABLE t (a INT, b INT GENERATED ALWAYS AS (a * 2) STORED,
//!     id INT GENERATED ALWAYS AS IDENTITY);
//! ```
//!
//! Columns GENERATED ALWAYS can be assigned only DEFAULT. The values of a computed column are
//! stored: INSERT, COPY, UPDATE and MERGE compute them in the plan, from the new values of the
//! other columns.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{LogicalPlan, WriteOp};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, Ident, Insert, ObjectName, SetExpr, Statement as SqlStatement, TableFactor,
    TableObject, Update,
};
use terrace_table::catalog::{Identity, Snapshot};
use terrace_table::error::SqlError;
use terrace_table::table::Table;

use super::column_options::normalized;
use super::defaults::{is_default, target};
use super::dialect::{parsed_expr, parsed_query};
use super::generated_merge;
use super::generated_values::{inserted, updated};
use super::refusal::refused;
use super::spelling::{OVERRIDING, OVERRIDING_USER};
use crate::provider::StoredTable;

/// Refuses an INSERT or UPDATE that assigns a column GENERATED ALWAYS another value than DEFAULT,
/// and applies OVERRIDING SYSTEM VALUE and OVERRIDING USER VALUE.
///
/// # Errors
/// [`SqlError::GeneratedAlways`]; [`SqlError::Refused`] if OVERRIDING USER VALUE leaves no values.
pub(super) fn refuse_values(
    state: &SessionState,
    snapshot: &Snapshot,
    statement: &mut Statement,
) -> Result<(), SqlError> {
    match statement {
        Statement::Statement(statement) => refuse_in(state, snapshot, statement),
        Statement::Explain(explain) => refuse_values(state, snapshot, &mut explain.statement),
        _ => Ok(()),
    }
}

fn refuse_in(
    state: &SessionState,
    snapshot: &Snapshot,
    statement: &mut SqlStatement,
) -> Result<(), SqlError> {
    match statement {
        SqlStatement::Prepare { statement, .. } | SqlStatement::Explain { statement, .. } => {
            refuse_in(state, snapshot, statement)
        }
        SqlStatement::Insert(insert) => {
            let overrides = take_clause(insert, OVERRIDING);
            let is_by_sequence = take_clause(insert, OVERRIDING_USER);
            let TableObject::TableName(name) = &insert.table else { return Ok(()) };
            let Some(table) = target(state, snapshot, name) else { return Ok(()) };
            if is_by_sequence {
                leave_out_identities(insert, &table)?;
            }
            match has_generated(&table) {
                true => in_insert(insert, &table, overrides),
                false => Ok(()),
            }
        }
        SqlStatement::Update(update) => {
            let TableFactor::Table { name, .. } = &update.table.relation else { return Ok(()) };
            match target(state, snapshot, name).filter(|table| has_generated(table)) {
                Some(table) => in_update(update, &table),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// True for a computed column, and for an identity column GENERATED ALWAYS: they take no values
/// but DEFAULT.
fn is_always(table: &Table, column: &str) -> bool {
    let properties = table.properties();
    properties.generated(column).is_some() || properties.identity(column) == Some(Identity::Always)
}

fn has_generated(table: &Table) -> bool {
    table.properties().columns.keys().any(|column| is_always(table, column))
}

/// Removes the column named `clause`, as which the spelling rewrite writes an OVERRIDING clause.
/// Returns true if it was there.
fn take_clause(insert: &mut Insert, clause: &str) -> bool {
    let is_it = |name: &mut ObjectName| {
        let part = name.0.last().and_then(|part| part.as_ident());
        part.is_some_and(|part| part.quote_style.is_some() && part.value == clause)
    };
    insert.columns.pop_if(is_it).is_some()
}

/// The columns that an INSERT has values for.
fn columns_of(insert: &Insert, table: &Table) -> Vec<String> {
    let named = insert.columns.iter().filter_map(|name| name.0.last()?.as_ident().cloned());
    match insert.columns.is_empty() {
        true => table.schema().fields().iter().map(|field| field.name().clone()).collect(),
        false => named.map(normalized).collect(),
    }
}

/// Replaces the values of an INSERT for identity columns by those of their sequences.
fn leave_out_identities(insert: &mut Insert, table: &Table) -> Result<(), SqlError> {
    let columns = columns_of(insert, table);
    let is_identity = |column: &String| table.properties().identity(column).is_some();
    let Some(source) = &mut insert.source else { return Ok(()) };
    if let SetExpr::Values(values) = source.body.as_mut() {
        for row in &mut values.rows {
            for (value, _) in row.content.iter_mut().zip(&columns).filter(|it| is_identity(it.1)) {
                *value = parsed_expr("DEFAULT")?;
            }
        }
        return Ok(());
    }
    let quoted = |column: &String| Ident::with_quote('"', column);
    let kept: Vec<_> = columns.iter().filter(|&it| !is_identity(it)).map(quoted).collect();
    if kept.is_empty() {
        let what = "OVERRIDING USER VALUE of identity columns alone";
        return Err(refused(what, "say DEFAULT VALUES for each row"));
    }
    let all = columns.iter().map(|it| quoted(it).to_string()).collect::<Vec<_>>().join(", ");
    let listed = kept.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let mut query = parsed_query(&format!("SELECT {listed} FROM (SELECT 1) AS given({all})"))?;
    if let SetExpr::Select(select) = query.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        std::mem::swap(subquery.as_mut(), source.as_mut());
    }
    **source = query;
    insert.columns = kept.into_iter().map(|column| ObjectName::from(vec![column])).collect();
    Ok(())
}

/// Refuses values of an INSERT for computed columns, and for identity columns GENERATED ALWAYS
/// unless `overrides`, for OVERRIDING SYSTEM VALUE.
fn in_insert(insert: &Insert, table: &Table, overrides: bool) -> Result<(), SqlError> {
    let Some(source) = &insert.source else { return Ok(()) };
    let columns = columns_of(insert, table);
    let always = columns.iter().enumerate().filter(|(_, column)| is_always(table, column));
    for (place, column) in always {
        if overrides && table.properties().generated(column).is_none() {
            continue;
        }
        let is_refused = match source.body.as_ref() {
            SetExpr::Values(values) => {
                let mut given = values.rows.iter().filter_map(|row| row.content.get(place));
                given.any(|value| !is_default(value))
            }
            _ => true,
        };
        if is_refused {
            return Err(refused_value(table, column));
        }
    }
    Ok(())
}

/// The error of a value for a generated column, in PostgreSQL's words.
fn refused_value(table: &Table, column: &str) -> SqlError {
    let remedy = match table.properties().generated(column) {
        Some(_) => "it is a generated column",
        None => "it is an identity column defined as GENERATED ALWAYS",
    };
    SqlError::GeneratedAlways {
        what: format!("cannot insert a non-DEFAULT value into column \"{column}\": {remedy}"),
    }
}

fn in_update(update: &Update, table: &Table) -> Result<(), SqlError> {
    for assignment in &update.assignments {
        let names = match &assignment.target {
            AssignmentTarget::ColumnName(name) => std::slice::from_ref(name),
            AssignmentTarget::Tuple(names) => names.as_slice(),
        };
        let names = names.iter().filter_map(|name| name.0.last()?.as_ident().cloned());
        let always = names.map(normalized).find(|column| is_always(table, column));
        if let Some(column) = always.filter(|_| !is_default(&assignment.value)) {
            return Err(SqlError::GeneratedAlways {
                what: format!("column \"{column}\" can only be updated to DEFAULT"),
            });
        }
    }
    Ok(())
}

/// Adds the computation of generated columns to the plan of a statement that inserts, updates or
/// merges rows; leaves any other plan unchanged.
///
/// # Errors
/// Errors of planning the expressions.
pub(super) fn computed(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan> {
    let computed = plan.transform_down_with_subqueries(|node| {
        let LogicalPlan::Dml(mut statement) = node else { return Ok(Transformed::no(node)) };
        let provider = source_as_provider(&statement.target)?;
        let stored = provider.downcast_ref::<StoredTable>();
        let table = stored.map(StoredTable::table).filter(|table| {
            table.properties().columns.values().any(|column| column.generated.is_some())
        });
        let input = match (table, &statement.op) {
            (Some(table), WriteOp::Insert(_)) => inserted(state, table, &statement.input)?,
            (Some(table), WriteOp::Update) => updated(state, table, &statement.input)?,
            (Some(table), WriteOp::MergeInto(_)) => {
                let table = Arc::clone(table);
                if let WriteOp::MergeInto(op) = &mut statement.op {
                    generated_merge::compute(state, &table, &statement.table_name, op)?;
                }
                return Ok(Transformed::yes(LogicalPlan::Dml(statement)));
            }
            _ => return Ok(Transformed::no(LogicalPlan::Dml(statement))),
        };
        statement.input = Arc::new(input);
        Ok(Transformed::yes(LogicalPlan::Dml(statement)))
    });
    Ok(computed?.data)
}
