//! Columns that have the same values each time a plan is evaluated.
//!
//! Outer rows are evaluated once for themselves and once for the domain of a subquery. If the two
//! differed in a column of the domain, rows would find no match. The order of rows is not part of a
//! plan's result: whatever depends on it may differ.

use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Column, DFSchema, Result, not_impl_err};
use datafusion::logical_expr::logical_plan::{Aggregate, Distinct, Window};
use datafusion::logical_expr::{Expr, ExprSchemable as _, LogicalPlan, WindowFunctionDefinition};

use super::once::is_once;

/// Aggregates that depend on neither the order of rows nor on how they are split among threads.
const EXACT: [&str; 9] = [
    "min",
    "max",
    "count",
    "bool_and",
    "bool_or",
    "bit_and",
    "bit_or",
    "bit_xor",
    "approx_distinct",
];

/// Aggregates that are exact but over floating-point numbers, whose additions round.
const EXACT_SUMS: [&str; 2] = ["sum", "avg"];

/// True if a plan returns the same rows each time it is evaluated.
pub(in super::super) fn is_repeatable(plan: &LogicalPlan) -> bool {
    let mut is_volatile = false;
    let searched = plan.apply_with_subqueries(|node| {
        if is_once(node) {
            return Ok(TreeNodeRecursion::Jump);
        }
        is_volatile |= node.expressions().iter().any(Expr::is_volatile);
        Ok(if is_volatile { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    });
    searched.is_ok() && !is_volatile && check(plan, &plan.schema().columns()).is_ok()
}

/// Refuses a plan whose `columns` could differ the next time it is evaluated.
///
/// # Errors
/// Names the construct that makes them differ.
pub(super) fn check(plan: &LogicalPlan, columns: &[Column]) -> Result<()> {
    match plan {
        LogicalPlan::Projection(projection) => {
            let exprs = picked(plan.schema(), columns, &projection.expr)?;
            if exprs.iter().any(|expr| expr.is_volatile()) {
                return refuse("a volatile function");
            }
            check(&projection.input, &columns_of(exprs))
        }
        LogicalPlan::Filter(filter) if filter.predicate.is_volatile() => {
            refuse("a volatile function")
        }
        LogicalPlan::Filter(filter) => {
            let all = columns.iter().cloned().chain(columns_of([&filter.predicate]));
            check(&filter.input, &all.collect::<Vec<_>>())
        }
        LogicalPlan::SubqueryAlias(alias) => check_inputs(plan, [alias.input.as_ref()], columns),
        LogicalPlan::Union(union) => {
            check_inputs(plan, union.inputs.iter().map(AsRef::as_ref), columns)
        }
        LogicalPlan::Distinct(Distinct::All(input)) => {
            check_inputs(plan, [input.as_ref()], columns)
        }
        LogicalPlan::Distinct(Distinct::On(_)) => refuse("DISTINCT ON"),
        LogicalPlan::Limit(_) => refuse("LIMIT"),
        LogicalPlan::Sort(sort) => check(&sort.input, columns),
        plan if is_once(plan) => Ok(()),
        LogicalPlan::Aggregate(aggregate) => check_groups(aggregate, columns),
        LogicalPlan::Window(window) => check_window(window, columns),
        plan => {
            let inputs = plan.inputs();
            let exprs = plan.expressions();
            let own = columns.iter().cloned().chain(columns_of(&exprs));
            let own: Vec<Column> = own.collect();
            inputs.into_iter().try_for_each(|input| {
                let has = |column: &&Column| input.schema().has_column(column);
                check(input, &own.iter().filter(has).cloned().collect::<Vec<_>>())
            })
        }
    }
}

fn refuse(construct: &str) -> Result<()> {
    not_impl_err!(
        "a correlated subquery that names a column computed by {construct}, which may have other \
         values each time it is evaluated; store the outer rows in a table first"
    )
}

fn columns_of<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> Vec<Column> {
    exprs.into_iter().flat_map(Expr::column_refs).cloned().collect()
}

/// The expressions behind columns of a schema.
fn picked<'a>(schema: &DFSchema, columns: &[Column], exprs: &'a [Expr]) -> Result<Vec<&'a Expr>> {
    columns.iter().map(|column| Ok(&exprs[schema.index_of_column(column)?])).collect()
}

/// Checks inputs whose columns have the same places as those of the plan.
fn check_inputs<'a>(
    plan: &LogicalPlan,
    inputs: impl IntoIterator<Item = &'a LogicalPlan>,
    columns: &[Column],
) -> Result<()> {
    let places = columns.iter().map(|column| plan.schema().index_of_column(column));
    let places = places.collect::<Result<Vec<_>>>()?;
    inputs.into_iter().try_for_each(|input| {
        let schema = input.schema();
        let columns = places.iter().map(|&place| Column::from(schema.qualified_field(place)));
        check(input, &columns.collect::<Vec<_>>())
    })
}

fn check_groups(aggregate: &Aggregate, columns: &[Column]) -> Result<()> {
    let keys = aggregate.schema.fields().len() - aggregate.aggr_expr.len();
    let mut exprs: Vec<&Expr> = aggregate.group_expr.iter().collect();
    for column in columns {
        let place = aggregate.schema.index_of_column(column)?;
        if let Some(place) = place.checked_sub(keys) {
            let expr = &aggregate.aggr_expr[place];
            if !is_exact(expr, aggregate.input.schema()) {
                return refuse(&expr.schema_name().to_string());
            }
            exprs.push(expr);
        }
    }
    if exprs.iter().any(|expr| expr.is_volatile()) {
        return refuse("a volatile function");
    }
    check(&aggregate.input, &columns_of(exprs))
}

fn is_exact(expr: &Expr, input: &DFSchema) -> bool {
    let Expr::AggregateFunction(call) = expr.clone().unalias() else { return false };
    let is_float = |arg: &Expr| arg.get_type(input).map_or(true, |kind| kind.is_floating());
    let name = call.func.name();
    EXACT.contains(&name) || (EXACT_SUMS.contains(&name) && !call.params.args.iter().any(is_float))
}

fn check_window(window: &Window, columns: &[Column]) -> Result<()> {
    let inputs = window.input.schema().fields().len();
    let mut below = Vec::new();
    let mut numbered = Vec::new();
    for column in columns {
        match window.schema.index_of_column(column)?.checked_sub(inputs) {
            None => below.push(column.clone()),
            Some(place) => numbered.push(&window.window_expr[place]),
        }
    }
    for expr in numbered {
        let Expr::WindowFunction(call) = expr.clone().unalias() else {
            return refuse(&expr.schema_name().to_string());
        };
        let keys = call.params.partition_by.iter();
        let keys = keys.chain(call.params.order_by.iter().map(|sort| &sort.expr));
        let keys = columns_of(keys);
        let is_repeatable = match &call.fun {
            WindowFunctionDefinition::WindowUDF(function) => match function.name() {
                "rank" | "dense_rank" => true,
                // Rows with equal keys get their numbers in any order.
                "row_number" => below.iter().all(|column| keys.contains(column)),
                _ => false,
            },
            WindowFunctionDefinition::AggregateUDF(_) => false,
        };
        if !is_repeatable {
            return refuse(&expr.schema_name().to_string());
        }
        below.extend(keys);
    }
    check(&window.input, &below)
}
