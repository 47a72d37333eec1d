//! Repeated keys in a grouping set, in DISTINCT ON or in its ORDER BY, and composite keys in a
//! ROLLUP or CUBE.
//!
//! A repeated key counts once, in PostgreSQL and here. DataFusion refuses it, and composite keys:
//! ```text
//! ROLLUP ((a, b))                       ->  GROUPING SETS ((a, b), ())
//! GROUPING SETS ((a, b, a))             ->  GROUPING SETS ((a, b))
//! CUBE (a, a)                           ->  GROUPING SETS ((a), (a), (a), ())
//! DISTINCT ON (a, a, b) ORDER BY a, a, b  ->  DISTINCT ON (a, b) ORDER BY a, b
//! ```

use datafusion::sql::sqlparser::ast::{
    Distinct, Expr, GroupByExpr, OrderByKind, Query, Select, SetExpr,
};
use terrace_table::error::SqlError;

use super::refusal::refused;

/// Maximum number of keys of a CUBE that repeats a column or has a composite key. In PostgreSQL it
/// is the limit of any CUBE.
const CUBE_MAX: usize = 12;

/// Rewrites the grouping sets of a SELECT that have repeated or composite keys.
///
/// # Errors
/// [`SqlError::Refused`] for a CUBE of more than [`CUBE_MAX`] keys with a repeated column or a
/// composite key.
pub(super) fn write_out(select: &mut Select) -> Result<(), SqlError> {
    let GroupByExpr::Expressions(keys, _) = &mut select.group_by else { return Ok(()) };
    for key in keys {
        let is_special = match &*key {
            Expr::GroupingSets(sets) => sets.iter().any(|set| once(set).len() < set.len()),
            Expr::Rollup(parts) | Expr::Cube(parts) => {
                let all: Vec<Expr> = parts.iter().flatten().cloned().collect();
                once(&all).len() < all.len() || parts.iter().any(|part| part.len() != 1)
            }
            _ => false,
        };
        if !is_special {
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

/// The grouping sets of a CUBE, in PostgreSQL's order: first that of all parts, last the empty one.
fn cube(parts: &[Vec<Expr>]) -> Result<Vec<Vec<Expr>>, SqlError> {
    if parts.len() > CUBE_MAX {
        let what = format!("a CUBE of {} parts with a repeated column or a row", parts.len());
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
