//! Moves subqueries from places where DataFusion plans none: ORDER BY, under DISTINCT ON, and after
//! IN outside of conditions.

use std::ops::ControlFlow;

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, OrderByKind, Query, Select, SelectItem, SelectItemQualifiedWildcardKind,
    SetExpr, Value, VisitorMut,
};
use terrace_sql::session::Walk;

use super::names::last;
use super::system;
use super::tree::{expression, factors, has_subquery, query as query_of};
use crate::pg_catalog::definition::Column;

/// Computes keys of ORDER BY that contain subqueries in an inner query: `SELECT a FROM t ORDER BY
/// (SELECT ...)` becomes `SELECT a FROM (SELECT a, (SELECT ...) AS key_1 FROM t) ORDER BY key_1`.
pub(super) fn sorted(query: &mut Query) {
    let Some(order) = &mut query.order_by else { return };
    let OrderByKind::Expressions(keys) = &mut order.kind else { return };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    if !keys.iter_mut().any(|key| has_subquery(&mut key.expr)) {
        return;
    }
    let names: Option<Vec<Ident>> = select.projection.iter().map(name).collect();
    let Some(names) = names.filter(|_| select.distinct.is_none()) else { return };
    for (key, number) in keys.iter_mut().zip(1..) {
        let is_column = match &key.expr {
            Expr::Value(value) => matches!(value.value, Value::Number(..)),
            Expr::Identifier(key) => names.contains(key),
            _ => false,
        };
        if !is_column {
            let alias = Ident::with_quote('"', format!("key_{number}"));
            let expr = std::mem::replace(&mut key.expr, Expr::Identifier(alias.clone()));
            select.projection.push(SelectItem::ExprWithAlias { expr, alias });
        }
    }
    let names = names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let text = format!("SELECT {names} FROM ({select}) AS \"keyed\"");
    if let Some(outer) = query_of(&text) {
        query.body = outer.body;
    }
}

/// Moves columns that contain subqueries into an inner query, below a DISTINCT ON.
pub(super) fn distinct(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(Distinct::On(keys)) = &select.distinct else { return };
    if !select.projection.iter_mut().any(has_subquery) {
        return;
    }
    let keys = keys.clone();
    let mut items = Vec::new();
    for item in &select.projection {
        items.extend(written_out(item, select));
    }
    let names: Option<Vec<Ident>> = items.iter().map(name).collect();
    let Some(names) = names else { return };
    let aliases: Vec<Ident> =
        (1..=keys.len()).map(|number| Ident::with_quote('"', format!("key_{number}"))).collect();
    if let Some(order) = &mut query.order_by
        && let OrderByKind::Expressions(orders) = &mut order.kind
    {
        for order in orders {
            let Some(at) = keys.iter().position(|key| *key == order.expr) else { return };
            let Some(alias) = aliases.get(at) else { return };
            order.expr = Expr::Identifier(alias.clone());
        }
    }
    let of_key =
        |(expr, alias): (Expr, &Ident)| SelectItem::ExprWithAlias { expr, alias: alias.clone() };
    items.extend(keys.into_iter().zip(&aliases).map(of_key));
    select.projection = items;
    select.distinct = None;
    let list =
        |names: &[Ident]| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let (names, keys) = (list(&names), list(&aliases));
    let text = format!("SELECT DISTINCT ON ({keys}) {names} FROM ({select}) AS \"keyed\"");
    if let Some(outer) = query_of(&text) {
        query.body = outer.body;
    }
}

/// Expands `t.*` for a relation of the catalog; returns any other item unchanged.
fn written_out(item: &SelectItem, select: &Select) -> Vec<SelectItem> {
    let SelectItem::QualifiedWildcard(SelectItemQualifiedWildcardKind::ObjectName(table), _) = item
    else {
        return vec![item.clone()];
    };
    let factors = factors(&select.from);
    let mut known = factors.filter_map(system::known);
    let Some((table, of)) = known.find(|(name, _)| *name == last(table)) else {
        return vec![item.clone()];
    };
    let column = |column: &Column| {
        let names = [table.as_str(), column.name].map(|name| Ident::with_quote('"', name));
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names.into()))
    };
    of.columns.iter().map(column).collect()
}

fn name(item: &SelectItem) -> Option<Ident> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(alias.clone()),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(name.clone()),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(names)) => names.last().cloned(),
        _ => None,
    }
}

/// Rewrites `x IN (SELECT y ...)` in result columns to `array_has(ARRAY(SELECT y ...), x)`.
pub(super) fn members(select: &mut Select) {
    for item in &mut select.projection {
        let _ = item.walk(&mut Members);
    }
}

struct Members;

impl VisitorMut for Members {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::InSubquery { expr: member, subquery, negated } = &*expr {
            let not = if *negated { "NOT " } else { "" };
            let text = format!("{not}array_has(ARRAY({subquery}), {member})");
            if let Some(has) = expression(&text) {
                *expr = has;
            }
        }
        ControlFlow::Continue(())
    }
}
