//! The analyzer rule that applies the modules of `types` to the nodes of a plan.

use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::expr::InSubquery;
use datafusion::logical_expr::expr_rewriter::NamePreserver;
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::utils::merge_schema;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};
use datafusion::optimizer::AnalyzerRule;

use super::intervals;
use super::unions::{of_union, of_values};
use super::values::{rewrite, unify};

/// The analyzer rule. It runs before DataFusion coerces types.
#[derive(Debug)]
pub(in super::super) struct TypedValues;

impl AnalyzerRule for TypedValues {
    fn analyze(&self, plan: LogicalPlan, _: &ConfigOptions) -> Result<LogicalPlan> {
        let mut is_changed = false;
        let rewritten = plan.transform_up_with_subqueries(|plan| {
            let schema = schema_below(&plan)?;
            let plan = of_expressions(plan, &schema)?.transform_data(of_values)?;
            let plan = plan.transform_data(of_union)?.transform_data(of_keys)?;
            let plan = plan.transform_data(|plan| intervals::of_node(plan, &schema))?;
            is_changed |= plan.transformed;
            // Types of columns may have changed below.
            if is_changed { plan.map_data(LogicalPlan::recompute_schema) } else { Ok(plan) }
        })?;
        Ok(rewritten.data)
    }

    fn name(&self) -> &str {
        "typed_values"
    }
}

/// The columns that the expressions of a node are over.
fn schema_below(plan: &LogicalPlan) -> Result<DFSchema> {
    match plan {
        LogicalPlan::TableScan(scan) => {
            DFSchema::try_from_qualified_schema(scan.table_name.clone(), &scan.source.schema())
        }
        plan => Ok(merge_schema(&plan.inputs())),
    }
}

fn of_expressions(plan: LogicalPlan, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    let names = NamePreserver::new(&plan);
    plan.map_expressions(|expr| {
        let name = names.save(&expr);
        let expr = rewrite(expr, schema)?;
        let expr = expr.transform_data(|expr| of_subqueries(expr, schema))?;
        Ok(expr.update_data(|expr| name.restore(expr)))
    })
}

/// Rewrites the memberships in subqueries within an expression.
fn of_subqueries(expr: Expr, schema: &DFSchema) -> Result<Transformed<Expr>> {
    expr.transform_up(|mut expr| {
        let is_changed = match &mut expr {
            Expr::InSubquery(membership) => of_membership(membership, schema)?,
            _ => false,
        };
        Ok(if is_changed { Transformed::yes(expr) } else { Transformed::no(expr) })
    })
}

fn of_membership(membership: &mut InSubquery, schema: &DFSchema) -> Result<bool> {
    let InSubquery { expr, subquery, .. } = membership;
    let plan = &subquery.subquery;
    if plan.schema().fields().len() != 1 {
        return Ok(false);
    }
    let column = Expr::from(plan.schema().qualified_field(0));
    let mut inside = column.clone();
    let is_changed = unify(vec![(expr, schema), (&mut inside, plan.schema().as_ref())]);
    if inside != column {
        let name = plan.schema().field(0).name().clone();
        let plan = LogicalPlanBuilder::from(plan.as_ref().clone()).project([inside.alias(name)])?;
        *subquery = subquery.with_plan(Arc::new(plan.build()?));
    }
    Ok(is_changed)
}

/// Rewrites the keys of a join.
fn of_keys(plan: LogicalPlan) -> Result<Transformed<LogicalPlan>> {
    let LogicalPlan::Join(Join { mut on, left, right, .. }) = plan.clone() else {
        return Ok(Transformed::no(plan));
    };
    let (left, right) = (left.schema().as_ref(), right.schema().as_ref());
    let mut is_changed = false;
    for (first, second) in &mut on {
        is_changed |= unify(vec![(first, left), (second, right)]);
    }
    match (plan, is_changed) {
        (LogicalPlan::Join(join), true) => {
            Ok(Transformed::yes(LogicalPlan::Join(Join { on, ..join })))
        }
        (plan, _) => Ok(Transformed::no(plan)),
    }
}
