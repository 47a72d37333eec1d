//! Names that PostgreSQL gives to columns without an alias, in ORDER BY.
//!
//! A cast has the name of its column, a call that of its function. A key of ORDER BY that is such a
//! name means the column of the result, and not a column of FROM with the same name:
//! ```text
//! SELECT i::text FROM t ORDER BY i   ->   SELECT i::text AS i FROM t ORDER BY i
//! ```
//! Names within expressions of ORDER BY are columns of FROM (`expand/sort_keys.rs`), as are those
//! of GROUP BY, and names with a table. A cast of such a column gets an alias too: DataFusion has
//! one name for the column and its cast, and refuses to sort one by the other.

use std::ops::ControlFlow;

use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Ident, OrderByKind, Query, Select, SelectItem, SetExpr, VisitorMut,
};

use super::walk::Walk as _;

/// Gives the columns that the keys of a query's ORDER BY name an alias.
pub(super) fn write_out(query: &mut Query) {
    let Some(order) = &mut query.order_by else { return };
    let OrderByKind::Expressions(keys) = &mut order.kind else { return };
    let names: Vec<String> = keys.iter().filter_map(|key| key_name(&key.expr)).collect();
    let mut inner = Names::default();
    for key in keys.iter_mut().filter(|key| key_name(&key.expr).is_none()) {
        let _ = key.expr.walk(&mut inner);
    }
    if names.is_empty() && inner.names.is_empty() {
        return;
    }
    if let Some(select) = first_select(&mut query.body)
        // The keys of DISTINCT ON are columns of FROM, which those of ORDER BY have to equal.
        && !matches!(select.distinct, Some(Distinct::On(_)))
        && select.having.is_none()
        && select.qualify.is_none()
    {
        names.iter().for_each(|name| alias(select, name, |_| true));
        inner.names.iter().for_each(|name| alias(select, name, is_cast));
    }
}

/// The name that a key is.
fn key_name(key: &Expr) -> Option<String> {
    match key {
        Expr::Nested(inner) => key_name(inner),
        Expr::Identifier(name) => Some(normal(name)),
        _ => None,
    }
}

/// The names of columns within keys.
#[derive(Default)]
struct Names {
    names: Vec<String>,
}

impl VisitorMut for Names {
    type Break = ();

    fn pre_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        if let Expr::Identifier(_) | Expr::CompoundIdentifier(_) = expr {
            self.names.extend(column_name(expr));
        }
        ControlFlow::Continue(())
    }
}

fn is_cast(expr: &Expr) -> bool {
    match expr {
        Expr::Nested(inner) => is_cast(inner),
        expr => matches!(expr, Expr::Cast { .. }),
    }
}

/// The SELECT that names the columns of a result.
fn first_select(body: &mut SetExpr) -> Option<&mut Select> {
    match body {
        SetExpr::Select(select) => Some(select),
        SetExpr::SetOperation { left, .. } => first_select(left),
        SetExpr::Query(query) => first_select(&mut query.body),
        _ => None,
    }
}

/// Gives the result column that PostgreSQL would name `name` that alias, if it is the only such
/// column, has no alias, is not a plain column, and `is_meant` is true of it.
fn alias(select: &mut Select, name: &str, is_meant: fn(&Expr) -> bool) {
    let mut found = None;
    for (place, item) in select.projection.iter().enumerate() {
        let of_item = match item {
            SelectItem::ExprWithAlias { alias, .. } => Some(normal(alias)),
            SelectItem::UnnamedExpr(expr) => column_name(expr),
            _ => return,
        };
        if of_item.as_deref() == Some(name) && found.replace(place).is_some() {
            return;
        }
    }
    let Some(item) = found.and_then(|place| select.projection.get_mut(place)) else { return };
    if let SelectItem::UnnamedExpr(expr) = item
        && !matches!(expr, Expr::Identifier(_) | Expr::CompoundIdentifier(_))
        && is_meant(expr)
    {
        let (expr, alias) = (expr.clone(), Ident::with_quote('"', name));
        *item = SelectItem::ExprWithAlias { expr, alias };
    }
}

/// The name of a column without an alias; `None` for one that PostgreSQL names by its kind.
fn column_name(expr: &Expr) -> Option<String> {
    match expr {
        Expr::Identifier(name) => Some(normal(name)),
        Expr::CompoundIdentifier(parts) => parts.last().map(normal),
        Expr::Nested(inner) => column_name(inner),
        Expr::Cast { expr, .. } | Expr::Collate { expr, .. } => column_name(expr),
        Expr::Function(call) => {
            let name = call.name.0.last()?.as_ident()?;
            name.quote_style.is_none().then(|| normal(name))
        }
        _ => None,
    }
}

fn normal(name: &Ident) -> String {
    IdentNormalizer::default().normalize(name.clone())
}
