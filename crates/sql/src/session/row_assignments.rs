//! Assignments of rows, written out as one assignment for each column.
//!
//! ```text
//! SET (a, b) = (1, DEFAULT)        ->  SET a = 1, b = DEFAULT
//! SET (a, b) = (SELECT x, y FROM u)  ->  SET a = (SELECT x FROM u), b = (SELECT y FROM u)
//! ```
//!
//! A query whose columns depend on each other, or on their places, becomes a relation of another:
//! `(SELECT "value 0" FROM (q) AS "row"("value 0", "value 1"))`.

use datafusion::sql::sqlparser::ast::{
    Assignment, AssignmentTarget, Expr, FunctionArg, FunctionArgExpr, FunctionArguments,
    GroupByExpr, Query, SelectItem, SetExpr, TableFactor,
};
use terrace_table::error::SqlError;

use super::dialect::parsed_query;
use super::refusal::refused;

/// Writes out the assignments of rows.
///
/// # Errors
/// [`SqlError::Refused`] for another number of values, and for an expression that is no row.
pub(super) fn write_out(assignments: &mut Vec<Assignment>) -> Result<(), SqlError> {
    let is_row = |assignment: &Assignment| matches!(assignment.target, AssignmentTarget::Tuple(_));
    if !assignments.iter().any(is_row) {
        return Ok(());
    }
    let mut written = Vec::new();
    for Assignment { target, value } in std::mem::take(assignments) {
        let columns = match target {
            AssignmentTarget::Tuple(columns) => columns,
            target @ AssignmentTarget::ColumnName(_) => {
                written.push(Assignment { target, value });
                continue;
            }
        };
        let text = value.to_string();
        let values = match value {
            Expr::Tuple(values) => values,
            Expr::Nested(value) => vec![*value],
            Expr::Subquery(query) => columns_of(&query, columns.len())?,
            Expr::Function(ref function) if is_row_call(&function.name.to_string()) => {
                values_of(&function.args)
            }
            _ => {
                let what = format!("an assignment of {text} to several columns");
                return Err(refused(
                    &what,
                    "say SET (a, b) = (1, 2), or one value for each column",
                ));
            }
        };
        if values.len() != columns.len() {
            return Err(miscounted(&text, columns.len()));
        }
        written.extend(columns.into_iter().zip(values).map(|(column, value)| Assignment {
            target: AssignmentTarget::ColumnName(column),
            value,
        }));
    }
    *assignments = written;
    Ok(())
}

fn is_row_call(name: &str) -> bool {
    name.eq_ignore_ascii_case("row")
}

/// The values of `ROW(1, 2)`.
fn values_of(arguments: &FunctionArguments) -> Vec<Expr> {
    let FunctionArguments::List(list) = arguments else { return Vec::new() };
    let value = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value.clone()),
        _ => None,
    };
    list.args.iter().filter_map(value).collect()
}

/// The columns of a query as subqueries of one column each.
fn columns_of(query: &Query, count: usize) -> Result<Vec<Expr>, SqlError> {
    if let Some(given) = width(query).filter(|given| *given != count) {
        return Err(miscounted(&format!("{given} columns of a query"), count));
    }
    let column = |place: usize| match single(query, place, count) {
        Some(single) => Ok(single),
        None => named(query, place, count),
    };
    let columns = (0..count).map(column);
    columns.map(|it| it.map(|it| Expr::Subquery(Box::new(it)))).collect()
}

/// The number of columns of a query that lists them.
fn width(query: &Query) -> Option<usize> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let is_plain = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
    };
    select.projection.iter().all(is_plain).then_some(select.projection.len())
}

fn miscounted(values: &str, columns: usize) -> SqlError {
    let what = format!("an assignment of {values} to {columns} columns");
    refused(&what, "number of columns does not match number of values")
}

/// The query with one of its columns, if the others do not matter.
fn single(query: &Query, place: usize, count: usize) -> Option<Query> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let is_grouped = !matches!(&select.group_by,
        GroupByExpr::Expressions(keys, modifiers) if keys.is_empty() && modifiers.is_empty());
    let depends = query.order_by.is_some() || select.distinct.is_some() || is_grouped;
    if depends || width(query) != Some(count) {
        return None;
    }
    let mut single = query.clone();
    if let SetExpr::Select(select) = single.body.as_mut() {
        select.projection = vec![select.projection.get(place)?.clone()];
    }
    Some(single)
}

/// A query for one of the columns of another.
fn named(query: &Query, place: usize, count: usize) -> Result<Query, SqlError> {
    let name = |place: usize| format!("\"value {place}\"");
    let names: Vec<_> = (0..count).map(name).collect();
    let names = names.join(", ");
    let text = format!("SELECT {} FROM (SELECT 1) AS \"row\"({names})", name(place));
    let mut outer = parsed_query(&text)?;
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let Some(from) = select.from.first_mut()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        **subquery = query.clone();
    }
    Ok(outer)
}
