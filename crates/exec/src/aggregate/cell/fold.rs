//! Aggregates that fold every row into one value: min, max and the operations on bits.

use std::fmt;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::{ArrowNativeType, DataType};
use datafusion::common::Result;

use super::interface::{Cell, Input, Room, Taken, nulls, put, taken};
use crate::functions::{array, natives};
use crate::rows::Slots;

/// A folded value, and a flag that is set once a value was not null; both are offsets in a row's
/// extra bytes.
pub(super) struct Fold<T, F> {
    value: usize,
    seen: usize,
    start: T,
    /// Folds in a value; returns true if that changed the state.
    fold: F,
    data_type: DataType,
    taken: Taken,
    /// True if some groups of the table may not have seen a value.
    unseen: bool,
}

impl<T: ArrowNativeType, F: Fn(&mut T, T) -> bool> Fold<T, F> {
    pub(super) fn new(room: &mut Room, data_type: &DataType, start: T, fold: F) -> Self {
        let (value, seen) = (room.take::<T>(), room.take::<u8>());
        let data_type = data_type.clone();
        Self { value, seen, start, fold, data_type, taken: Taken::All, unseen: false }
    }
}

impl<T, F> fmt::Debug for Fold<T, F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fold({} at {})", self.data_type, self.value)
    }
}

impl<T: ArrowNativeType, F: Fn(&mut T, T) -> bool + Send> Cell for Fold<T, F> {
    fn begin(&mut self, input: Input<'_>) -> Result<()> {
        self.taken = taken(input.columns[0].logical_nulls().as_ref(), input.filter);
        self.unseen |= matches!(self.taken, Taken::Some(_));
        Ok(())
    }

    fn start(&self, row: &mut [u8]) {
        put(row, self.value, self.start);
        // A group is created by one of its own rows.
        row[self.seen] = u8::from(matches!(self.taken, Taken::All));
    }

    fn neutral(&self, row: &mut [u8]) {
        put(row, self.value, self.start);
        row[self.seen] = 0;
    }

    fn take(&mut self, slots: &mut Slots<'_>, input: Input<'_>) -> Result<()> {
        let values = natives::<T>(&input.columns[0])?;
        match &self.taken {
            Taken::All => {
                slots.fold_some(self.value, values.iter().copied(), &self.fold);
                if self.unseen {
                    slots.store(self.seen, std::iter::repeat_n(1_u8, values.len()));
                }
            }
            Taken::Some(rows) => {
                slots.fold_selected(self.value, rows, &values, |state: &mut T, value| {
                    (self.fold)(state, value);
                });
                slots.fold_selected(self.seen, rows, &values, |seen, _| *seen = 1_u8);
            }
        }
        Ok(())
    }

    fn states(&self, slots: &Slots<'_>) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(slots)?])
    }

    fn evaluate(&self, slots: &Slots<'_>) -> Result<ArrayRef> {
        let nulls = nulls(&slots.load::<u8>(self.seen));
        array(&self.data_type, slots.load::<T>(self.value), nulls)
    }
}
