//! Simplifies queries over relations that never have rows, since the database has no such objects.
//!
//! A subquery over such a relation has no value, and a column of such a query is never computed. So
//! subqueries in them that DataFusion cannot plan are replaced.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    BinaryOperator, CaseWhen, Expr, FunctionArguments, JoinConstraint, JoinOperator, Query, Select,
    SelectItem, SetExpr, TableFactor, TableWithJoins, Value, ValueWithSpan, VisitorMut,
};
use terrace_sql::session::Walk;

use super::names::{SETS, folded, is_of_catalog, last};
use super::tree::{found, null};
use super::{subqueries, tables as tables_of};
use crate::pg_catalog::schemas::SCHEMA;
use crate::pg_catalog::{definition, tables, types};

/// True for a scalar subquery that has no value: a plain SELECT over a relation without rows.
pub(super) fn has_no_value(query: &Query) -> bool {
    match query.body.as_ref() {
        SetExpr::Select(select) => has_no_rows(select) && !subqueries::is_aggregate(select),
        _ => false,
    }
}

/// True for a SELECT that has no rows because a relation in its FROM has none.
pub(super) fn has_no_rows(select: &Select) -> bool {
    select.from.iter().any(is_empty)
}

fn is_empty(from: &TableWithJoins) -> bool {
    let mut empty = never_has_rows(&from.relation);
    for join in &from.joins {
        let right = never_has_rows(&join.relation);
        empty = match join.join_operator {
            JoinOperator::Join(_) | JoinOperator::Inner(_) | JoinOperator::CrossJoin(_) => {
                empty || right
            }
            JoinOperator::Left(_) | JoinOperator::LeftOuter(_) => empty,
            JoinOperator::Right(_) | JoinOperator::RightOuter(_) => right,
            _ => empty && right,
        };
    }
    empty
}

fn never_has_rows(table: &TableFactor) -> bool {
    let TableFactor::Table { name, args: None, .. } = table else { return false };
    // A table of the same name in another schema may have rows.
    let is_own = name.0.len() == 1 || is_of_catalog(name);
    let known = definition::find(&last(name)).filter(|of| of.schema == SCHEMA);
    is_own && known.is_some_and(|of| tables::is_empty(of.name))
}

/// Removes subqueries, and functions over columns of other tables, from a query that never has
/// rows.
pub(super) fn columns(select: &mut Select) {
    if !has_no_rows(select) {
        return;
    }
    for from in &mut select.from {
        for join in &mut from.joins {
            computed(&mut join.relation);
            if let JoinOperator::Join(JoinConstraint::On(condition))
            | JoinOperator::Inner(JoinConstraint::On(condition))
            | JoinOperator::Left(JoinConstraint::On(condition))
            | JoinOperator::LeftOuter(JoinConstraint::On(condition)) = &mut join.join_operator
            {
                never_met(condition);
            }
        }
    }
    select.selection.iter_mut().for_each(never_met);
    for item in &mut select.projection {
        let (SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. }) = item else {
            continue;
        };
        if expr.walk(&mut Unplanned).is_break() {
            *expr = null();
        }
    }
}

/// Replaces a join condition that contains a subquery by false, which changes nothing: the query
/// has no rows.
fn never_met(condition: &mut Expr) {
    if condition.walk(&mut Unplanned).is_break() {
        *condition = Expr::Value(Value::Boolean(false).into());
    }
}

/// Replaces a function over columns of other tables by a table whose columns have the same names
/// and no values.
fn computed(table: &mut TableFactor) {
    let (columns, alias) = match table {
        TableFactor::UNNEST { alias: Some(alias), with_ordinality: true, .. } => {
            let names = alias.columns.iter().map(|column| column.name.to_string());
            let columns = names.map(|name| format!("CAST(NULL AS BIGINT) AS {name}"));
            (columns.collect::<Vec<_>>().join(", "), alias)
        }
        TableFactor::Table { name, alias: Some(alias), args: Some(_), .. }
            if last(name).ends_with("_has_property") && alias.columns.is_empty() =>
        {
            (format!("CAST(NULL AS BOOLEAN) AS {}", alias.name), alias)
        }
        _ => return,
    };
    let mut alias = alias.clone();
    alias.columns.clear();
    if let Some(derived) = tables_of::derived(&format!("SELECT {columns}"), Some(alias)) {
        *table = derived;
    }
}

/// Removes subqueries from branches of a CASE for kinds of types that the database does not have,
/// such as `WHEN t.typtype = 'd'` for domains.
pub(super) fn branches(expr: &mut Expr) {
    let Expr::Case { operand: None, conditions, .. } = expr else { return };
    for CaseWhen { condition, result } in conditions {
        if is_of_no_type(condition) && matches!(result, Expr::Subquery(_)) {
            *result = null();
        }
    }
}

fn is_of_no_type(condition: &Expr) -> bool {
    let Expr::BinaryOp { left, op: BinaryOperator::Eq, right } = condition else { return false };
    let column = match left.as_ref() {
        Expr::Identifier(name) => Some(name),
        Expr::CompoundIdentifier(parts) => parts.last(),
        _ => None,
    };
    let Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(kind), .. }) = right.as_ref()
    else {
        return false;
    };
    column.is_some_and(|name| folded(name) == "typtype") && !types::has_kind(kind)
}

/// A visitor that breaks at the first subquery, or call of a function that returns several rows.
struct Unplanned;

impl VisitorMut for Unplanned {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        found(match expr {
            Expr::Subquery(_) | Expr::Exists { .. } | Expr::InSubquery { .. } => true,
            Expr::Function(function) => {
                matches!(function.args, FunctionArguments::Subquery(_))
                    || SETS.contains(&last(&function.name).as_str())
            }
            _ => false,
        })
    }
}
