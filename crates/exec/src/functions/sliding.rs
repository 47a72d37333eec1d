//! Aggregates of floating-point numbers over sliding window frames.
//!
//! DataFusion's accumulators subtract rows that leave a frame. With floating-point numbers that
//! does not restore the previous value: infinity minus infinity is NaN for the rest of the
//! partition, and a small number added to a large one is lost when the large one leaves. Here a
//! frame has two parts, like a queue made of two stacks: for each of the older rows, the aggregate
//! of it and the older rows after it; for the newer rows, one aggregate of all. A row that leaves
//! takes its entry with it, and a result combines both parts. When no entry is left, the newer rows
//! become the older part. Each row is added twice, and nothing is ever subtracted.

use std::fmt;
use std::mem::size_of_val;
use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, FieldRef, Float64Type, Schema};
use datafusion::common::{Result, ScalarValue, not_impl_err};
use datafusion::logical_expr::function::AccumulatorArgs;
use datafusion::logical_expr::{Accumulator, AggregateUDF};
use datafusion::physical_expr::{PhysicalExpr, PhysicalSortExpr};

/// An aggregation of rows without subtraction.
pub(super) trait Fold: fmt::Debug + Send + Sync + 'static {
    /// The aggregate of some rows.
    type State: Clone + fmt::Debug + Send + Sync;

    /// Returns the state of no rows.
    fn nothing(&self) -> Result<Self::State>;

    /// Adds the rows of `arguments`, one array per argument, to `state`.
    fn add(&self, state: &mut Self::State, arguments: &[ArrayRef]) -> Result<()>;

    /// Returns the result of the aggregate over the rows of both states together.
    fn result(&self, older: &Self::State, newer: &Self::State) -> Result<ScalarValue>;

    /// Returns the heap bytes that a state refers to.
    fn heap_bytes(&self, state: &Self::State) -> usize;
}

/// Accumulator over a sliding window frame; see the module's text for the two parts.
#[derive(Debug)]
pub(super) struct Sliding<F: Fold> {
    fold: F,
    /// For each of the older rows, the oldest last, the state of it and of all older rows after it.
    older: Vec<F::State>,
    /// The state of the newer rows.
    newer: F::State,
    /// The arguments of the newer rows, one element per update.
    arguments: Vec<Vec<ArrayRef>>,
    nothing: F::State,
}

impl<F: Fold> Sliding<F> {
    pub(super) fn new(fold: F) -> Result<Self> {
        let nothing = fold.nothing()?;
        let newer = nothing.clone();
        Ok(Self { fold, older: Vec::new(), newer, arguments: Vec::new(), nothing })
    }

    /// Turns the newer rows into the older part, which is empty.
    fn turn(&mut self) -> Result<()> {
        let mut state = self.nothing.clone();
        for piece in std::mem::take(&mut self.arguments).iter().rev() {
            for row in (0..rows(piece)).rev() {
                let one: Vec<_> = piece.iter().map(|column| column.slice(row, 1)).collect();
                self.fold.add(&mut state, &one)?;
                self.older.push(state.clone());
            }
        }
        self.newer = self.nothing.clone();
        Ok(())
    }
}

fn rows(arguments: &[ArrayRef]) -> usize {
    arguments.first().map_or(0, |column| column.len())
}

impl<F: Fold> Accumulator for Sliding<F> {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        self.fold.add(&mut self.newer, values)?;
        self.arguments.push(values.to_vec());
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        for _ in 0..rows(values) {
            if self.older.is_empty() {
                self.turn()?;
            }
            self.older.pop();
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.fold.result(self.older.last().unwrap_or(&self.nothing), &self.newer)
    }

    fn size(&self) -> usize {
        let heap = self.older.first().map_or(0, |state| self.fold.heap_bytes(state));
        let older = self.older.capacity() * (size_of::<F::State>() + heap);
        let slices = self.arguments.iter().map(|piece| size_of_val(piece.as_slice()));
        size_of_val(self) + older + slices.sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        not_impl_err!("a window frame that moves has no state to hand on")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        not_impl_err!("a window frame that moves takes no state over")
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }
}

/// A sum, and the number of its values.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Total {
    sum: f64,
    count: u64,
}

/// Sums or averages of floating-point numbers.
#[derive(Debug)]
pub(super) struct Totals {
    pub(super) is_average: bool,
}

impl Fold for Totals {
    type State = Total;

    fn nothing(&self) -> Result<Total> {
        Ok(Total::default())
    }

    fn add(&self, state: &mut Total, arguments: &[ArrayRef]) -> Result<()> {
        let numbers = match arguments[0].data_type() {
            DataType::Float64 => Arc::clone(&arguments[0]),
            _ => cast(&arguments[0], &DataType::Float64)?,
        };
        let numbers = numbers.as_primitive::<Float64Type>();
        state.sum = numbers.iter().flatten().fold(state.sum, |sum, number| sum + number);
        state.count += terrace_sys::size::to_u64(numbers.len() - numbers.null_count());
        Ok(())
    }

    fn result(&self, older: &Total, newer: &Total) -> Result<ScalarValue> {
        let count = older.count + newer.count;
        // A part without numbers adds nothing, not even a zero.
        let sum = match (older.count, newer.count) {
            (0, _) => newer.sum,
            (_, 0) => older.sum,
            _ => older.sum + newer.sum,
        };
        #[expect(clippy::cast_precision_loss, reason = "a count of rows is below 2^53")]
        let value = if self.is_average { sum / count as f64 } else { sum };
        Ok(ScalarValue::Float64((count > 0).then_some(value)))
    }

