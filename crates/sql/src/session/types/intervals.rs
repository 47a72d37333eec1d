//! Sorts and groups by intervals, which are equal if their durations are: `1 month` and `30 days`;
//! and by JSONB, whose numbers are equal if their values are: `1` and `1.0`.
//!
//! The rows are grouped by a key of these values; the group's column shows one of the values. COPY
//! to a file writes intervals as texts.

use std::sync::Arc;

use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result};
use datafusion::functions_aggregate::expr_fn::first_value;
use datafusion::logical_expr::logical_plan::{Aggregate, DistinctOn, Projection};
use datafusion::logical_expr::{
    Distinct, Expr, GroupingSet, LogicalPlan, LogicalPlanBuilder, when,
};
use terrace_functions::columns::readable_text;

use super::kinds::{has_key, is_interval, key_of};
use super::ordering::{of_order, to_key};

/// Rewrites a node over rows of `schema`.
///
/// # Errors
/// Errors of planning.
pub(super) fn of_node(plan: LogicalPlan, schema: &DFSchema) -> Result<Transformed<LogicalPlan>> {
    if !schema.fields().iter().any(|field| has_key(field)) {
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

/// Groups by keys instead of the values, and returns one value of each group.
fn of_groups(aggregate: Aggregate) -> Result<Transformed<LogicalPlan>> {
    if let [Expr::GroupingSet(set)] = aggregate.group_expr.as_slice() {
        let set = set.clone();
        return of_grouping_sets(aggregate, set);
    }
    let below = aggregate.input.schema();
    let key_of = |expr: &Expr| key_of(expr, below.as_ref());
    let keys: Vec<_> = aggregate.group_expr.iter().map(key_of).collect();
    if keys.iter().all(Option::is_none) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let (mut groups, mut calls) = (Vec::new(), aggregate.aggr_expr.clone());
    // The place of each column of the aggregate in the new one.
    let mut places: Vec<usize> = (0..aggregate.schema.fields().len()).collect();
    for (place, (expr, key)) in aggregate.group_expr.iter().zip(&keys).enumerate() {
        let Some(key) = key else {
            groups.push(expr.clone());
            continue;
        };
        let value = expr.clone().unalias();
        groups.push(key(value.clone()).alias(format!("key {place}")));
        places[place] = aggregate.group_expr.len() + calls.len();
        calls.push(first_value(value, vec![]).alias(format!("value {place}")));
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

/// As [`of_groups`], for ROLLUP, CUBE and GROUPING SETS.
fn of_grouping_sets(aggregate: Aggregate, set: GroupingSet) -> Result<Transformed<LogicalPlan>> {
    let below = Arc::clone(aggregate.input.schema());
    let exprs: Vec<Expr> = set.distinct_expr().into_iter().cloned().collect();
    if exprs.iter().all(|expr| key_of(expr, below.as_ref()).is_none()) {
        return Ok(Transformed::no(LogicalPlan::Aggregate(aggregate)));
    }
    let to_keys = |exprs: Vec<Expr>| -> Vec<Expr> {
        let to_key = |mut expr: Expr| {
            to_key(&mut expr, below.as_ref());
            expr
        };
        exprs.into_iter().map(to_key).collect()
    };
    let set = match set {
        GroupingSet::Rollup(exprs) => GroupingSet::Rollup(to_keys(exprs)),
        GroupingSet::Cube(exprs) => GroupingSet::Cube(to_keys(exprs)),
        GroupingSet::GroupingSets(sets) => {
            GroupingSet::GroupingSets(sets.into_iter().map(to_keys).collect())
        }
    };
    let mut calls = aggregate.aggr_expr.clone();
    for call in &mut calls {
        // The arguments of `grouping` are values of the sets.
        if let Expr::AggregateFunction(call) = call
            && call.func.name() == "grouping"
        {
            call.params.args = to_keys(std::mem::take(&mut call.params.args));
        }
    }
    let mut columns: Vec<Option<usize>> = vec![None; aggregate.schema.fields().len()];
    // The groups, their number, and the calls.
    let first = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
    for (place, value) in exprs.into_iter().enumerate() {
        if key_of(&value, below.as_ref()).is_some() {
            columns[place] = Some(first + calls.len());
            calls.push(first_value(value, vec![]).alias(format!("value {place}")));
        }
    }
    let input = Arc::clone(&aggregate.input);
    let keyed = Aggregate::try_new(input, vec![Expr::GroupingSet(set)], calls)?;
    let of_keyed = |place: usize| Expr::from(keyed.schema.qualified_field(place));
    // Nothing but `grouping`, which is resolved below, reads the number of the set.
    let columns = columns.iter().enumerate().filter(|(place, _)| *place != first - 1);
    let columns = columns.map(|(place, value)| {
        let (qualifier, field) = aggregate.schema.qualified_field(place);
        let column = match value {
            // Rows of a set without the value have no key.
            Some(value) => when(of_keyed(place).is_not_null(), of_keyed(*value)).end()?,
            None if keyed.schema.qualified_field(place) == (qualifier, field) => {
                return Ok(of_keyed(place));
            }
            None => of_keyed(place),
        };
        Ok(column.alias_qualified(qualifier.cloned(), field.name()))
    });
    let columns: Vec<Expr> = columns.collect::<Result<_>>()?;
    let projection = Projection::try_new(columns, Arc::new(LogicalPlan::Aggregate(keyed)))?;
    Ok(Transformed::yes(LogicalPlan::Projection(projection)))
}
