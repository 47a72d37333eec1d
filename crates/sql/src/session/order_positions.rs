//! Positions in the ORDER BY of a query with groups, `SELECT a + 1, count(*) ... ORDER BY 1`.
//!
//! DataFusion's planner looks the column of the result up among the columns of the aggregation, and
//! finds there only those that are a key of the groups or an aggregate. The expression itself is
//! found, so that it takes the place of its position.

use std::collections::HashSet;
use std::ops::ControlFlow;
use std::sync::LazyLock;

use datafusion::functions_aggregate::all_default_aggregate_functions;
use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, Function, GroupByExpr, OrderByKind, Query, Select, SelectItem, SetExpr, Value,
    ValueWithSpan,
};

use super::order_by_all::nest;
use super::walk::{OwnExprs, Walk};

/// Names of all aggregate functions.
static AGGREGATES: LazyLock<HashSet<String>> = LazyLock::new(|| {
    let own = terrace_functions::aggregates();
    let all = all_default_aggregate_functions().into_iter().chain(own);
    all.flat_map(|function| {
        let aliases = function.aliases().iter().cloned();
        aliases.chain([function.name().to_owned()]).collect::<Vec<_>>()
    })
    .collect()
});

/// Rewrites the positions in the order of a query.
pub(super) fn write_out(query: &mut Query) {
    let Some(order) = &mut query.order_by else { return };
    let OrderByKind::Expressions(keys) = &mut order.kind else { return };
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let is_position = |key: &Expr| place(key).is_some();
    if matches!(select.distinct, Some(Distinct::On(_)))
        || !keys.iter().any(|key| is_position(&key.expr))
        || !has_groups(select)
    {
        return;
    }
    let is_distinct = select.distinct.is_some();
    let computed = |key: &Expr| place(key).and_then(|place| computed(select, place)).cloned();
    let found: Vec<_> = keys.iter().map(|key| computed(&key.expr)).collect();
    let mut all = found.iter().flatten().cloned();
    let returns_rows = all.any(|mut expr| calls(&mut expr, |name| name == "unnest"));
    if returns_rows || (is_distinct && found.iter().any(Option::is_some)) {
        // The planner orders these rows by columns of the result only.
        nest(&mut query.body);
        return;
    }
    for (key, found) in keys.iter_mut().zip(found) {
        if let Some(expr) = found {
            key.expr = expr;
        }
    }
}

/// The place of the column that a key stands for.
fn place(key: &Expr) -> Option<usize> {
    let Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) = key else {
        return None;
    };
    digits.parse::<usize>().ok()?.checked_sub(1)
}

/// The expression without a name at a place of the result; `None` for a column, a constant, an
/// aggregate, an expression with a name, and a place behind a star.
fn computed(select: &Select, place: usize) -> Option<&Expr> {
    let is_one = |item: &SelectItem| {
        matches!(item, SelectItem::UnnamedExpr(_) | SelectItem::ExprWithAlias { .. })
    };
    match select.projection.get(..=place)? {
        [before @ .., SelectItem::UnnamedExpr(expr)] if before.iter().all(is_one) => match expr {
            Expr::Value(_) | Expr::Identifier(_) | Expr::CompoundIdentifier(_) => None,
            Expr::Function(call) if is_call(call, |name| AGGREGATES.contains(name)) => None,
            expr => Some(expr),
        },
        _ => None,
    }
}

fn has_groups(select: &mut Select) -> bool {
    let has_keys = match &select.group_by {
        GroupByExpr::All(_) => true,
        GroupByExpr::Expressions(keys, _) => !keys.is_empty(),
    };
    if has_keys || select.having.is_some() {
        return true;
    }
    select.projection.iter_mut().any(|item| calls(item, |name| AGGREGATES.contains(name)))
}

/// True if a part calls a function whose name, in lower case, `is_wanted`, other than in a window.
fn calls(part: &mut impl Walk, is_wanted: impl Fn(&str) -> bool) -> bool {
    let mut visitor = OwnExprs::outermost_first(|expr: &mut Expr| match expr {
        Expr::Function(function) if is_call(function, &is_wanted) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    });
    part.walk(&mut visitor).is_break()
}

fn is_call(function: &Function, is_wanted: impl Fn(&str) -> bool) -> bool {
    let name = function.name.0.last().and_then(|part| part.as_ident());
    function.over.is_none() && name.is_some_and(|name| is_wanted(&name.value.to_ascii_lowercase()))
}
