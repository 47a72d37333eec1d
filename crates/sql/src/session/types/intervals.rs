//! Sorts and groups of intervals, which are equal if their durations are: `1 month` and `30 days`.
//!
//! A group of intervals has one of them as its value.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::functions_aggregate::expr_fn::first_value;
use datafusion::logical_expr::logical_plan::{Aggregate, DistinctOn, Projection};
use datafusion::logical_expr::{Distinct, Expr, LogicalPlan, LogicalPlanBuilder};
use terrace_functions::columns::{interval_key, readable_text};

use super::kinds::{is_interval, type_of};
use super::ordering::{of_order, to_key};

/// Rewrites a node over rows of `schema`.
///
/// # Errors
/// Errors of planning.
pub(super) fn of_node(plan: LogicalPlan, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    if !schema.fields().iter().any(|field| is_interval(field.data_type())) {
        // Sorts and groups are by columns, or by expressions over some.
        return match plan {
            LogicalPlan::Aggregate(aggregate) => of_groups(aggregate),
            LogicalPlan::Sort(_) => of_sort(plan, schema),
            plan => Ok(Transformed::no(plan)),
        };
    }
    match plan {
        LogicalPlan::Sort(_) | LogicalPlan::Distinct(Distinct::On(_)) => of_sort(plan, schema),
        LogicalPlan::Aggregate(aggregate) => of_groups(aggregate),
        LogicalPlan::Distinct(Distinct::All(input)) => {
            let columns = input.schema().iter().map(Expr::from).collect();
            let aggregate = Aggregate::try_new(input, columns, vec![])?;
            of_groups(aggregate)
        }
        LogicalPlan::Copy(copy) => {
            let columns = copy.input.schema().iter().map(|(qualifier, field)| {
                let column = Expr::from((qualifier, field));
                match is_interval(field.data_type()) {
                    true => readable_text(column).alias_qualified(qualifier.cloned(), field.name()),
                    false => column,
                }
            });
            let columns: Vec<Expr> = columns.collect();
            let texts = LogicalPlanBuilder::from(copy.input.as_ref().clone()).project(columns)?;
            let plan = LogicalPlan::Copy(copy);
            Ok(Transformed::yes(plan.with_new_exprs(plan.expressions(), vec![texts.build()?])?))
        }
        plan => Ok(Transformed::no(plan)),
    }
}

fn of_sort(plan: LogicalPlan, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    let (plan, is_changed) = match plan {
        LogicalPlan::Sort(mut sort) => {
            let is_changed = of_order(&mut sort.expr, schema);
            (LogicalPlan::Sort(sort), is_changed)
        }
        LogicalPlan::Distinct(Distinct::On(distinct)) => {
            let DistinctOn { mut on_expr, select_expr, mut sort_expr, input, .. } = distinct;
            let mut is_changed = false;
            for key in &mut on_expr {
                is_changed |= to_key(key, schema);
            }
            if let Some(order) = &mut sort_expr {
                is_changed |= of_order(order, schema);
            }
            let distinct = DistinctOn::try_new(on_expr, select_expr, sort_expr, input)?;
            (LogicalPlan::Distinct(Distinct::On(distinct)), is_changed)
        }
        plan => (plan, false),
    };
    Ok(if is_changed { Transformed::yes(plan) } else { Transformed::no(plan) })
}

/// Groups by the durations of intervals.
fn of_groups(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    let below = aggregate.input.schema();
    let is_of = |expr: &Expr| type_of(expr, below.as_ref()).is_some_and(|of| is_interval(&of));
    let intervals: Vec<bool> = aggregate.group_expr.iter().map(is_of).collect();
    let has_sets = aggregate.group_expr.iter().any(|expr| matches!(expr, Expr::GroupingSet(_)));
    if has_sets || !intervals.contains(&true) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let (mut groups, mut calls) = (Vec::new(), aggregate.aggr_expr.clone());
    // The place of each column of the aggregate in the new one.
    let mut places: Vec<usize> = (0..aggregate.schema.fields().len()).collect();
    for (place, (expr, is_interval)) in aggregate.group_expr.iter().zip(&intervals).enumerate() {
        if !is_interval {
            groups.push(expr.clone());
            continue;
        }
        let value = expr.clone().unalias();
        groups.push(interval_key(value.clone()).alias(format!("interval key {place}")));
        places[place] = aggregate.group_expr.len() + calls.len();
        calls.push(first_value(value, vec![]).alias(format!("interval {place}")));
    }
    let keyed = Aggregate::try_new(Arc::clone(&aggregate.input), groups, calls)?;
    let columns = places.iter().enumerate().map(|(place, source)| {
        let (qualifier, field) = aggregate.schema.qualified_field(place);
        let column = Expr::from(keyed.schema.qualified_field(*source));
        match place == *source {
            true => column,
            false => column.alias_qualified(qualifier.cloned(), field.name()),
        }
    });
    let columns: Vec<Expr> = columns.collect();
    let projection = Projection::try_new(columns, Arc::new(LogicalPlan::Aggregate(keyed)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}
