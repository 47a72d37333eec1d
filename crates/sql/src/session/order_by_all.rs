//! `ORDER BY ALL`, which orders by every column of the result from left to right.
//!
//! DataFusion's planner takes columns of tables only. The positions of the select list stand for
//! any expression. A list with a plain `*` stays as it is; one with `* REPLACE`, `* RENAME` or
//! COLUMNS, whose columns are not known yet, becomes a subquery.

use std::mem;

use datafusion::sql::sqlparser::ast::{
    Expr, OrderByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, TableFactor, Value,
};

use super::dialect::parsed_query;

/// Rewrites the order of a query.
pub(super) fn write_out(query: &mut Query) {
    let Some(order) = &mut query.order_by else { return };
    let OrderByKind::All(options) = order.kind else { return };
    match columns(&query.body) {
        Some(columns) => {
            let key = |place: usize| OrderByExpr {
                expr: Expr::Value(Value::Number(place.to_string(), false).into()),
                options,
                with_fill: None,
            };
            order.kind = OrderByKind::Expressions((1..=columns).map(key).collect());
        }
        None => {
            if let SetExpr::Select(select) = query.body.as_ref()
                && select.projection.iter().any(is_open)
            {
                nest(&mut query.body);
            }
        }
    }
}

/// The number of columns of a result, if it is known.
pub(super) fn columns(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let is_one = |item: &SelectItem| {
                matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
                    && !is_open(item)
            };
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        SetExpr::SetOperation { left, .. } => columns(left),
        SetExpr::Query(query) => columns(&query.body),
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ => None,
    }
}

/// True for an item that is written out later: COLUMNS, and a star with other columns than those of
/// its tables.
fn is_open(item: &SelectItem) -> bool {
    match item {
        SelectItem::Wildcard(options) | SelectItem::QualifiedWildcard(_, options) => {
            options.opt_rename.is_some()
                || options.opt_replace.is_some()
                || options.opt_ilike.is_some()
        }
        item => item.to_string().to_ascii_lowercase().contains("columns("),
    }
}

/// Makes a SELECT the subquery of one of all its columns.
pub(super) fn nest(body: &mut Box<SetExpr>) {
    // The texts are queries.
    let Ok(mut outer) = parsed_query("SELECT * FROM (SELECT 1) AS \"ordered rows\"") else {
        return;
    };
    let SetExpr::Select(select) = outer.body.as_mut() else { return };
    if let Some(subquery) = subquery(select) {
        mem::swap(&mut subquery.body, body);
        *body = outer.body;
    }
}

/// The subquery of FROM.
fn subquery(select: &mut Select) -> Option<&mut Query> {
    match &mut select.from.first_mut()?.relation {
        TableFactor::Derived { subquery, .. } => Some(subquery),
        _ => None,
    }
}
