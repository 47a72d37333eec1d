//! Planning of DELETE and UPDATE from the unoptimised statement.
//!
//! DataFusion passes a table the filters that it finds in the optimised plan. A condition that the
//! optimiser proved false is no longer in that plan, and the statement would affect every row. So
//! the condition is taken from the plan before it is optimised, and simplified separately.

use std::sync::Arc;

use datafusion::common::{Column, Result, ScalarValue, not_impl_err, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{DmlStatement, Expr, LogicalPlan, WriteOp};
use datafusion::physical_expr::expressions::cast;
use datafusion::physical_plan::ExecutionPlan;
use futures::FutureExt as _;
use terrace_table::table::Table;
use terrace_table::write::{
    Assignment, CountExec, Required, ReturnedColumns, delete_plan, update_plan,
};

use super::checks;
use super::expressions::{Expressions, unqualified};

/// Plans a DELETE or UPDATE of `table`, which returns the number of changed rows, or with
/// `returned` these columns of the changed rows.
///
/// # Errors
/// If the condition depends on more than the values of the row, or an expression does not fit the
/// table.
pub fn dml_plan(
    state: &SessionState,
    table: &Arc<Table>,
    statement: &DmlStatement,
    returned: Option<ReturnedColumns>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut found = Found::default();
    found.visit(&statement.input, table)?;
    if found.nothing {
        return Ok(no_rows(table, returned));
    }
    let expressions = Expressions::new(state, table.schema())?;
    let filter = match conjunction(found.conditions) {
        None => None,
        Some(condition) => match expressions.simplified(condition)? {
            Expr::Literal(ScalarValue::Boolean(Some(true)), _) => None,
            Expr::Literal(ScalarValue::Boolean(_) | ScalarValue::Null, _) => {
                return Ok(no_rows(table, returned));
            }
            condition => Some(expressions.physical(&condition)?),
        },
    };
    match statement.op {
        WriteOp::Delete => Ok(delete_plan(table, filter, returned)),
        WriteOp::Update => {
            let assignments = assignments(&expressions, table, found.projection)?;
            let required = Required { checks: checks::compiled(state, table)?, returned };
            Ok(update_plan(table, assignments, filter, required))
        }
        _ => not_impl_err!("{} as a change of rows", statement.op),
    }
}

/// Builds the plan of a statement whose condition is known to be false for every row.
fn no_rows(table: &Table, returned: Option<ReturnedColumns>) -> Arc<dyn ExecutionPlan> {
    let what = format!("NoRowsExec: table={}", table.full_name());
    CountExec::changing(what, returned, |_, _| async { Ok(0) }.boxed())
}

/// Conditions and assignments found in the logical plan of a DELETE or UPDATE.
#[derive(Default)]
struct Found {
    conditions: Vec<Expr>,
    /// For an UPDATE: the table's columns, some of them with new values.
    projection: Vec<Expr>,
    /// True if the statement is prepared, thus already optimised, and its condition was proved
    /// false.
    nothing: bool,
}

impl Found {
    fn visit(&mut self, plan: &LogicalPlan, table: &Table) -> Result<()> {
        match plan {
            LogicalPlan::Projection(projection) if self.projection.is_empty() => {
                self.projection.clone_from(&projection.expr);
                self.visit(&projection.input, table)
            }
            LogicalPlan::Filter(filter) => {
                self.conditions.push(filter.predicate.clone());
                self.visit(&filter.input, table)
            }
            LogicalPlan::SubqueryAlias(alias) => self.visit(&alias.input, table),
            LogicalPlan::EmptyRelation(empty) if !empty.produce_one_row => {
                self.nothing = true;
                Ok(())
            }
            LogicalPlan::TableScan(scan) => {
                self.conditions.extend(scan.filters.iter().cloned());
                Ok(())
            }
            other => not_impl_err!(
                "changing rows of {} chosen by {}; choose them by their own values",
                table.full_name(),
                other.display()
            ),
        }
    }
}

/// Returns the assignments of an UPDATE: the columns whose value in `projection` is not the column
/// itself.
fn assignments(
    expressions: &Expressions<'_>,
    table: &Table,
    projection: Vec<Expr>,
) -> Result<Vec<Assignment>> {
    let fields = table.schema().fields();
    if projection.len() != fields.len() {
        return plan_err!(
            "an UPDATE of {} with {} columns, not {}",
            table.full_name(),
            projection.len(),
            fields.len()
        );
    }
    let mut assignments = Vec::new();
    for (column, (value, field)) in projection.into_iter().zip(fields).enumerate() {
        let value = unqualified(value.unalias())?;
        if value == Expr::Column(Column::new_unqualified(field.name())) {
            continue;
        }
        let value = expressions.compiled(value)?;
        let value = cast(value, table.schema(), field.data_type().clone())?;
        assignments.push(Assignment { column, value });
    }
    Ok(assignments)
}

#[cfg(test)]
mod tests;
