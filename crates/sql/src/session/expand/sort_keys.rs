//! Resolution of names in expressions of ORDER BY.
//!
//! A key of ORDER BY that is a name is a column of the result. Within an expression a name is a
//! column of FROM, as in PostgreSQL; DataFusion would take a column of the result first:
//!
//! ```text
//! SELECT -v AS v FROM g ORDER BY -v      ->  SELECT -v AS v FROM g ORDER BY v
//! SELECT -v AS v FROM g ORDER BY abs(v)  ->
//!     SELECT * EXCLUDE (key) FROM (SELECT -v AS v, abs(v) AS key FROM g) ORDER BY key
//! ```
//! A name with its table, `ORDER BY g.v`, is treated likewise, since DataFusion cannot tell the
//! columns of one name apart. With DISTINCT and GROUP BY ALL, where another column would change the
//! result, the names are qualified with their tables instead. A name that FROM does not have stays
//! one of the result, which PostgreSQL refuses.

use std::ops::ControlFlow;

use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Ident, JoinConstraint, OrderByExpr, OrderByKind, Query, Select, SelectItem,
    SetExpr, TableFactor, VisitorMut,
};
use terrace_table::error::SqlError;

use super::super::dialect::parsed_query;
use super::super::join_constraint::constraint;
use super::super::walk::Walk;
use super::stars::Column;

/// The SELECT of a query whose ORDER BY has an expression with a name that may be a column of FROM
/// rather than of the result; `None` for any other query. Replaces keys that equal an expression of
/// the SELECT list by its alias.
pub(super) fn select_of(query: &mut Query) -> Option<&Select> {
    let SetExpr::Select(select) = query.body.as_ref() else { return None };
    let order = query.order_by.as_mut()?;
    let OrderByKind::Expressions(keys) = &mut order.kind else { return None };
    let names: Vec<_> = select.projection.iter().filter_map(alias).collect();
    if names.is_empty() {
        return None;
    }
    let mut is_needed = false;
    for key in keys.iter_mut().filter(|key| !is_name(&key.expr)) {
        let mut uses = Names { names: &names, columns: None, queries: 0, found: false };
        let _ = key.expr.walk(&mut uses);
        if !uses.found {
            continue;
        }
        match by_name(&key.expr, select) {
            Some(name) => key.expr = Expr::Identifier(name),
            None => is_needed = true,
        }
    }
    is_needed.then_some(select)
}

/// Rewrites the expressions in a query's ORDER BY so that their names are columns of FROM, which
/// has `columns`.
///
/// # Errors
/// If a text of this module cannot be parsed.
pub(super) fn write_out(query: &mut Query, columns: &[Column]) -> Result<(), SqlError> {
    let SetExpr::Select(select) = query.body.as_mut() else { return Ok(()) };
    let names: Vec<_> = select.projection.iter().filter_map(alias).collect();
    let of_from: Vec<_> = names
        .into_iter()
        .filter(|name| columns.iter().any(|column| column.name == *name))
        .collect();
    let Some(order) = &mut query.order_by else { return Ok(()) };
    let OrderByKind::Expressions(keys) = &mut order.kind else { return Ok(()) };
    let is_needed = |key: &OrderByExpr| {
        let mut uses = Names { names: &of_from, columns: None, queries: 0, found: false };
        !is_name(&key.expr) && key.expr.clone().walk(&mut uses).is_continue() && uses.found
    };
    if !keys.iter().any(is_needed) {
        return Ok(());
    }
    if select.distinct.is_some() || matches!(select.group_by, GroupByExpr::All(_)) {
        if has_shared_columns(select) {
            return Ok(());
        }
        for OrderByExpr { expr, .. } in keys.iter_mut().filter(|key| !is_name(&key.expr)) {
            let columns = Some(columns);
            let _ = expr.walk(&mut Names { names: &of_from, columns, queries: 0, found: false });
        }
        return Ok(());
    }
    let excluded = add_keys(select, keys);
    let text = format!("SELECT * EXCLUDE ({}) FROM (SELECT 1) AS \"{ROWS}\"", excluded.join(", "));
    let mut outer = parsed_query(&text)?;
    let mut inner = parsed_query("SELECT 1")?;
    std::mem::swap(&mut inner.body, &mut query.body);
    if let SetExpr::Select(select) = outer.body.as_mut()
        && let [from] = select.from.as_mut_slice()
        && let TableFactor::Derived { subquery, .. } = &mut from.relation
    {
        **subquery = inner;
    }
    query.body = outer.body;
    Ok(())
}

/// Alias of the subquery that computes the keys; no statement has it.
const ROWS: &str = "rows in order";

