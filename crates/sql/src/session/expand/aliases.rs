//! References to the aliases of a SELECT list in other expressions of the same SELECT.
//!
//! ```text
//! SELECT id + 1 AS k, k * 2 FROM t WHERE k > 5  ->  SELECT id + 1 AS k, (id + 1) * 2 FROM t
//!                                                   WHERE id + 1 > 5
//! ```
//! A column of FROM takes precedence over an alias of the same name. An expression of the SELECT
//! list sees the aliases before it; WHERE, HAVING and QUALIFY see all.

use std::collections::{BTreeSet, HashMap};
use std::ops::ControlFlow;

use datafusion::common::{DataFusionError, SchemaError};
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{Expr, Select, SelectItem};
use terrace_table::error::SqlError;

use super::super::refusal::refused;
use super::super::volatility;
use super::super::walk::{OwnExprs, Walk, walk_values};
use super::stars::Column;
use super::struct_stars::normal;

/// True for the error of an unknown column, whose name may be an alias.
pub(in super::super) fn is_cause(error: &DataFusionError) -> bool {
    matches!(error.find_root(), DataFusionError::SchemaError(error, _)
        if matches!(error.as_ref(), SchemaError::FieldNotFound { .. }))
}

/// True if a SELECT may use its own aliases.
pub(super) fn are_in(select: &mut Select) -> bool {
    let named = select.projection.iter().filter_map(named);
    let names: BTreeSet<String> = named.map(|(name, _)| name).collect();
    let is_use = |expr: &mut Expr| match expr {
        Expr::Identifier(name) if names.contains(&normal(name)) => ControlFlow::Break(()),
        _ => ControlFlow::Continue(()),
    };
    !names.is_empty() && walk_values(select, &mut OwnExprs::outermost_first(is_use)).is_break()
}

/// The alias of an item and its expression.
fn named(item: &SelectItem) -> Option<(String, Expr)> {
    match item {
        SelectItem::ExprWithAlias { expr, alias } => Some((normal(alias), expr.clone())),
        _ => None,
    }
}

/// Replaces references to the aliases of a SELECT by their expressions. `columns` are those of its
/// FROM.
///
/// # Errors
/// [`SqlError::Refused`] for an alias of a value that each use would compute anew.
pub(super) fn write_out(
    select: &mut Select,
    columns: &[Column],
    state: &SessionState,
) -> Result<(), SqlError> {
    let is_column = |name: &str| columns.iter().any(|column| column.name == name);
    let mut known = HashMap::new();
    let mut error = None;
    for item in &mut select.projection {
        let _ = item
            .walk(&mut OwnExprs::innermost_first(|expr| write(expr, &known, state, &mut error)));
        if let Some((name, expr)) = named(item)
            && !is_column(&name)
        {
            known.insert(name, expr);
        }
    }
    let mut writer = OwnExprs::innermost_first(|expr| write(expr, &known, state, &mut error));
    for expr in [&mut select.selection, &mut select.having, &mut select.qualify] {
        let _ = expr.walk(&mut writer);
    }
    error.map_or(Ok(()), Err)
}

/// Replaces an expression that is a known alias.
fn write(
    expr: &mut Expr,
    known: &HashMap<String, Expr>,
    state: &SessionState,
    error: &mut Option<SqlError>,
) -> ControlFlow<()> {
    let Expr::Identifier(name) = expr else { return ControlFlow::Continue(()) };
    let name = normal(name);
    let Some(value) = known.get(&name) else { return ControlFlow::Continue(()) };
    let mut value = value.clone();
    if volatility::is_in(state, &mut value) {
        *error = Some(refused(
            &format!("alias {name} of {value}, which each use would compute anew"),
            "compute it in a subquery",
        ));
        return ControlFlow::Break(());
    }
    *expr = Expr::Nested(Box::new(value));
    ControlFlow::Continue(())
}
