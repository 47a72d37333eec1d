//! EXCEPT ALL and INTERSECT ALL by multiplicity.
//!
//! A row that occurs `m` times on the left and `n` times on the right occurs `max(m - n, 0)` times
//! in `EXCEPT ALL` and `min(m, n)` times in `INTERSECT ALL` (SQL:2016, 7.17). DataFusion plans an
//! anti or semi join of the rows, which keeps all copies of a row or none. This rewrite numbers the
//! copies of a row on both sides and joins by the number as well: copy `k` on the left has a match
//! if and only if there are at least `k` copies on the right.
//!
//! These joins are the only semi and anti joins of a statement's initial plan that treat nulls as
//! equal; those of EXCEPT and INTERSECT without ALL have a DISTINCT on their left, with which both
//! meanings agree. So the rewrite applies to the initial plan, before the optimizer runs.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{Column, NullEquality, Result};
use datafusion::functions_window::row_number::row_number;
use datafusion::logical_expr::logical_plan::{Distinct, Join, Projection};
use datafusion::logical_expr::{Expr, ExprFunctionExt, JoinType, LogicalPlan, LogicalPlanBuilder};
use datafusion::prelude::lit;

/// Names of the copy number columns of both sides.
const COPIES: [&str; 2] = ["__number of copy, left", "__number of copy, right"];

/// Rewrites EXCEPT ALL and INTERSECT ALL to respect multiplicities.
///
/// # Errors
/// Errors of DataFusion about the new joins.
pub(super) fn by_multiplicity(plan: LogicalPlan) -> Result<LogicalPlan> {
    let changed = plan.transform_up_with_subqueries(|node| match node {
        LogicalPlan::Join(join) if is_all(&join) => Ok(Transformed::yes(numbered(join)?)),
        node => Ok(Transformed::no(node)),
    });
    Ok(changed?.data)
}

/// True if a join of a statement's initial plan is an EXCEPT ALL or INTERSECT ALL.
fn is_all(join: &Join) -> bool {
    let columns = join.on.len();
    matches!(join.join_type, JoinType::LeftSemi | JoinType::LeftAnti)
        && join.null_equality == NullEquality::NullEqualsNull
        && join.filter.is_none()
        && columns == join.left.schema().fields().len()
        && columns == join.right.schema().fields().len()
        && !matches!(*join.left, LogicalPlan::Distinct(Distinct::All(_)))
}

fn numbered(mut join: Join) -> Result<LogicalPlan> {
    let schema = Arc::clone(&join.schema);
    let copies = COPIES.map(|name| Expr::Column(Column::from_name(name)));
    let [left, right] = copies;
    join.on.push((left, right));
    let joined = Join::try_new(
        Arc::new(with_numbers(join.left, COPIES[0])?),
        Arc::new(with_numbers(join.right, COPIES[1])?),
        join.on,
        None,
        join.join_type,
        join.join_constraint,
        NullEquality::NullEqualsNull,
        false,
    )?;
    let joined = Arc::new(LogicalPlan::Join(joined));
    Ok(LogicalPlan::Projection(Projection::new_from_schema(joined, schema)))
}

/// Numbers the copies of each row, from 1.
fn with_numbers(rows: Arc<LogicalPlan>, name: &str) -> Result<LogicalPlan> {
    let schema = Arc::clone(rows.schema());
    let kinds = schema.iter().map(|(qualifier, field)| {
        let column = Expr::Column(Column::from((qualifier, field)));
        // Partitions compare bits; adding zero makes the two zeros one value.
        match field.data_type() {
            DataType::Float32 => column + lit(0.0_f32),
            DataType::Float64 => column + lit(0.0_f64),
            _ => column,
        }
    });
    let number = row_number().partition_by(kinds.collect()).build()?.alias(name);
    LogicalPlanBuilder::from(Arc::unwrap_or_clone(rows)).window(vec![number])?.build()
}
