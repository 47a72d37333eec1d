//! Rewrites correlated subqueries that return one value: DataFusion plans them only if they
//! aggregate, and if they refer to the outer query only in equalities with their own columns.
//!
//! - The value becomes `max(value)`. The catalog's subqueries return at most one value.
//! - A condition on columns of the outer query alone moves out: `(SELECT v WHERE inner AND outer)`
//!   becomes `CASE WHEN outer THEN (SELECT v WHERE inner) END`.
//! - In other conditions, a column of the outer query is replaced by the column of the subquery
//!   that a condition equates it with: `i.a = o.a AND o.a <> i.b` becomes `i.a = o.a AND i.a <>
//!   i.b`.

use std::collections::HashSet;
use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, Expr, Query, Select, SelectItem, SetExpr, TableFactor, TableWithJoins, Value,
    VisitorMut,
};
use terrace_sql::session::{Walk, call};

use super::names::{folded, last};
use super::tree::{expression, factors, null, take};

/// Aggregate functions: a subquery that calls one returns one value already.
const AGGREGATES: &[&str] = &[
    "array_agg",
    "avg",
    "bool_and",
    "bool_or",
    "count",
    "every",
    "max",
    "min",
    "string_agg",
    "sum",
];

/// Rewrites a correlated scalar subquery; leaves any other expression unchanged.
pub(super) fn of_one_value(expr: &mut Expr) {
    if let Some(value) = of_outer_columns(expr) {
        *expr = value;
        return;
    }
    let Expr::Subquery(query) = &mut *expr else { return };
    let Some(outside) = decorrelate(query) else { return };
    if outside.is_empty() {
        return;
    }
    let condition = joined(outside);
    let subquery = take(expr);
    if let Some(case) = case(condition, subquery) {
        *expr = case;
    }
}

/// If only the selected value refers to the outer query, returns that value with each column of the
/// subquery's own tables replaced by a subquery: `(SELECT i.a OR i.b = o.c FROM i WHERE i.d)`
/// becomes `(SELECT i.a FROM i WHERE i.d) OR (SELECT i.b FROM i WHERE i.d) = o.c`.
fn of_outer_columns(expr: &Expr) -> Option<Expr> {
    let Expr::Subquery(query) = expr else { return None };
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let own = names(&select.from)?;
    let conditions = select.selection.clone().map(split).unwrap_or_default();
    let is_correlated = conditions.iter().any(|condition| !outer(condition, &own).is_empty());
    let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] =
        select.projection.as_slice()
    else {
        return None;
    };
    if is_correlated || own.is_empty() || outer(value, &own).is_empty() || aggregates(value) {
        return None;
    }
    let mut value = value.clone();
    let _ = value.walk(&mut OwnColumns { query, own: &own });
    Some(Expr::Nested(Box::new(value)))
}

/// A visitor that replaces each of the subquery's own columns by a subquery.
struct OwnColumns<'a> {
    query: &'a Query,
    own: &'a HashSet<String>,
}

impl VisitorMut for OwnColumns<'_> {
    type Break = ();

    /// Works after the visit, so that the inserted subquery is not visited.
    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if matches!(expr, Expr::CompoundIdentifier(_)) && is_own(expr, self.own) {
            let mut query = self.query.clone();
            if let SetExpr::Select(select) = query.body.as_mut() {
                let column = call("max", [take(expr)]);
                select.projection = vec![SelectItem::UnnamedExpr(column)];
            }
            *expr = Expr::Subquery(Box::new(query));
        }
        ControlFlow::Continue(())
    }
}

/// Rewrites the subquery. Returns the conditions that move out of it; `None` if the query is not
/// correlated, or not a plain SELECT.
fn decorrelate(query: &mut Query) -> Option<Vec<Expr>> {
    let SetExpr::Select(select) = query.body.as_mut() else { return None };
    let own = names(&select.from)?;
    let condition = select.selection.clone()?;
    let conditions = split(condition);
    if conditions.iter().all(|condition| outer(condition, &own).is_empty()) {
        return None;
    }
    let is_inner = |condition: &Expr| columns(condition).iter().any(|column| is_own(column, &own));
    let is_outside = |condition: &Expr| !columns(condition).is_empty() && !is_inner(condition);
    let (outside, mut inside): (Vec<Expr>, Vec<Expr>) =
        conditions.into_iter().partition(is_outside);
    let equals: Vec<(String, Expr)> =
        inside.iter().filter_map(|condition| equation(condition, &own)).collect();
    for condition in &mut inside {
        if equation(condition, &own).is_none() {
            substitute(condition, &equals);
        }
    }
    select.selection = (!inside.is_empty()).then(|| joined(inside));
    aggregate(select, &equals);
    query.order_by = None;
    query.limit_clause = None;
    Some(outside)
}

