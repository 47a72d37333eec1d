//! `sum`, with a state in a wider type than the values where they could overflow.

use std::fmt;
use std::marker::PhantomData;

use datafusion::arrow::array::{ArrayRef, ArrowNativeTypeOp};
use datafusion::arrow::buffer::NullBuffer;
use datafusion::arrow::datatypes::{ArrowNativeType, DataType};
use datafusion::common::Result;

use super::interface::{Cell, Input, Room, Taken, nulls, put, taken};
use crate::functions::{array, natives, out_of_range};
use crate::rows::Slots;

/// Converts sums and their nulls to results of a type; the text names the function in errors.
pub(super) type Finish<S> = fn(&str, Vec<S>, Option<NullBuffer>, &DataType) -> Result<ArrayRef>;

/// A sum, and a flag that is set once a value was not null; both are offsets in a row's extra
/// bytes. `V` is the native type of the values, `S` that of the sum.
pub(super) struct Sum<V, S> {
    sum: usize,
    seen: usize,
    sum_type: DataType,
    result: DataType,
    finish: Finish<S>,
    taken: Taken,
    /// True if some groups of the table may not have seen a value.
    unseen: bool,
    /// True if a sum did not fit its type.
    overflowed: std::cell::Cell<bool>,
    values: PhantomData<fn(V) -> S>,
}

impl<V, S: ArrowNativeTypeOp + ArrowNativeType> Sum<V, S> {
    pub(super) fn new(
        room: &mut Room,
        sum_type: DataType,
        result: &DataType,
        finish: Finish<S>,
    ) -> Self {
        let (sum, seen, result) = (room.take::<S>(), room.take::<u8>(), result.clone());
        let (taken, values, overflowed) = (Taken::All, PhantomData, std::cell::Cell::new(false));
        Self { sum, seen, sum_type, result, finish, taken, unseen: false, overflowed, values }
    }

    fn add<T: ArrowNativeTypeOp + Into<S>>(&self, slots: &mut Slots<'_>, values: &[T]) {
        let add = |sum: &mut S, more: T| match sum.add_checked(more.into()) {
            Ok(total) => *sum = total,
            Err(_) => self.overflowed.set(true),
        };
        match &self.taken {
            Taken::All => {
                slots.fold(self.sum, values.iter().copied(), add);
                if self.unseen {
                    slots.store(self.seen, std::iter::repeat_n(1_u8, values.len()));
                }
            }
            Taken::Some(rows) => {
                slots.fold_selected(self.sum, rows, values, add);
                slots.fold_selected(self.seen, rows, values, |seen, _| *seen = 1_u8);
            }
        }
    }
}

impl<V, S> fmt::Debug for Sum<V, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Sum({} at {})", self.sum_type, self.sum)
    }
}

impl<V, S> Cell for Sum<V, S>
where
    V: ArrowNativeTypeOp + Into<S>,
    S: ArrowNativeTypeOp + ArrowNativeType,
{
    fn begin(&mut self, input: Input<'_>) -> Result<()> {
        self.taken = taken(input.columns[0].logical_nulls().as_ref(), input.filter);
        self.unseen |= matches!(self.taken, Taken::Some(_));
        Ok(())
    }

    fn start(&self, row: &mut [u8]) {
        put(row, self.sum, S::ZERO);
        // A group is created by one of its own rows.
        row[self.seen] = u8::from(matches!(self.taken, Taken::All));
    }

    fn neutral(&self, row: &mut [u8]) {
        put(row, self.sum, S::ZERO);
        row[self.seen] = 0;
    }

    fn take(&mut self, slots: &mut Slots<'_>, input: Input<'_>) -> Result<()> {
        match input.states {
            true => self.add(slots, &natives::<S>(&input.columns[0])?),
            false => self.add(slots, &natives::<V>(&input.columns[0])?),
        }
        match self.overflowed.get() {
            true => Err(out_of_range("sum", &self.result)),
            false => Ok(()),
        }
    }

    fn states(&self, slots: &Slots<'_>) -> Result<Vec<ArrayRef>> {
        let nulls = nulls(&slots.load::<u8>(self.seen));
        Ok(vec![array(&self.sum_type, slots.load::<S>(self.sum), nulls)?])
    }

    fn evaluate(&self, slots: &Slots<'_>) -> Result<ArrayRef> {
        let nulls = nulls(&slots.load::<u8>(self.seen));
        (self.finish)("sum", slots.load::<S>(self.sum), nulls, &self.result)
    }
}
