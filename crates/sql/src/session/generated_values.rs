//! Values of generated columns in the plans of INSERT and UPDATE.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{Column, DFSchema, Result, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{Expr, ExprSchemable as _, LogicalPlan, Projection};
use terrace_table::table::Table;

use super::expressions::planned;

/// A projection over `input`, the rows of an INSERT, that computes the generated columns.
pub(super) fn inserted(
    state: &SessionState,
    table: &Table,
    input: &Arc<LogicalPlan>,
) -> Result<LogicalPlan> {
    let fields = table.schema().fields();
    let given = input.schema();
    if given.fields().len() != fields.len() {
        return plan_err!("rows of {} with {} columns", table.full_name(), given.fields().len());
    }
    let columns: Vec<Expr> =
        (0..fields.len()).map(|at| Expr::Column(Column::from(given.qualified_field(at)))).collect();
    let values = fields.iter().zip(&columns).map(|(field, column)| {
        let value = match generation(state, table, field)? {
            None => column.clone(),
            Some(value) => over(value, table, &columns)?,
        };
        Ok(value.alias(field.name()))
    });
    let values = values.collect::<Result<Vec<_>>>()?;
    Ok(LogicalPlan::Projection(Projection::try_new(values, Arc::clone(input))?))
}

/// The projection `input` of an UPDATE, with generated columns computed from the assigned values.
pub(super) fn updated(
    state: &SessionState,
    table: &Table,
    input: &Arc<LogicalPlan>,
) -> Result<LogicalPlan> {
    let fields = table.schema().fields();
    let LogicalPlan::Projection(projection) = input.as_ref() else {
        // The condition is false, so no row changes.
        return Ok(input.as_ref().clone());
    };
    if projection.expr.len() != fields.len() {
        return plan_err!(
            "an UPDATE of {} columns of {}",
            projection.expr.len(),
            table.full_name()
        );
    }
    let given: Vec<Expr> = projection.expr.iter().map(|value| value.clone().unalias()).collect();
    let mut values = projection.expr.clone();
    for (place, field) in fields.iter().enumerate() {
        if let Some(value) = generation(state, table, field)? {
            refuse_volatile(table, field.name(), &value, &given)?;
            values[place] = over(value, table, &given)?.alias(field.name());
        }
    }
    let projection = Projection::try_new(values, Arc::clone(&projection.input))?;
    Ok(LogicalPlan::Projection(projection))
}

/// Refuses a volatile new value of a column that the generated column `column` is computed from by
/// `value`: it would be evaluated twice, with different results. `given` are the new values.
pub(super) fn refuse_volatile(
    table: &Table,
    column: &str,
    value: &Expr,
    given: &[Expr],
) -> Result<()> {
    for source in value.column_refs() {
        let place = table.schema().index_of(source.name())?;
        if given.get(place).is_some_and(Expr::is_volatile) {
            return plan_err!(
                "an UPDATE of column {} to a value that differs each time is not possible, since \
                 generated column {column} is computed from it; compute the value in FROM (SELECT \
                 ...)",
                source.name()
            );
        }
    }
    Ok(())
}

/// The expression of a generated column over the columns of its table, cast to its type; `None`
/// for a column that is not computed.
pub(super) fn generation(
    state: &SessionState,
    table: &Table,
    field: &FieldRef,
) -> Result<Option<Expr>> {
    let Some(text) = table.properties().generated(field.name()) else { return Ok(None) };
    let schema = DFSchema::try_from(Arc::clone(table.schema()))?;
    Ok(Some(planned(state, text, &schema)?.cast_to(field.data_type(), &schema)?))
}

/// Replaces the columns of a table in `value` by `values`, one per column of the table.
pub(super) fn over(value: Expr, table: &Table, values: &[Expr]) -> Result<Expr> {
    let replaced = value.transform(|part| {
        let Expr::Column(column) = &part else { return Ok(Transformed::no(part)) };
        let place = table.schema().index_of(column.name())?;
        Ok(match values.get(place) {
            Some(value) => Transformed::yes(value.clone()),
            None => Transformed::no(part),
        })
    });
    Ok(replaced?.data)
}