/// Adds the keys of ORDER BY that are not columns of the result to it, and returns their names.
fn add_keys(select: &mut Select, keys: &mut [OrderByExpr]) -> Vec<String> {
    let results: Vec<_> = select.projection.iter().filter_map(name_of).collect();
    let mut added = Vec::new();
    for OrderByExpr { expr, .. } in keys {
        let is_of_result = match bare(expr) {
            Expr::Value(_) => true,
            Expr::Identifier(name) => results.contains(&normal(name)),
            _ => false,
        };
        if is_of_result {
            continue;
        }
        let name = Ident::with_quote('"', format!("key {} of the order", added.len() + 1));
        added.push(name.to_string());
        let key = vec![Ident::with_quote('"', ROWS), name.clone()];
        let expr = std::mem::replace(expr, Expr::CompoundIdentifier(key));
        select.projection.push(SelectItem::ExprWithAlias { expr, alias: name });
    }
    added
}

/// The name of a column of the result; `None` for a wildcard or an expression without alias.
fn name_of(item: &SelectItem) -> Option<String> {
    match item {
        SelectItem::ExprWithAlias { alias, .. } => Some(normal(alias)),
        SelectItem::UnnamedExpr(Expr::Identifier(name)) => Some(normal(name)),
        SelectItem::UnnamedExpr(Expr::CompoundIdentifier(parts)) => parts.last().map(normal),
        _ => None,
    }
}

/// True for a key that is the name of a column of the result.
fn is_name(key: &Expr) -> bool {
    matches!(bare(key), Expr::Identifier(_))
}

/// An expression without the parentheses around it.
fn bare(expr: &Expr) -> &Expr {
    match expr {
        Expr::Nested(inner) => bare(inner),
        expr => expr,
    }
}

/// The alias of an item of the SELECT list, unless its expression is a column of the same name.
fn alias(item: &SelectItem) -> Option<String> {
    let SelectItem::ExprWithAlias { expr, alias } = item else { return None };
    let name = normal(alias);
    let is_own = matches!(expr, Expr::Identifier(own) if normal(own) == name);
    (!is_own).then_some(name)
}

fn normal(name: &Ident) -> String {
    IdentNormalizer::default().normalize(name.clone())
}

/// The alias of the item of the SELECT list that `key` equals, if no other item has that name.
fn by_name(key: &Expr, select: &Select) -> Option<Ident> {
    let name = select.projection.iter().find_map(|item| match item {
        SelectItem::ExprWithAlias { expr, alias } if expr == key => Some(alias),
        _ => None,
    })?;
    let is_same = |item: &&SelectItem| match item {
        SelectItem::ExprWithAlias { .. } | SelectItem::UnnamedExpr(_) => {
            name_of(item).is_some_and(|own| own == normal(name))
        }
        _ => true,
    };
    (select.projection.iter().filter(is_same).count() == 1).then(|| name.clone())
}

/// True if FROM has a join with USING or NATURAL, whose common columns belong to no table.
fn has_shared_columns(select: &Select) -> bool {
    let mut joins = select.from.iter().flat_map(|from| &from.joins);
    joins.any(|join| {
        let constraint = constraint(&join.join_operator);
        matches!(constraint, Some(JoinConstraint::Using(_) | JoinConstraint::Natural))
    })
}

/// Visitor that looks for `names` of the result, outside of subqueries. With `columns` of FROM,
/// qualifies those that are the name of exactly one of them.
struct Names<'a> {
    names: &'a [String],
    columns: Option<&'a [Column]>,
    queries: usize,
    found: bool,
}

impl Names<'_> {
    /// The qualified column of FROM of a name; `None` unless exactly one column has it.
    fn column(&self, name: &str) -> Option<Expr> {
        let mut named = self.columns?.iter().filter(|column| column.name == name);
        let (Some(column), None) = (named.next(), named.next()) else { return None };
        let table = column.table.as_ref()?.to_vec().into_iter();
        let parts = table.chain([column.name.clone()]);
        Some(Expr::CompoundIdentifier(parts.map(|part| Ident::with_quote('"', part)).collect()))
    }
}

impl VisitorMut for Names<'_> {
    type Break = ();

    fn pre_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries += 1;
        ControlFlow::Continue(())
    }

    fn post_visit_query(&mut self, _: &mut Query) -> ControlFlow<()> {
        self.queries -= 1;
        ControlFlow::Continue(())
    }

    fn post_visit_expr(&mut self, expr: &mut Expr) -> ControlFlow<()> {
        let (name, has_table) = match &*expr {
            Expr::Identifier(name) => (normal(name), false),
            Expr::CompoundIdentifier(parts) => match parts.last() {
                Some(name) => (normal(name), true),
                None => return ControlFlow::Continue(()),
            },
            _ => return ControlFlow::Continue(()),
        };
        if self.queries == 0 && self.names.contains(&name) {
            self.found = true;
            if !has_table && let Some(column) = self.column(&name) {
                *expr = column;
            }
        }
        ControlFlow::Continue(())
    }
}
