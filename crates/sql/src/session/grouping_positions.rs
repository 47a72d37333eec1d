//! Positions of the select list in ROLLUP, CUBE and GROUPING SETS.
//!
//! DataFusion replaces the number of `GROUP BY 1` by the first expression of the select list, and
//! takes a number within a grouping set for a constant.

use datafusion::sql::sqlparser::ast::{
    Expr, GroupByExpr, Select, SelectItem, Value, ValueWithSpan,
};
use terrace_table::error::SqlError;

use super::refusal::refused;

/// Replaces the positions within the grouping sets of a SELECT by the expressions that they name.
///
/// # Errors
/// [`SqlError::Refused`] for a position that the select list does not have, or before which it has
/// a wildcard.
pub(super) fn write_out(select: &mut Select) -> Result<(), SqlError> {
    let Select { group_by: GroupByExpr::Expressions(keys, _), projection, .. } = select else {
        return Ok(());
    };
    for key in keys {
        if let Expr::Rollup(sets) | Expr::Cube(sets) | Expr::GroupingSets(sets) = key {
            sets.iter_mut().flatten().try_for_each(|key| replace(key, projection))?;
        }
    }
    Ok(())
}

fn replace(key: &mut Expr, projection: &[SelectItem]) -> Result<(), SqlError> {
    let Expr::Value(ValueWithSpan { value: Value::Number(digits, _), .. }) = key else {
        return Ok(());
    };
    let count = digits.parse().unwrap_or(usize::MAX);
    let index = count.checked_sub(1).filter(|index| *index < projection.len());
    let Some(index) = index else {
        let instead = format!("the select list has {} columns", projection.len());
        return Err(refused(&format!("position {digits} in GROUP BY"), &instead));
    };
    let columns = projection[..=index].iter().map(expression).collect::<Option<Vec<_>>>();
    let Some(column) = columns.and_then(|columns| columns.last().copied().cloned()) else {
        let what = format!("position {digits} in a grouping set behind a wildcard");
        return Err(refused(&what, "name the column"));
    };
    *key = column;
    Ok(())
}

/// Returns the expression of an item that is one column; `None` for a wildcard.
fn expression(item: &SelectItem) -> Option<&Expr> {
    match item {
        SelectItem::UnnamedExpr(expr) | SelectItem::ExprWithAlias { expr, .. } => Some(expr),
        _ => None,
    }
}
