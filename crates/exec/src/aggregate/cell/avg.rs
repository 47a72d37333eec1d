//! `avg`: a count and a sum, which is wider than the values if they are integers or decimals.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ArrowNativeTypeOp};
use datafusion::arrow::datatypes::{ArrowNativeType, DataType};
use datafusion::common::Result;
use datafusion::logical_expr::EmitTo;
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;

use super::interface::{Cell, Input, Room, Taken, nulls, put, taken};
use crate::functions::{array, natives, out_of_range};
use crate::rows::Slots;

/// A count of values and their sum; DataFusion's accumulator of `function` divides them. `V` is the
/// native type of signed values, `U` that of unsigned ones, `S` that of the sum; `count` and `sum`
/// are offsets in a row's extra bytes.
pub(super) struct Avg<V, S, U = V> {
    count: usize,
    sum: usize,
    sum_type: DataType,
    function: Arc<AggregateFunctionExpr>,
    taken: Taken,
    /// True if a sum did not fit its type.
    overflowed: std::cell::Cell<bool>,
    values: PhantomData<fn(V, U) -> S>,
}

impl<V, S: ArrowNativeTypeOp, U> Avg<V, S, U> {
    pub(super) fn new(
        room: &mut Room,
        sum_type: &DataType,
        function: &Arc<AggregateFunctionExpr>,
    ) -> Self {
        let (sum, count) = (room.take::<S>(), room.take::<u64>());
        let (sum_type, function) = (sum_type.clone(), Arc::clone(function));
        let (taken, values, overflowed) = (Taken::All, PhantomData, std::cell::Cell::new(false));
        Self { count, sum, sum_type, function, taken, overflowed, values }
    }

    fn add<T: ArrowNativeTypeOp + Into<S>>(
        &self,
        slots: &mut Slots<'_>,
        sums: &[T],
        counts: Option<&[u64]>,
    ) {
        let add = |sum: &mut S, more: T| match sum.add_checked(more.into()) {
            Ok(total) => *sum = total,
            Err(_) => self.overflowed.set(true),
        };
        let count = |count: &mut u64, more: u64| *count = count.wrapping_add(more);
        match (&self.taken, counts) {
            (Taken::All, None) => {
                let places = (self.sum, self.count);
                slots.fold_two(places, sums.iter().copied(), |sum, n, more| {
                    add(sum, more);
                    count(n, 1);
                });
            }
            (Taken::All, Some(counts)) => {
                let (places, both) = ((self.sum, self.count), sums.iter().copied().zip(counts));
                slots.fold_two(places, both, |sum, n, (more, times)| {
                    add(sum, more);
                    count(n, *times);
                });
            }
            (Taken::Some(rows), counts) => {
                slots.fold_selected(self.sum, rows, sums, add);
                match counts {
                    Some(counts) => slots.fold_selected(self.count, rows, counts, count),
                    None => slots.fold_selected(self.count, rows, sums, |n, _| count(n, 1)),
                }
            }
        }
    }
}

impl<V, S, U> fmt::Debug for Avg<V, S, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Avg({} at {})", self.sum_type, self.sum)
    }
}

impl<V, S, U> Cell for Avg<V, S, U>
where
    V: ArrowNativeTypeOp + Into<S>,
    U: ArrowNativeTypeOp + Into<S>,
    S: ArrowNativeTypeOp + ArrowNativeType,
{
    fn begin(&mut self, input: Input<'_>) -> Result<()> {
        self.taken = taken(input.columns[0].logical_nulls().as_ref(), input.filter);
        Ok(())
    }

    fn start(&self, row: &mut [u8]) {
        put(row, self.count, 0_u64);
        put(row, self.sum, S::ZERO);
    }

    fn take(&mut self, slots: &mut Slots<'_>, input: Input<'_>) -> Result<()> {
        if input.states {
            let (counts, sums) = (natives(&input.columns[0])?, natives::<S>(&input.columns[1])?);
            self.add(slots, &sums, Some(&counts));
        } else if input.columns[0].data_type().is_unsigned_integer() {
            self.add(slots, &natives::<U>(&input.columns[0])?, None);
        } else {
            self.add(slots, &natives::<V>(&input.columns[0])?, None);
        }
        match self.overflowed.get() {
            true => Err(out_of_range("the sum of avg", &self.sum_type)),
            false => Ok(()),
        }
    }

    fn states(&self, slots: &Slots<'_>) -> Result<Vec<ArrayRef>> {
        let counts = slots.load::<u64>(self.count);
        let seen: Vec<u8> = counts.iter().map(|count| u8::from(*count != 0)).collect();
        let nulls = nulls(&seen);
        Ok(vec![
            array(&DataType::UInt64, counts, nulls.clone())?,
            array(&self.sum_type, slots.load::<S>(self.sum), nulls)?,
        ])
    }

    fn evaluate(&self, slots: &Slots<'_>) -> Result<ArrayRef> {
        let mut division = self.function.create_groups_accumulator()?;
        let groups: Vec<usize> = (0..slots.len()).collect();
        division.merge_batch(&self.states(slots)?, &groups, slots.len())?;
        division.evaluate(EmitTo::All)
    }
}