/// Makes the subquery return one value.
fn aggregate(select: &mut Select, equals: &[(String, Expr)]) {
    let [SelectItem::UnnamedExpr(value) | SelectItem::ExprWithAlias { expr: value, .. }] =
        select.projection.as_mut_slice()
    else {
        return;
    };
    substitute(value, equals);
    if !aggregates(value) {
        *value = call("max", [take(value)]);
    } else if matches!(value, Expr::Function(function) if last(&function.name) == "count") {
        // The join may yield null, which DataFusion assumes that a count never is.
        let none = Expr::Value(Value::Number("-1".to_owned(), false).into());
        *value = call("nullif", [take(value), none]);
    }
}

/// True for a SELECT with an aggregate function, which returns a row even over no rows.
pub(super) fn is_aggregate(select: &Select) -> bool {
    select.projection.iter().any(|item| match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => aggregates(expr),
        _ => false,
    })
}

fn aggregates(expr: &Expr) -> bool {
    let mut found = false;
    let _ = expr.clone().walk(&mut Each(|expr: &mut Expr| {
        if let Expr::Function(function) = expr {
            found |= AGGREGATES.contains(&last(&function.name).as_str());
        }
    }));
    found
}

/// Returns the names of the tables in a FROM clause; `None` if one is neither a plain table nor a
/// named subquery.
fn names(from: &[TableWithJoins]) -> Option<HashSet<String>> {
    let tables = factors(from);
    let name = |table: &TableFactor| match table {
        TableFactor::Table { name, alias, args: None, .. } => {
            Some(alias.as_ref().map_or_else(|| last(name), |alias| folded(&alias.name)))
        }
        TableFactor::Derived { alias: Some(alias), .. } => Some(folded(&alias.name)),
        _ => None,
    };
    tables.map(name).collect()
}

/// Returns the columns of an expression, including those in its subqueries.
fn columns(expr: &Expr) -> Vec<Expr> {
    let mut columns = Vec::new();
    let mut copy = expr.clone();
    let _ = copy.walk(&mut Each(|expr: &mut Expr| {
        if matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_)) {
            columns.push(expr.clone());
        }
    }));
    columns
}

/// True for a column of the subquery's own tables; an unqualified column counts as one.
fn is_own(column: &Expr, own: &HashSet<String>) -> bool {
    let Expr::CompoundIdentifier(parts) = column else { return true };
    let table = parts.iter().rev().nth(1).map(folded);
    table.is_none_or(|table| own.contains(&table))
}

/// Returns the columns of the outer query in an expression.
fn outer(expr: &Expr, own: &HashSet<String>) -> Vec<Expr> {
    columns(expr).into_iter().filter(|column| !is_own(column, own)).collect()
}

/// Returns the outer column of an equality and the own column that it is equal to.
fn equation(condition: &Expr, own: &HashSet<String>) -> Option<(String, Expr)> {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = condition else { return None };
    let is_column = |expr: &Expr| matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_));
    if !is_column(left) || !is_column(right) {
        return None;
    }
    match (is_own(left, own), is_own(right, own)) {
        (true, false) => Some((right.to_string(), left.as_ref().clone())),
        (false, true) => Some((left.to_string(), right.as_ref().clone())),
        _ => None,
    }
}

/// Replaces each outer column in `expr` by the own column that `equals` has for it.
fn substitute(expr: &mut Expr, equals: &[(String, Expr)]) {
    let _ = expr.walk(&mut Each(|expr: &mut Expr| {
        if !matches!(expr, Expr::CompoundIdentifier(_)) {
            return;
        }
        let name = expr.to_string();
        if let Some((_, equal)) = equals.iter().find(|(outer, _)| *outer == name) {
            *expr = equal.clone();
        }
    }));
}

/// Splits a conjunction into its operands.
fn split(condition: Expr) -> Vec<Expr> {
    match condition {
        Expr::BinaryOp { left, op: BinaryOperator::And, right } => {
            let mut conditions = split(*left);
            conditions.extend(split(*right));
            conditions
        }
        Expr::Nested(inner) if matches!(*inner, Expr::BinaryOp { op: BinaryOperator::And, .. }) => {
            split(*inner)
        }
        condition => vec![condition],
    }
}

/// Joins conditions into a conjunction.
fn joined(conditions: Vec<Expr>) -> Expr {
    let and = |left, right| Expr::BinaryOp {
        left: Box::new(left),
        op: BinaryOperator::And,
        right: Box::new(right),
    };
    conditions.into_iter().reduce(and).unwrap_or_else(null)
}

fn case(condition: Expr, subquery: Expr) -> Option<Expr> {
    let mut case = expression("CASE WHEN true THEN NULL END")?;
    let Expr::Case { conditions, .. } = &mut case else { return None };
    let first = conditions.first_mut()?;
    first.condition = condition;
    first.result = subquery;
    Some(case)
}

/// A visitor that calls a function for each expression.
struct Each<F>(F);

impl<F: FnMut(&mut Expr)> VisitorMut for Each<F> {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        (self.0)(expr);
        ControlFlow::Continue(())
    }
}
