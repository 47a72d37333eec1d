//! Casts that interval arithmetic must not see.
//!
//! DataFusion estimates the rows of a filter by intervals. The interval of a cast has the cast ends
//! of its operand's, and the other way around: `d = t::date` of a column with the dates of two days
//! gives the timestamps between two midnights, which may be more than the column has, and planning
//! fails. That is so where a cast loses a part of a value, as from a timestamp to a date, or the
//! order, as from a number to a text.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{DFSchema, Result};
use datafusion::logical_expr::logical_plan::Filter;
use datafusion::logical_expr::{Cast, Expr, ExprSchemable as _, LogicalPlan};

use crate::scalar::Nullable;

/// Hides the casts of conditions that are not exact below a function, of which no interval is
/// known; `None` for a plan without such casts.
///
/// # Errors
/// If an expression has no type.
pub(super) fn hidden(plan: &LogicalPlan) -> Result<Option<LogicalPlan>> {
    let mut is_found = false;
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::Filter(filter) = node {
            let schema = filter.input.schema();
            is_found |= filter.predicate.exists(|expr| is_inexact(expr, schema))?;
        }
        Ok(if is_found { TreeNodeRecursion::Stop } else { TreeNodeRecursion::Continue })
    })?;
    if !is_found {
        return Ok(None);
    }
    let changed = plan.clone().transform_up_with_subqueries(|node| {
        let LogicalPlan::Filter(filter) = node else { return Ok(Transformed::no(node)) };
        let schema = filter.input.schema();
        let predicate = filter.predicate.transform_up(|expr| {
            Ok(match is_inexact(&expr, schema)? {
                true => Transformed::yes(Nullable::of(expr)),
                false => Transformed::no(expr),
            })
        })?;
        let filter = Filter::try_new(predicate.data, filter.input)?;
        Ok(Transformed::yes(LogicalPlan::Filter(filter)))
    });
    Ok(Some(changed?.data))
}

fn is_inexact(expr: &Expr, schema: &DFSchema) -> Result<bool> {
    let Expr::Cast(Cast { expr, field }) = expr else { return Ok(false) };
    Ok(!is_exact(&expr.get_type(schema)?, field.data_type()))
}

/// True for a cast that maps different values to different ones, in the same order, and never
/// fails.
fn is_exact(from: &DataType, to: &DataType) -> bool {
    use DataType::{Date32, Date64, Float32, Float64, Timestamp};
    let is_wider = from.primitive_width() < to.primitive_width();
    match (from, to) {
        (from, to) if from == to => true,
        (from, to) if from.is_string() && to.is_string() => true,
        (Date32, Date64 | Timestamp(_, None)) | (Float32, Float64) => true,
        (Timestamp(from, zone), Timestamp(to, other)) => {
            from <= to && zone.is_some() == other.is_some()
        }
        (from, to) if from.is_decimal() && (to.is_decimal() || *to == Float64) => true,
        (from, to) if from.is_integer() => {
            let is_float = to.is_floating();
            let is_signed = to.is_integer() && !to.is_unsigned_integer();
            let is_unsigned = from.is_unsigned_integer() && to.is_unsigned_integer();
            to.is_decimal() || is_float || (is_wider && (is_signed || is_unsigned))
        }
        _ => false,
    }
}
