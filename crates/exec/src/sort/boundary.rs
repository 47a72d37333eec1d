//! What the last of the first rows tells everybody else.
//!
//! Once a partition has as many rows as are wanted, no row that does not come before the last of
//! them matters any more. The partitions of a sort share the best such row. What it means is
//! published as DataFusion's own sort does, in the dynamic filter that the optimizer may have
//! pushed down to the scan.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::filter_record_batch;
use datafusion::common::{Result, ScalarValue};
use datafusion::logical_expr::{ColumnarValue, Operator};
use datafusion::physical_expr::expressions::{
    BinaryExpr, DynamicFilterPhysicalExpr, is_not_null, is_null, lit,
};
use datafusion::physical_expr::{LexOrdering, PhysicalExpr, PhysicalSortExpr};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::sorts::sort::SortExec;

use super::key::SortKeys;

type Expression = Arc<dyn PhysicalExpr>;

/// The row that others must come before, and the filter that says so.
#[derive(Debug)]
pub(crate) struct Boundary {
    order: LexOrdering,
    filter: Arc<DynamicFilterPhysicalExpr>,
    /// The row's encoded key.
    key: Mutex<Option<Vec<u8>>>,
    /// Partitions that may still tighten it.
    running: AtomicUsize,
}

impl Boundary {
    /// The boundary of the partitions of `sort`.
    pub(crate) fn new(sort: &SortExec) -> Self {
        let order = sort.expr().clone();
        let produced = sort.dynamic_expressions_produced().into_iter().find_map(|expression| {
            let any: Arc<dyn std::any::Any + Send + Sync> = expression;
            any.downcast::<DynamicFilterPhysicalExpr>().ok()
        });
        let filter = produced.unwrap_or_else(|| {
            let columns = order.iter().map(|column| Arc::clone(&column.expr)).collect();
            Arc::new(DynamicFilterPhysicalExpr::new(columns, lit(true)))
        });
        let partitions = sort.properties().output_partitioning().partition_count();
        Self { order, filter, key: Mutex::default(), running: AtomicUsize::new(partitions) }
    }

    /// The rows of `batch` that may come before the boundary.
    ///
    /// # Errors
    /// When the filter cannot be evaluated.
    pub(crate) fn admit(&self, batch: &RecordBatch) -> Result<Option<RecordBatch>> {
        let mask = match self.filter.current()?.evaluate(batch)? {
            ColumnarValue::Scalar(ScalarValue::Boolean(Some(true))) => {
                return Ok(Some(batch.clone()));
            }
            ColumnarValue::Scalar(_) => return Ok(None),
            ColumnarValue::Array(mask) => mask,
        };
        let mask = mask.as_boolean();
        if !mask.has_true() {
            return Ok(None);
        }
        if mask.null_count() == 0 && !mask.has_false() {
            return Ok(Some(batch.clone()));
        }
        Ok(Some(filter_record_batch(batch, mask)?))
    }

    /// Rows must come before the one row of `row` from now on, unless they must do better already.
    ///
    /// # Errors
    /// When its key cannot be computed.
    pub(crate) fn tighten(&self, keys: &SortKeys, row: &RecordBatch) -> Result<()> {
        let columns = keys.evaluate(row)?;
        if columns.iter().any(|column| column.data_type().is_nested()) {
            // Expressions order nested values in another way than sorts do.
            return Ok(());
        }
        let encoded = keys.encode(std::slice::from_ref(&columns))?.row(0).data().to_vec();
        let mut key = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        if key.as_ref().is_none_or(|best| encoded < *best) {
            // Under the lock, so that of two partitions the better filter stays.
            self.filter.update(before(&self.order, &columns)?)?;
            *key = Some(encoded);
        }
        Ok(())
    }

    /// Whether no row after the last of `batch` can come before the boundary, when the rows come
    /// in the order of the key's first columns, whose keys are `leading`.
    ///
    /// # Errors
    /// When keys cannot be computed.
    pub(crate) fn is_passed(&self, leading: &SortKeys, batch: &RecordBatch) -> Result<bool> {
        let Some(last) = batch.num_rows().checked_sub(1) else { return Ok(false) };
        let columns = leading.evaluate(&batch.slice(last, 1))?;
        let encoded = leading.encode(&[columns])?;
        let last = encoded.row(0);
        let key = self.key.lock().unwrap_or_else(PoisonError::into_inner);
        // The encoding of some columns is the beginning of the encoding of more.
        Ok(key.as_ref().is_some_and(|key| last.data() > &key[..last.data().len().min(key.len())]))
    }

    /// One partition will not tighten it any more.
    pub(crate) fn leave(&self) {
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.filter.mark_complete();
        }
    }
}

/// The expression that is true of rows before the one row of `columns`.
fn before(order: &LexOrdering, columns: &[ArrayRef]) -> Result<Expression> {
    let mut rest: Option<Expression> = None;
    for (column, values) in order.iter().zip(columns).rev() {
        let value = ScalarValue::try_from_array(values, 0)?;
        let first = before_in(column, &value)?;
        let tied = match rest {
            Some(rest) => Some(both(equals(column, &value)?, Operator::And, rest)),
            None => None,
        };
        rest = match (first, tied) {
            (Some(first), Some(tied)) => Some(both(first, Operator::Or, tied)),
            (first, tied) => first.or(tied),
        };
    }
    Ok(rest.unwrap_or_else(|| lit(false)))
}

fn both(left: Expression, operator: Operator, right: Expression) -> Expression {
    Arc::new(BinaryExpr::new(left, operator, right))
}

/// What is true when a row's value of one column comes before `value`; `None` if none does.
fn before_in(column: &PhysicalSortExpr, value: &ScalarValue) -> Result<Option<Expression>> {
    let expression = || Arc::clone(&column.expr);
    // Expressions take zeros of both signs for equal, sorts do not.
    let is_zero = match value {
        ScalarValue::Float16(Some(value)) => value.to_f32() == 0.0,
        ScalarValue::Float32(Some(value)) => *value == 0.0,
        ScalarValue::Float64(Some(value)) => *value == 0.0,
        _ => false,
    };
    let operator = match (column.options.descending, is_zero) {
        (true, false) => Operator::Gt,
        (true, true) => Operator::GtEq,
        (false, false) => Operator::Lt,
        (false, true) => Operator::LtEq,
    };
    let compared = both(expression(), operator, lit(value.clone()));
    Ok(match (column.options.nulls_first, value.is_null()) {
        (true, true) => None,
        (true, false) => Some(both(is_null(expression())?, Operator::Or, compared)),
        (false, true) => Some(is_not_null(expression())?),
        (false, false) => Some(compared),
    })
}

fn equals(column: &PhysicalSortExpr, value: &ScalarValue) -> Result<Expression> {
    let expression = Arc::clone(&column.expr);
    if value.is_null() {
        return is_null(expression);
    }
    Ok(both(expression, Operator::Eq, lit(value.clone())))
}
