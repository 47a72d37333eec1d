//! Evaluation of LIMIT and OFFSET with subqueries or volatile functions, or that are no integers.
//!
//! ```text
//! LIMIT (SELECT max(a) FROM t)   FETCH FIRST (SELECT 2) ROWS ONLY   LIMIT 2.5
//! ```
//! They are computed before the physical plan is made, by a separate query in the statement's
//! snapshot, which returns them as the columns of one row. So a physical plan has constant limits.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result, ScalarValue, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{
    Expr, ExprSchemable as _, Limit, LogicalPlan, LogicalPlanBuilder, Volatility, cast,
};
use futures::FutureExt as _;
use futures::future::BoxFuture;
use terrace_governor::pins::Reader;
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;

use super::state::{Planned, Session};
use super::{optimize, snapshot, sql_type};
use crate::access::check_plan;

impl Session {
    /// Computes the LIMITs and OFFSETs of a plan that the optimizer does not fold to integers, and
    /// replaces them in the plan by their values.
    ///
    /// # Errors
    /// For a limit that is no number, or that depends on rows; errors of the queries.
    pub(super) fn with_limits<'a>(
        &'a self,
        state: &'a SessionState,
        snapshot: &'a Snapshot,
        plan: LogicalPlan,
    ) -> BoxFuture<'a, Result<LogicalPlan, SqlError>> {
        async move {
            let open = open(&plan)?;
            if open.is_empty() {
                return Ok(plan);
            }
            let columns = open.iter().enumerate();
            let columns = columns.map(|(place, limit)| {
                cast(limit.clone(), DataType::Int64).alias(format!("limit {place}"))
            });
            let row = LogicalPlanBuilder::empty(true).project(columns)?.build()?;
            // Its queries may have limits of their own.
            let row = self.with_limits(state, snapshot, row).await?;
            let values = self.values(state, snapshot, row).await?;
            Ok(replaced(plan, &open, &values)?)
        }
        .boxed()
    }

    /// Runs the plan `row`, and returns the columns of its only row.
    async fn values(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        row: LogicalPlan,
    ) -> Result<Vec<ScalarValue>, SqlError> {
        let row = snapshot::pin(row, snapshot)?;
        check_plan(&row, &self.rights(snapshot))?;
        let physical = |reader: Arc<Reader>| async move {
            let mut state = state.clone();
            state.config_mut().set_extension(reader);
            let plan = optimize::optimized(&state, row)?;
            let plan = state.query_planner().create_physical_plan(&plan, &state).await?;
            Ok(Planned { plan, watched: None })
        };
        let text = "the values of LIMIT and OFFSET of a query";
        let rows = self.start(text, text.to_owned(), self.scope(), false, physical).await?;
        let mut values = Vec::new();
        for batch in rows.collect().await?.batches {
            if batch.num_rows() > 0 {
                let columns = batch.columns().iter();
                let row = columns.map(|column| ScalarValue::try_from_array(column, 0));
                values = row.collect::<Result<_>>()?;
            }
        }
        Ok(values)
    }
}

/// The limits of a plan that have to be computed.
fn open(plan: &LogicalPlan) -> Result<Vec<Expr>> {
    let mut found: Vec<Expr> = Vec::new();
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Limit(Limit { skip, fetch, .. }) = node {
            for (clause, limit) in [("LIMIT", fetch), ("OFFSET", skip)] {
                if let Some(limit) = limit
                    && is_open(clause, limit)?
                    && !found.contains(limit)
                {
                    found.push(limit.as_ref().clone());
                }
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(found)
}

/// True for a limit that has to be computed before planning; the optimizer folds integers without
/// subqueries and volatile functions. `clause` names it in errors.
fn is_open(clause: &str, limit: &Expr) -> Result<bool> {
    let (mut is_computed, mut is_of_rows, mut is_of_caller) = (false, false, false);
    limit.apply(|expr| {
        let subquery = match expr {
            Expr::ScalarSubquery(subquery) => Some(subquery),
            Expr::Exists(exists) => Some(&exists.subquery),
            Expr::InSubquery(membership) => Some(&membership.subquery),
            Expr::SetComparison(comparison) => Some(&comparison.subquery),
            _ => None,
        };
        is_computed |= subquery.is_some();
        is_of_rows |= subquery.is_some_and(|it| !it.outer_ref_columns.is_empty());
        if let Expr::ScalarFunction(call) = expr {
            is_computed |= call.func.signature().volatility == Volatility::Volatile;
        }
        is_of_caller |=
            matches!(expr, Expr::Placeholder(_) | Expr::Column(_) | Expr::OuterReferenceColumn(..));
        Ok(TreeNodeRecursion::Continue)
    })?;
    if is_of_rows {
        return plan_err!("argument of {clause} must not contain variables");
    }
    if is_of_caller {
        return Ok(false);
    }
    let of = limit.get_type(&DFSchema::empty())?;
    let is_number = of.is_numeric() || of.is_null();
    let is_literal = matches!(limit, Expr::Literal(..)) && of.is_string();
    if !is_number && !is_literal {
        let of = sql_type::name(&of).to_lowercase();
        return plan_err!("argument of {clause} must be type bigint, not type {of}");
    }
    Ok(is_computed || !(of.is_integer() || of.is_null()))
}

/// Replaces the limits `open` in a plan by `values`, in the same order.
fn replaced(plan: LogicalPlan, open: &[Expr], values: &[ScalarValue]) -> Result<LogicalPlan> {
    let value = |limit: &Expr| {
        let place = open.iter().position(|it| it == limit)?;
        Some(Expr::Literal(values.get(place)?.clone(), None))
    };
    let plan = plan.transform_down_with_subqueries(|node| {
        let LogicalPlan::Limit(mut limit) = node else { return Ok(Transformed::no(node)) };
        let mut is_changed = false;
        for of in [&mut limit.skip, &mut limit.fetch].into_iter().flatten() {
            if let Some(value) = value(of) {
                **of = value;
                is_changed = true;
            }
        }
        Ok(Transformed::new_transformed(LogicalPlan::Limit(limit), is_changed))
    })?;
    Ok(plan.data)
}
