//! Keys that a grouping set, DISTINCT ON or its ORDER BY repeats.
//!
//! A key counts once, in PostgreSQL and here; DataFusion refuses it:
//! ```text
//! GROUPING SETS ((a, b, a))             ->  GROUPING SETS ((a, b))
//! CUBE (a, a)                           ->  GROUPING SETS ((a), (a), (a), ())
//! DISTINCT ON (a, a, b) ORDER BY a, a, b  ->  DISTINCT ON (a, b) ORDER BY a, b
//! ```

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, OrderByKind, Query, Select, SetExpr,
};
use terrace_table::error::SqlError;

use super::refusal::refused;

/// Maximum number of columns of a CUBE that repeats one, as of any CUBE in PostgreSQL.
const CUBE_MAX: usize = 12;

/// Rewrites the grouping sets of a SELECT.
///
/// # Errors
/// [`SqlError::Refused`] for a CUBE with a repeated column of more than [`CUBE_MAX`] columns.
pub(super) fn write_out(select: &mut Select) -> Result<(), SqlError> {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return Ok(()) };
    for key in keys {
        let is_repeating = match &*key {
            Expr::GroupingSets(sets) => sets.iter().any(|set| once(set).len() < set.len()),
            Expr::Rollup(parts) | Expr::Cube(parts) => {
                let all: Vec<Expr> = parts.iter().flatten().cloned().collect();
                once(&all).len() < all.len()
            }
            _ => false,
        };
        if !is_repeating {
            continue;
        }
        let sets = match &*key {
            Expr::GroupingSets(sets) => sets.clone(),
            Expr::Rollup(parts) => {
                (0..=parts.len()).rev().map(|end| parts[..end].concat()).collect()
            }
            Expr::Cube(parts) => cube(parts)?,
            _ => continue,
        };
        *key = Expr::GroupingSets(sets.iter().map(|set| once(set)).collect());
    }
    Ok(())
}

/// Drops repeated keys of DISTINCT ON, and of the ORDER BY that chooses its rows.
pub(super) fn distinct_on(query: &mut Query) {
    let SetExpr::Select(select) = query.body.as_mut() else { return };
    let Some(Distinct::On(keys)) = &mut select.distinct else { return };
    *keys = once(keys);
    let Some(order) = &mut query.order_by else { return };
    let OrderByKind::Expressions(keys) = &mut order.kind else { return };
    let mut seen: Vec<Expr> = Vec::with_capacity(keys.len());
    keys.retain(|key| {
        let is_new = !seen.contains(&key.expr);
        seen.push(key.expr.clone());
        is_new
    });
}

/// The sets of a CUBE, with those of more parts first.
fn cube(parts: &[Vec<Expr>]) -> Result<Vec<Vec<Expr>>, SqlError> {
    if parts.len() > CUBE_MAX {
        let what = format!("a CUBE of {} columns of which one is repeated", parts.len());
        return Err(refused(&what, &format!("name each once, or at most {CUBE_MAX}")));
    }
    let mut sets = vec![Vec::new()];
    for part in parts.iter().rev() {
        let mut with = Vec::with_capacity(2 * sets.len());
        for set in &sets {
            with.push([part.as_slice(), set.as_slice()].concat());
        }
        with.append(&mut sets);
        sets = with;
    }
    Ok(sets)
}

/// The expressions of a set, each once.
fn once(set: &[Expr]) -> Vec<Expr> {
    let mut kept: Vec<Expr> = Vec::with_capacity(set.len());
    for expr in set {
        if !kept.contains(expr) {
            kept.push(expr.clone());
        }
    }
    kept
}