    fn heap_bytes(&self, _: &Total) -> usize {
        0
    }
}

/// Any aggregate function: states are merged by DataFusion's accumulators.
pub(super) struct Merging {
    function: AggregateUDF,
    result: FieldRef,
    schema: Schema,
    order: Vec<PhysicalSortExpr>,
    name: String,
    arguments: Vec<Arc<dyn PhysicalExpr>>,
    fields: Vec<FieldRef>,
    ignore_nulls: bool,
    is_reversed: bool,
}

impl Merging {
    pub(super) fn new(function: &AggregateUDF, args: &AccumulatorArgs<'_>) -> Self {
        Self {
            function: function.clone(),
            result: Arc::clone(&args.return_field),
            schema: args.schema.clone(),
            order: args.order_bys.to_vec(),
            name: args.name.to_owned(),
            arguments: args.exprs.to_vec(),
            fields: args.expr_fields.to_vec(),
            ignore_nulls: args.ignore_nulls,
            is_reversed: args.is_reversed,
        }
    }

    /// Creates an accumulator and merges `state` into it.
    fn of(&self, state: &[ScalarValue]) -> Result<Box<dyn Accumulator>> {
        let mut accumulator = self.function.accumulator(AccumulatorArgs {
            return_field: Arc::clone(&self.result),
            schema: &self.schema,
            ignore_nulls: self.ignore_nulls,
            order_bys: &self.order,
            is_reversed: self.is_reversed,
            name: &self.name,
            is_distinct: false,
            exprs: &self.arguments,
            expr_fields: &self.fields,
        })?;
        merge(accumulator.as_mut(), state)?;
        Ok(accumulator)
    }
}

fn merge(accumulator: &mut dyn Accumulator, state: &[ScalarValue]) -> Result<()> {
    let arrays = state.iter().map(ScalarValue::to_array).collect::<Result<Vec<_>>>()?;
    if arrays.is_empty() { Ok(()) } else { accumulator.merge_batch(&arrays) }
}

impl fmt::Debug for Merging {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Merging").field(&self.name).finish()
    }
}

impl Fold for Merging {
    type State = Vec<ScalarValue>;

    /// Returns an empty state, which is not merged.
    fn nothing(&self) -> Result<Vec<ScalarValue>> {
        Ok(Vec::new())
    }

    fn add(&self, state: &mut Vec<ScalarValue>, arguments: &[ArrayRef]) -> Result<()> {
        let mut accumulator = self.of(state)?;
        accumulator.update_batch(arguments)?;
        *state = accumulator.state()?;
        Ok(())
    }

    fn result(&self, older: &Vec<ScalarValue>, newer: &Vec<ScalarValue>) -> Result<ScalarValue> {
        let mut accumulator = self.of(older)?;
        merge(accumulator.as_mut(), newer)?;
        accumulator.evaluate()
    }

    fn heap_bytes(&self, state: &Vec<ScalarValue>) -> usize {
        state.iter().map(ScalarValue::size).sum()
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Float64Array;

    use super::*;

    fn of(numbers: &[Option<f64>]) -> Vec<ArrayRef> {
        vec![Arc::new(Float64Array::from(numbers.to_vec()))]
    }

    #[test]
    fn what_has_left_leaves_no_trace() {
        let mut sums = Sliding::new(Totals { is_average: false }).expect("no rows");
        assert_eq!(sums.evaluate().expect("a sum"), ScalarValue::Float64(None));
        let numbers = [Some(f64::INFINITY), Some(1e20), Some(1.0), None, Some(2.0)];
        sums.update_batch(&of(&numbers[..2])).expect("numbers");
        sums.update_batch(&of(&numbers[2..])).expect("numbers");
        let expected = [f64::INFINITY, 1e20 + 3.0, 3.0, 2.0, 2.0];
        for (row, expected) in expected.into_iter().enumerate() {
            let sum = sums.evaluate().expect("a sum");
            assert_eq!(sum, ScalarValue::from(expected), "from row {row} on");
            sums.retract_batch(&of(&numbers[row..=row])).expect("it is in the frame");
        }
        assert_eq!(sums.evaluate().expect("a sum"), ScalarValue::Float64(None));
    }

    #[test]
    fn a_frame_of_three_rows_moves() {
        let numbers: Vec<_> = (0..100).map(|number| Some(f64::from(number))).collect();
        let mut averages = Sliding::new(Totals { is_average: true }).expect("no rows");
        for row in 0..numbers.len() {
            averages.update_batch(&of(&numbers[row..=row])).expect("a number");
            if row >= 3 {
                averages.retract_batch(&of(&numbers[row - 3..row - 2])).expect("the oldest");
            }
            let first = row.saturating_sub(2);
            let frame: Vec<f64> = numbers[first..=row].iter().flatten().copied().collect();
            let expected =
                frame.iter().sum::<f64>() / f64::from(u8::try_from(frame.len()).unwrap_or(1));
            assert_eq!(averages.evaluate().expect("an average"), ScalarValue::from(expected));
        }
    }
}
