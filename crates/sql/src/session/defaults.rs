//! Defaults of columns: the values of columns that an INSERT does not name, and of DEFAULT in
//! VALUES and UPDATE.

use std::sync::Arc;

use datafusion::common::Result as DataFusionResult;
use datafusion::common::tree_node::Transformed;
use datafusion::datasource::source_as_provider;
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, LogicalPlan, Projection, WriteOp};
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{
    AssignmentTarget, Expr as SqlExpr, Ident, Insert, ObjectName, Query, SetExpr,
    Statement as SqlStatement, TableFactor, TableObject, Update, Value,
};
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;
use terrace_table::table::Table;

use super::column_options::normalized;
use super::dialect::{parsed_expr, parsed_query};
use super::properties::default_of;
use super::types;
use crate::names::{CATALOG, resolve};
use crate::provider::StoredTable;

/// Replaces DEFAULT in the values of an INSERT or UPDATE by the default of its column, and DEFAULT
/// VALUES by a row of all defaults.
///
/// # Errors
/// If the stored text of a default is damaged.
pub(super) fn write_out(
    state: &SessionState,
    snapshot: &Snapshot,
    statement: &mut Statement,
) -> Result<(), SqlError> {
    let statement = match statement {
        Statement::Statement(statement) => statement.as_mut(),
        Statement::Explain(explain) => return write_out(state, snapshot, &mut explain.statement),
        _ => return Ok(()),
    };
    write_out_sql(state, snapshot, statement)
}

fn write_out_sql(
    state: &SessionState,
    snapshot: &Snapshot,
    statement: &mut SqlStatement,
) -> Result<(), SqlError> {
    match statement {
        SqlStatement::Prepare { statement, .. } | SqlStatement::Explain { statement, .. } => {
            write_out_sql(state, snapshot, statement)
        }
        SqlStatement::Insert(insert) => {
            let TableObject::TableName(name) = &insert.table else { return Ok(()) };
            match target(state, snapshot, name) {
                Some(table) => in_insert(insert, &table),
                None => Ok(()),
            }
        }
        SqlStatement::Update(update) => {
            let TableFactor::Table { name, .. } = &update.table.relation else { return Ok(()) };
            match target(state, snapshot, name) {
                Some(table) => in_update(update, &table),
                None => Ok(()),
            }
        }
        _ => Ok(()),
    }
}

/// The table of the database that `name` resolves to; `None` for any other relation, and if there
/// is none.
pub(super) fn target(
    state: &SessionState,
    snapshot: &Snapshot,
    name: &ObjectName,
) -> Option<Arc<Table>> {
    let reference = object_name_to_table_reference(name.clone(), true).ok()?;
    let full = resolve(state.config_options(), snapshot, reference);
    let (table, _) = snapshot.table(&full.schema, &full.table)?;
    (full.catalog.as_ref() == CATALOG).then_some(table)
}

fn in_insert(insert: &mut Insert, table: &Table) -> Result<(), SqlError> {
    let fields = table.schema().fields();
    if insert.source.is_none() && insert.assignments.is_empty() {
        let row = vec!["DEFAULT"; fields.len()].join(", ");
        insert.source = Some(Box::new(parsed_query(&format!("VALUES ({row})"))?));
    }
    let Some(source) = &mut insert.source else { return Ok(()) };
    let Query { body, .. } = source.as_mut();
    let SetExpr::Values(values) = body.as_mut() else { return Ok(()) };
    if insert.columns.is_empty() {
        // Rows may have values for the first columns only.
        let width = values.rows.iter().map(|row| row.content.len()).max().unwrap_or(0);
        if width < fields.len() {
            let names = fields.iter().take(width);
            let names = names.map(|field| ObjectName::from(vec![quoted(field.name())]));
            insert.columns = names.collect();
        }
    }
    let name_of = |place: usize| match insert.columns.as_slice() {
        [] => fields.get(place).map(|field| field.name().clone()),
        columns => {
            let name = columns.get(place)?.0.last()?.as_ident()?;
            Some(normalized(name.clone()))
        }
    };
    for row in &mut values.rows {
        for (place, value) in row.content.iter_mut().enumerate() {
            let name = name_of(place).unwrap_or_default();
            if is_default(value) {
                *value = written(table, &name)?;
            } else if let Ok(field) = table.schema().field_with_name(&name) {
                types::name_fields(value, field.data_type());
            }
        }
    }
    Ok(())
}

