//! Columns that a grouping set repeats.
//!
//! A column counts once within a grouping set, in PostgreSQL and here; DataFusion refuses it:
//! ```text
//! GROUPING SETS ((a, b, a))  ->  GROUPING SETS ((a, b))
//! CUBE (a, a)                ->  GROUPING SETS ((a), (a), (a), ())
//! ```

use datafusion::sql::sqlparser::ast::{Expr, GroupByExpr, Select};
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
