//! Planning of DELETE and UPDATE from the unoptimised statement.
//!
//! DataFusion passes a table the filters that it finds in the optimised plan. A condition that the
//! optimiser proved false is no longer in that plan, and the statement would affect every row. So
//! the condition is taken from the plan before it is optimised, and simplified separately.

use std::sync::Arc;

use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{
    Column, DFSchema, DFSchemaRef, Result, ScalarValue, not_impl_err, plan_err,
};
use datafusion::execution::SessionState;
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{DmlStatement, Expr, LogicalPlan, WriteOp};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::cast;
use datafusion::physical_plan::ExecutionPlan;
use futures::FutureExt as _;
use terrace_table::table::Table;
use terrace_table::write::{Assignment, CountExec, delete_plan, update_plan};

use super::{canonical, floats, lists, semantics};

/// Plans a DELETE or UPDATE of `table`.
///
/// # Errors
/// If rows are selected by more than their own values, or an expression does not fit the table.
pub fn dml_plan(
    state: &SessionState,
    table: &Arc<Table>,
    statement: &DmlStatement,
) -> Result<Arc<dyn ExecutionPlan>> {
    let mut found = Found::default();
    found.visit(&statement.input, table)?;
    if found.nothing {
        return Ok(no_rows(table));
    }
    let expressions = Expressions::new(state, table)?;
    let filter = match conjunction(found.conditions) {
        None => None,
        Some(condition) => match expressions.simplified(condition)? {
            Expr::Literal(ScalarValue::Boolean(Some(true)), _) => None,
            Expr::Literal(ScalarValue::Boolean(_) | ScalarValue::Null, _) => {
                return Ok(no_rows(table));
            }
            condition => Some(expressions.physical(&condition)?),
        },
    };
    match statement.op {
        WriteOp::Delete => Ok(delete_plan(table, filter)),
        WriteOp::Update => {
            let assignments = expressions.assignments(found.projection)?;
            Ok(update_plan(table, assignments, filter))
        }
        _ => not_impl_err!("{} as a change of rows", statement.op),
    }
}

/// Builds the plan of a statement whose condition no row satisfies.
fn no_rows(table: &Table) -> Arc<dyn ExecutionPlan> {
    let what = format!("NoRowsExec: table={}", table.full_name());
    CountExec::plan(what, |_| async { Ok(0) }.boxed())
}

/// Parts found in the plan of a statement.
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

/// Compiler of expressions over the rows of a table.
struct Expressions<'a> {
    state: &'a SessionState,
    table: &'a Table,
    schema: DFSchemaRef,
    simplifier: ExprSimplifier,
}

impl<'a> Expressions<'a> {
    fn new(state: &'a SessionState, table: &'a Table) -> Result<Self> {
        let schema = Arc::new(DFSchema::try_from(table.schema().clone())?);
        let started = state.execution_props().query_execution_start_time;
        let context = SimplifyContext::builder()
            .with_schema(schema.clone())
            .with_config_options(state.config().options().clone())
            .with_query_execution_start_time(started)
            .build();
        Ok(Self { state, table, schema, simplifier: ExprSimplifier::new(context) })
    }

    /// Coerces the types of an expression and evaluates its constants.
    fn simplified(&self, expression: Expr) -> Result<Expr> {
        let expression = unqualified(expression)?;
        let expression = floats::in_double_precision(expression, self.schema.as_ref())?.data;
        let mut expression = self.simplifier.coerce(expression, &self.schema)?;
        let options = self.state.config().options();
        for rewrite in self.state.analyzer().function_rewrites() {
            let rewritten =
                expression.transform_up(|e| rewrite.rewrite(e, &self.schema, options))?;
            expression = rewritten.data;
        }
        let expression = semantics::rewrite(expression, self.schema.as_ref())?.data;
        let expression = canonical::rewrite(expression, self.schema.as_ref())?.data;
        lists::simplify(&self.simplifier, expression)
    }

    fn physical(&self, expression: &Expr) -> Result<Arc<dyn PhysicalExpr>> {
        self.state.create_physical_expr(expression.clone(), &self.schema)
    }

    /// Returns the columns of an UPDATE's projection that are not merely themselves.
    fn assignments(&self, projection: Vec<Expr>) -> Result<Vec<Assignment>> {
        let fields = self.table.schema().fields();
        if projection.len() != fields.len() {
            return plan_err!(
                "an UPDATE of {} with {} columns, not {}",
                self.table.full_name(),
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
            let value = self.physical(&self.simplified(value)?)?;
            let value = cast(value, self.table.schema(), field.data_type().clone())?;
            assignments.push(Assignment { column, value });
        }
        Ok(assignments)
    }
}

/// Renames the columns of an expression to the table's own names.
fn unqualified(expression: Expr) -> Result<Expr> {
    let renamed = expression.transform(|expression| match expression {
        Expr::Column(Column { relation: Some(_), name, .. }) => {
            Ok(Transformed::yes(Expr::Column(Column::new_unqualified(name))))
        }
        other => Ok(Transformed::no(other)),
    });
    Ok(renamed?.data)
}

#[cfg(test)]
mod tests;
