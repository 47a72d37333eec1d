//! `ORDER BY ALL`, which orders by every column of the result from left to right.
//!
//! DataFusion's planner takes columns of tables only. The positions of the select list stand for
//! any expression; a list with a `*` stays as it is.

use datafusion::sql::sqlparser::ast::{
    Expr, OrderByExpr, OrderByKind, Query, SelectItem, SetExpr, Value,
};

/// Rewrites the order of a query.
pub(super) fn write_out(query: &mut Query) {
    let Some(columns) = columns(&query.body) else { return };
    let Some(order) = &mut query.order_by else { return };
    let OrderByKind::All(options) = order.kind else { return };
    let key = |place: usize| OrderByExpr {
        expr: Expr::Value(Value::Number(place.to_string(), false).into()),
        options,
        with_fill: None,
    };
    order.kind = OrderByKind::Expressions((1..=columns).map(key).collect());
}

/// The number of columns of a result, if its select list has no `*`.
fn columns(body: &SetExpr) -> Option<usize> {
    match body {
        SetExpr::Select(select) => {
            let is_one = |item: &SelectItem| {
                matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
            };
            select.projection.iter().all(is_one).then_some(select.projection.len())
        }
        SetExpr::SetOperation { left, .. } => columns(left),
        SetExpr::Query(query) => columns(&query.body),
        SetExpr::Values(values) => values.rows.first().map(|row| row.content.len()),
        _ => None,
    }
}
