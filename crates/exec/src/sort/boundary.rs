//! Boundary of a top-k sort: the k-th row so far, which later rows must precede.
//!
//! Once a partition has k rows, only rows that precede the last of them can be in the result. The
//! partitions of a sort share the best such row. It is published in the dynamic filter that the
//! optimizer may have pushed down to the scan, as DataFusion's own sort does.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

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
use terrace_sys::sync::lock;

use super::key::SortKeys;

type Expression = Arc<dyn PhysicalExpr>;

/// The row that later rows must precede, and the filter that enforces it.
#[derive(Debug)]
pub(crate) struct Boundary {
    order: LexOrdering,
    filter: Arc<DynamicFilterPhysicalExpr>,
    /// The row's encoded key.
    key: Mutex<Option<Vec<u8>>>,
    /// Number of partitions that may still tighten it.
    running: AtomicUsize,
}

impl Boundary {
    /// Creates the boundary of the partitions of `sort`.
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

    /// Returns the rows of `batch` that may precede the boundary; `None` if there are none.
    ///
    /// # Errors
    /// If the filter cannot be evaluated.
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

    /// Moves the boundary to the only row of `row`, unless it already precedes that.
    ///
    /// # Errors
    /// If the key of the row cannot be computed.
    pub(crate) fn tighten(&self, keys: &SortKeys, row: &RecordBatch) -> Result<()> {
        let columns = keys.evaluate(row)?;
        if columns.iter().any(|column| column.data_type().is_nested()) {
            // Expressions order nested values differently than sorts do.
            return Ok(());
        }
        let encoded = keys.encode(std::slice::from_ref(&columns))?.row(0).data().to_vec();
        let mut key = lock(&self.key);
        if key.as_ref().is_none_or(|best| encoded < *best) {
            // Under the lock, so that the better filter of two partitions stays.
            self.filter.update(before(&self.order, &columns)?)?;
            *key = Some(encoded);
        }
        Ok(())
    }

    /// Returns true if no row after `batch` can precede the boundary, for input ordered by the
    /// first columns of the key, whose keys are `leading`.
    ///
    /// # Errors
    /// If keys cannot be computed.
    pub(crate) fn is_passed(&self, leading: &SortKeys, batch: &RecordBatch) -> Result<bool> {
        let Some(last) = batch.num_rows().checked_sub(1) else { return Ok(false) };
        let columns = leading.evaluate(&batch.slice(last, 1))?;
        let encoded = leading.encode(&[columns])?;
        let last = encoded.row(0);
        let key = lock(&self.key);
        // The encoding of some columns is a prefix of the encoding of more.
        Ok(key.as_ref().is_some_and(|key| last.data() > &key[..last.data().len().min(key.len())]))
    }

    /// Records that a partition has ended; after the last one the filter is complete.
    pub(crate) fn leave(&self) {
        if self.running.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.filter.mark_complete();
        }
    }
}

/// Returns the expression that is true for rows before the one row of `columns`.
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

/// Returns the expression that is true if a row's value of one column comes before `value`; `None`
/// if none does.
fn before_in(column: &PhysicalSortExpr, value: &ScalarValue) -> Result<Option<Expression>> {
    let expression = || Arc::clone(&column.expr);
    // Expressions treat zeros of both signs as equal, sorts do not.
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
