//! Joins with equalities of two kinds: by `=`, and by IS NOT DISTINCT FROM.
//!
//! Nulls are equal in all keys of a join or in none, so that the equalities of one kind would be
//! conditions, and the join would compare many pairs of rows. An equality by IS NOT DISTINCT FROM
//! becomes two keys that are not null:
//!
//! ```text
//! a IS NOT DISTINCT FROM b
//!   ->  (a IS NULL) = (b IS NULL)
//!       AND CASE WHEN a IS NULL THEN 0 ELSE a END = CASE WHEN b IS NULL THEN 0 ELSE b END
//! ```

use datafusion::common::tree_node::Transformed;
use datafusion::common::{NullEquality, Result, ScalarValue};
use datafusion::logical_expr::logical_plan::Join;
use datafusion::logical_expr::utils::{
    conjunction, find_valid_equijoin_key_pair, split_conjunction_owned,
};
use datafusion::logical_expr::{BinaryExpr, Expr, ExprSchemable as _, Operator, lit, when};

type Key = (Expr, Expr);

/// Turns the conditions of a join that are equalities, but not of the kind of its keys, into keys.
///
/// # Errors
/// If an equality does not fit the inputs of the join.
pub(super) fn of(mut join: Join) -> Result<Transformed<Join>> {
    let are_nulls_equal = join.null_equality == NullEquality::NullEqualsNull;
    let other = if are_nulls_equal { Operator::Eq } else { Operator::IsNotDistinctFrom };
    let is_other = |part: &Expr| matches!(part, Expr::BinaryExpr(it) if it.op == other);
    let conditions = join.filter.clone().map(split_conjunction_owned).unwrap_or_default();
    if join.on.is_empty() || join.null_aware || !conditions.iter().any(is_other) {
        return Ok(Transformed::no(join));
    }
    let (mut found, mut rest) = (vec![], vec![]);
    for condition in conditions {
        match key(&join, &condition, other)? {
            Some(key) => found.push(key),
            None => rest.push(condition),
        }
    }
    let (by_equality, by_nulls) = match are_nulls_equal {
        true => (found.clone(), join.on.clone()),
        false => (join.on.clone(), found.clone()),
    };
    let by_nulls = by_nulls.into_iter().map(|key| without_nulls(&join, key));
    let by_nulls: Option<Vec<_>> = by_nulls.collect::<Result<_>>()?;
    let Some(by_nulls) = by_nulls.filter(|_| !found.is_empty()) else {
        return Ok(Transformed::no(join));
    };
    join.on = by_equality.into_iter().chain(by_nulls.into_iter().flatten()).collect();
    join.filter = conjunction(rest);
    join.null_equality = NullEquality::NullEqualsNothing;
    Ok(Transformed::yes(join))
}

/// The two sides of `condition` as a key, if it compares the join's inputs by the operator `of`;
/// otherwise `None`.
fn key(join: &Join, condition: &Expr, of: Operator) -> Result<Option<Key>> {
    match condition {
        Expr::BinaryExpr(BinaryExpr { left, op, right }) if *op == of => {
            let (left_rows, right_rows) = (join.left.schema(), join.right.schema());
            find_valid_equijoin_key_pair(left, right, left_rows, right_rows)
        }
        _ => Ok(None),
    }
}

/// The keys by `=` of a key by IS NOT DISTINCT FROM; `None` if it is of a type without a constant
/// that stands for null, or must not be computed twice.
fn without_nulls(join: &Join, (left, right): Key) -> Result<Option<Vec<Key>>> {
    let (left_rows, right_rows) = (join.left.schema(), join.right.schema());
    if !left.nullable(left_rows.as_ref())? || !right.nullable(right_rows.as_ref())? {
        return Ok(Some(vec![(left, right)]));
    }
    let of = left.get_type(left_rows.as_ref())?;
    if of.is_nested() || left.is_volatile() || right.is_volatile() {
        return Ok(None);
    }
    let Ok(value) = ScalarValue::new_default(&of) else { return Ok(None) };
    let are_nulls = (left.clone().is_null(), right.clone().is_null());
    let filled = |side: Expr| when(side.clone().is_null(), lit(value.clone())).otherwise(side);
    Ok(Some(vec![are_nulls, (filled(left)?, filled(right)?)]))
}
