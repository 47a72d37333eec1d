//! Window functions computed in two passes over the blocks of a partition.

use std::any::Any;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, Float64Array, RecordBatch, UInt64Array};
use datafusion::common::{Result, ScalarValue, internal_err};
use datafusion::functions_window::cume_dist::CumeDist;
use datafusion::functions_window::nth_value::NthValue;
use datafusion::functions_window::ntile::Ntile;
use datafusion::functions_window::rank::Rank;
use datafusion::functions_window::row_number::RowNumber;
use datafusion::logical_expr::{Accumulator, WindowFrameBound, WindowFrameUnits};
use datafusion::physical_expr::expressions::Literal;
use datafusion::physical_expr::window::{PlainAggregateWindowExpr, StandardWindowExpr, WindowExpr};
use datafusion::physical_plan::windows::WindowUDFExpr;

use super::ranks::BlockRanks;

/// A window function that is computed in one pass over the arriving rows and one over the blocks
/// read back.
#[derive(Debug)]
pub(crate) enum Pass {
    /// An aggregate of all rows of the partition.
    Whole {
        expression: Arc<dyn WindowExpr>,
        state: Box<dyn Accumulator>,
        value: ScalarValue,
    },
    RowNumber,
    Rank,
    DenseRank,
    PercentRank,
    CumeDist,
    /// The number of buckets.
    Ntile(u64),
    /// The value of the first or the last row of the partition.
    Edge {
        expression: Arc<dyn WindowExpr>,
        edge: Edge,
        ignore_nulls: bool,
        value: Option<ScalarValue>,
    },
}

/// First or last row of a partition.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Edge {
    First,
    Last,
}

impl Pass {
    /// Returns the computation of `expression` in passes, if there is one.
    ///
    /// # Errors
    /// If an aggregate's state cannot be created.
    pub(crate) fn of(expression: &Arc<dyn WindowExpr>) -> Result<Option<Self>> {
        if let Some(standard) = expression.as_any().downcast_ref::<StandardWindowExpr>() {
            let function = standard.get_standard_func_expr().as_any();
            let function = function.downcast_ref::<WindowUDFExpr>();
            return Ok(function.and_then(|it| standard_pass(it).or_else(|| edge(it, expression))));
        }
        let Some(aggregate) = expression.as_any().downcast_ref::<PlainAggregateWindowExpr>() else {
            return Ok(None);
        };
        // DataFusion exposes the filter only in its debug output.
        let is_plain = format!("{aggregate:?}").ends_with("filter: None }");
        if !is_plain || !covers_partition(expression.as_ref()) {
            return Ok(None);
        }
        let state = aggregate.get_aggregate_expr().create_accumulator()?;
        Ok(Some(Self::Whole {
            expression: Arc::clone(expression),
            state,
            value: ScalarValue::Null,
        }))
    }

