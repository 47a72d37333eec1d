//! Text of physical expressions in EXPLAIN.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use datafusion::physical_expr::expressions::{DynamicFilterPhysicalExpr, Literal};
use datafusion::physical_expr::utils::split_conjunction;
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_expr_common::physical_expr::fmt_sql;

/// An expression as SQL, with columns by their names.
pub(super) fn text(expr: &Arc<dyn PhysicalExpr>) -> String {
    fmt_sql(expr.as_ref()).to_string()
}

/// Expressions as SQL, separated by commas.
pub(super) fn listed<'a>(exprs: impl IntoIterator<Item = &'a Arc<dyn PhysicalExpr>>) -> String {
    exprs.into_iter().map(text).collect::<Vec<_>>().join(", ")
}

/// Sort keys: `a DESC, b ASC NULLS LAST`.
pub(super) fn order<'a>(keys: impl IntoIterator<Item = &'a PhysicalSortExpr>) -> String {
    let key = |key: &PhysicalSortExpr| {
        let direction = if key.options.descending { " DESC" } else { "" };
        // PostgreSQL's default: nulls are larger than all values.
        let nulls = match (key.options.descending, key.options.nulls_first) {
            (false, true) => " NULLS FIRST",
            (true, false) => " NULLS LAST",
            _ => "",
        };
        format!("{}{direction}{nulls}", text(&key.expr))
    };
    keys.into_iter().map(key).collect::<Vec<_>>().join(", ")
}

/// An expression as SQL, with `AS name` unless it is the column of that name.
pub(super) fn named(expr: &Arc<dyn PhysicalExpr>, name: &str) -> String {
    let text = text(expr);
    if text == name { text } else { format!("{text} AS {name}") }
}

/// The conditions of a filter, each joined by AND: those of the statement, and the dynamic filters,
/// which operators above set while the statement runs.
pub(super) fn conditions(filter: &Arc<dyn PhysicalExpr>) -> (String, String) {
    let (mut fixed, mut dynamic) = (Vec::new(), Vec::new());
    for condition in split_conjunction(filter) {
        match condition.downcast_ref::<DynamicFilterPhysicalExpr>() {
            Some(filter) => dynamic.push(determined(filter)),
            None => fixed.push(text(condition)),
        }
    }
    (fixed.join(" AND "), dynamic.join(" AND "))
}

/// The current condition of a dynamic filter.
fn determined(filter: &DynamicFilterPhysicalExpr) -> String {
    let pending = "set while the statement runs".to_owned();
    match filter.current() {
        Ok(current) if !is_true(&current) => text(&current),
        _ => pending,
    }
}

fn is_true(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let literal = expr.downcast_ref::<Literal>();
    literal.is_some_and(|it| *it.value() == ScalarValue::Boolean(Some(true)))
}