fn in_update(update: &mut Update, table: &Table) -> Result<(), SqlError> {
    for assignment in &mut update.assignments {
        let AssignmentTarget::ColumnName(name) = &assignment.target else { continue };
        let column = name.0.last().and_then(|part| part.as_ident());
        if let (true, Some(column)) = (is_default(&assignment.value), column) {
            assignment.value = written(table, &normalized(column.clone()))?;
        }
    }
    Ok(())
}

fn quoted(name: &str) -> Ident {
    Ident::with_quote('"', name)
}

/// True for DEFAULT in place of a value.
pub(super) fn is_default(expr: &SqlExpr) -> bool {
    match expr {
        SqlExpr::Identifier(name) => {
            name.quote_style.is_none() && name.value.eq_ignore_ascii_case("default")
        }
        _ => false,
    }
}

/// The syntax tree of a column's default; NULL if it has none.
///
/// # Errors
/// If the stored text of the default is damaged.
pub(super) fn written(table: &Table, column: &str) -> Result<SqlExpr, SqlError> {
    match table.properties().default_of(column) {
        Some(text) => Ok(SqlExpr::Nested(Box::new(parsed_expr(text)?))),
        None => Ok(SqlExpr::Value(Value::Null.into())),
    }
}

/// Gives the columns that an INSERT does not name their defaults.
///
/// # Errors
/// Errors of planning the defaults.
pub(super) fn fill(state: &SessionState, plan: LogicalPlan) -> Result<LogicalPlan, SqlError> {
    let filled = plan.transform_down_with_subqueries(|node| match node {
        LogicalPlan::Dml(mut statement) if matches!(statement.op, WriteOp::Insert(_)) => {
            let provider = source_as_provider(&statement.target)?;
            let stored = provider.downcast_ref::<StoredTable>();
            let input = stored.map(|stored| filled(state, &statement.input, stored.table()));
            let input = input.transpose()?.flatten();
            let is_changed = input.is_some();
            if let Some(input) = input {
                statement.input = Arc::new(input);
            }
            Ok(Transformed::new_transformed(LogicalPlan::Dml(statement), is_changed))
        }
        node => Ok(Transformed::no(node)),
    });
    Ok(filled?.data)
}

/// The input of an INSERT with the defaults of the columns that it does not name; `None` if it
/// names all columns that have one.
fn filled(
    state: &SessionState,
    input: &LogicalPlan,
    table: &Table,
) -> DataFusionResult<Option<LogicalPlan>> {
    let LogicalPlan::Projection(projection) = input else { return Ok(None) };
    let fields = table.schema().fields();
    if table.properties().columns.is_empty() || projection.expr.len() != fields.len() {
        return Ok(None);
    }
    let mut values = projection.expr.clone();
    let mut is_changed = false;
    for (value, field) in values.iter_mut().zip(fields) {
        let default = table.properties().default_of(field.name());
        if let (true, Some(text)) = (is_left_out(value), default) {
            *value = default_of(state, field, text)?.alias(field.name());
            is_changed = true;
        }
    }
    if !is_changed {
        return Ok(None);
    }
    let projection = Projection::try_new(values, Arc::clone(&projection.input))?;
    Ok(Some(LogicalPlan::Projection(projection)))
}

/// True for the value of a column that an INSERT does not name: the planner sets it to a literal
/// null, while the values of named columns are columns of the input.
fn is_left_out(value: &Expr) -> bool {
    match value {
        Expr::Alias(alias) => is_left_out(&alias.expr),
        Expr::Cast(cast) => is_left_out(&cast.expr),
        Expr::Literal(value, _) => value.is_null(),
        _ => false,
    }
}