    /// Observes the rows as they arrive.
    ///
    /// # Errors
    /// If an aggregate rejects them.
    pub(crate) fn see(&mut self, batch: &RecordBatch) -> Result<()> {
        match self {
            Self::Whole { expression, state, .. } => {
                state.update_batch(&expression.evaluate_args(batch)?)
            }
            Self::Edge { value: Some(_), edge: Edge::First, .. } => Ok(()),
            Self::Edge { expression, edge, ignore_nulls, value } => {
                let arguments = expression.evaluate_args(batch)?;
                if let Some(values) = arguments.first()
                    && let Some(row) = edge.row_of(values, *ignore_nulls)
                {
                    // A value that refers to a page would keep the page pinned.
                    let mut edge = ScalarValue::try_from_array(values, row)?;
                    edge.compact();
                    *value = Some(edge);
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    /// Computes the values that depend on the whole partition, once it is complete.
    ///
    /// # Errors
    /// If an aggregate has no value.
    pub(crate) fn finish(&mut self) -> Result<()> {
        match self {
            Self::Whole { state, value, .. } => *value = state.evaluate()?,
            Self::Edge { expression, value, .. } if value.is_none() => {
                *value = Some(ScalarValue::try_from(expression.field()?.data_type())?);
            }
            _ => {}
        }
        Ok(())
    }

    /// Returns the values for the rows of one block of a partition of `total` rows.
    ///
    /// # Errors
    /// If a value cannot be repeated.
    pub(crate) fn column(&self, block: &BlockRanks, rows: usize, total: u64) -> Result<ArrayRef> {
        let numbers = |values: Vec<u64>| Arc::new(UInt64Array::from(values)) as ArrayRef;
        let shares = |values: Vec<f64>| Arc::new(Float64Array::from(values)) as ArrayRef;
        let places = block.start..block.start + rows as u64;
        Ok(match self {
            Self::Whole { value, .. } => value.to_array_of_size(rows)?,
            Self::Edge { value: Some(value), .. } => value.to_array_of_size(rows)?,
            Self::Edge { value: None, .. } => {
                return internal_err!("a partition whose end was not reached has no edge");
            }
            Self::RowNumber => numbers(places.map(|row| row + 1).collect()),
            Self::Rank => numbers(block.each(|_, peers| peers.start + 1)),
            Self::DenseRank => numbers(block.each(|number, _| number)),
            Self::PercentRank => {
                let others = total.saturating_sub(1).max(1) as f64;
                shares(block.each(|_, peers| peers.start as f64 / others))
            }
            Self::CumeDist => shares(block.each(|_, peers| peers.end as f64 / total as f64)),
            Self::Ntile(buckets) => {
                numbers(places.map(|row| bucket(row, total, *buckets)).collect())
            }
        })
    }
}

fn standard_pass(function: &WindowUDFExpr) -> Option<Pass> {
    let inner: &dyn Any = function.fun().inner().as_ref();
    if inner.is::<RowNumber>() {
        return Some(Pass::RowNumber);
    }
    if inner.is::<CumeDist>() {
        return Some(Pass::CumeDist);
    }
    if inner.is::<Ntile>() {
        let buckets = function.args().first()?.downcast_ref::<Literal>()?.value();
        let buckets = buckets.cast_to(&datafusion::arrow::datatypes::DataType::UInt64).ok()?;
        return match buckets {
            ScalarValue::UInt64(Some(buckets)) if buckets > 0 => Some(Pass::Ntile(buckets)),
            _ => None,
        };
    }
    match function.fun().name() {
        _ if !inner.is::<Rank>() => None,
        "rank" => Some(Pass::Rank),
        "dense_rank" => Some(Pass::DenseRank),
        "percent_rank" => Some(Pass::PercentRank),
        _ => None,
    }
}

impl Edge {
    /// Returns the row of a batch that may be the edge, if there is one.
    fn row_of(self, values: &ArrayRef, ignore_nulls: bool) -> Option<usize> {
        let nulls = values.logical_nulls().filter(|_| ignore_nulls);
        let mut rows = 0..values.len();
        let is_valid = |row: &usize| nulls.as_ref().is_none_or(|nulls| nulls.is_valid(*row));
        match self {
            Self::First => rows.find(is_valid),
            Self::Last => rows.rfind(is_valid),
        }
    }
}

/// Returns the pass of `first_value` if every frame begins with the partition, and of `last_value`
/// if every frame ends with it.
fn edge(function: &WindowUDFExpr, expression: &Arc<dyn WindowExpr>) -> Option<Pass> {
    let inner: &dyn Any = function.fun().inner().as_ref();
    let edge = match function.fun().name() {
        _ if !inner.is::<NthValue>() => return None,
        "first_value" => Edge::First,
        "last_value" => Edge::Last,
        _ => return None,
    };
    // DataFusion exposes the treatment of nulls only in its debug output.
    let ignore_nulls = !format!("{function:?}").ends_with("ignore_nulls: false }");
    let frame = expression.get_window_frame();
    let has_row = match (edge, &frame.start_bound, &frame.end_bound) {
        (Edge::First, start, end) => {
            start.is_unbounded() && !matches!(end, WindowFrameBound::Preceding(_))
        }
        (Edge::Last, start, end) => {
            end.is_unbounded() && !matches!(start, WindowFrameBound::Following(_))
        }
    };
    let whole = covers_partition(expression.as_ref());
    (whole || (has_row && !ignore_nulls)).then(|| Pass::Edge {
        expression: Arc::clone(expression),
        edge,
        ignore_nulls,
        value: None,
    })
}

/// Returns true if every row's frame is the whole partition.
fn covers_partition(expression: &dyn WindowExpr) -> bool {
    let frame = expression.get_window_frame();
    let without_order = frame.units == WindowFrameUnits::Range && expression.order_by().is_empty();
    let is_open = |bound: &WindowFrameBound| match bound {
        WindowFrameBound::CurrentRow => without_order,
        bound => bound.is_unbounded(),
    };
    is_open(&frame.start_bound) && is_open(&frame.end_bound)
}

/// Returns the bucket of a row when `total` rows go to buckets whose sizes differ by one at most,
/// the larger ones first.
fn bucket(row: u64, total: u64, buckets: u64) -> u64 {
    let (small, larger) = (total / buckets, total % buckets);
    let in_larger = larger * (small + 1);
    if row < in_larger {
        row / (small + 1) + 1
    } else {
        larger + (row - in_larger) / small.max(1) + 1
    }
}
