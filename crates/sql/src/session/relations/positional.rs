//! POSITIONAL JOIN: pairs the rows of two relations by their place.
//!
//! ```text
//! (SELECT *, row_number() OVER () FROM a) FULL JOIN (SELECT *, row_number() OVER () FROM b)
//! ```
//! A place is that of the ORDER BY of a subquery, or else of the scan, whose partitions come in any
//! order. Nulls stand for the rows that the shorter relation lacks.

use std::sync::Arc;

use datafusion::common::{Column, DFSchema, JoinType, Result, TableReference};
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::planner::RelationPlannerContext;
use datafusion::logical_expr::sqlparser::ast::{Expr as SqlExpr, TableAlias, TableFactor};
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder};

use super::columns::{self, window};

/// Names of the columns of places.
const PLACES: [&str; 2] = ["place on the left", "place on the right"];

/// Plans the join.
///
/// # Errors
/// Errors of planning a side.
pub(super) fn plan(
    left: TableFactor,
    right: TableFactor,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let left = numbered(left, PLACES[0], context)?;
    let right = numbered(right, PLACES[1], context)?;
    let outputs: Vec<_> = [&left, &right]
        .into_iter()
        .flat_map(|side| side.schema().columns())
        .filter(|column| column.relation.is_some() || !PLACES.contains(&column.name.as_str()))
        .map(Expr::Column)
        .collect();
    let [on_left, on_right] = PLACES.map(Column::from_name);
    LogicalPlanBuilder::from(left)
        .join(right, JoinType::Full, (vec![on_left], vec![on_right]), None)?
        .project(outputs)?
        .build()
}

/// A relation with the numbers of its rows.
fn numbered(
    relation: TableFactor,
    place: &str,
    context: &mut dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    match relation {
        TableFactor::Derived { lateral: false, subquery, alias, sample: None }
            if subquery.order_by.is_some() =>
        {
            // The planner drops the order of a subquery in FROM, but not of one in an expression.
            let exists = SqlExpr::Exists { subquery, negated: false };
            match context.sql_to_expr(exists, &DFSchema::empty())? {
                Expr::Exists(exists) => {
                    let plan = Arc::unwrap_or_clone(exists.subquery.subquery);
                    let outputs = plan.schema().columns();
                    let plan = with_places(plan, place, context)?;
                    renamed(plan, outputs, place, alias, context)
                }
                other => datafusion::common::internal_err!("{other} is not EXISTS"),
            }
        }
        relation => {
            let plan = context.plan(relation)?;
            with_places(plan, place, context)
        }
    }
}

/// Adds the numbers of the rows in the order of a plan, which may be below its projection.
fn with_places(
    plan: LogicalPlan,
    place: &str,
    context: &dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let number = |input: LogicalPlan, order: Vec<Sort>| {
        let number = window("row_number", vec![], vec![], order, context)?;
        columns::with_window(input, number.alias(place))
    };
    match plan {
        LogicalPlan::Sort(sort) if sort.fetch.is_none() => {
            number(Arc::unwrap_or_clone(sort.input), sort.expr)
        }
        LogicalPlan::Projection(projection) if is_sort(&projection.input) => {
            let input = with_places(Arc::unwrap_or_clone(projection.input), place, context)?;
            let mut items = projection.expr;
            items.push(Expr::Column(Column::from_name(place)));
            LogicalPlanBuilder::from(input).project(items)?.build()
        }
        plan => number(plan, Vec::new()),
    }
}

/// Gives the columns of a subquery the names of its alias.
fn renamed(
    plan: LogicalPlan,
    outputs: Vec<Column>,
    place: &str,
    alias: Option<TableAlias>,
    context: &dyn RelationPlannerContext,
) -> Result<LogicalPlan> {
    let Some(alias) = alias else { return Ok(plan) };
    let table = TableReference::bare(context.normalize_ident(alias.name));
    let mut names = alias.columns.into_iter().map(|column| context.normalize_ident(column.name));
    let mut items: Vec<_> = outputs
        .into_iter()
        .map(|column| {
            let name = names.next().unwrap_or_else(|| column.name.clone());
            Expr::Column(column).alias_qualified(Some(table.clone()), name)
        })
        .collect();
    items.push(Expr::Column(Column::from_name(place)));
    LogicalPlanBuilder::from(plan).project(items)?.build()
}

/// True for a sort of all rows.
fn is_sort(plan: &LogicalPlan) -> bool {
    matches!(plan, LogicalPlan::Sort(sort) if sort.fetch.is_none())
}
