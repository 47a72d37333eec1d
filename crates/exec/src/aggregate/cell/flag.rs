//! `bool_and` and `bool_or`: the conjunction or disjunction of a group's Boolean values.

use std::sync::Arc;

use datafusion::arrow::array::{Array, ArrayRef, AsArray, BooleanArray};
use datafusion::arrow::buffer::BooleanBuffer;
use datafusion::common::Result;

use super::interface::{Cell, Input, Room, Taken, nulls, put, taken};
use crate::rows::Slots;

/// A Boolean state, and a flag that is set once a value was not null; both are offsets in a row's
/// extra bytes.
#[derive(Debug)]
pub(super) struct Flag {
    value: usize,
    seen: usize,
    /// True for `bool_and`, false for `bool_or`.
    all: bool,
    taken: Taken,
}

impl Flag {
    pub(super) fn new(room: &mut Room, all: bool) -> Self {
        Self { value: room.take::<u8>(), seen: room.take::<u8>(), all, taken: Taken::All }
    }
}

impl Cell for Flag {
    fn begin(&mut self, input: Input<'_>) -> Result<()> {
        self.taken = taken(input.columns[0].logical_nulls().as_ref(), input.filter);
        Ok(())
    }

    fn start(&self, row: &mut [u8]) {
        put(row, self.value, u8::from(self.all));
        row[self.seen] = 0;
    }

    fn take(&mut self, slots: &mut Slots<'_>, input: Input<'_>) -> Result<()> {
        let values = input.columns[0].as_boolean().values();
        let values: Vec<u8> = values.iter().map(u8::from).collect();
        let all: Vec<u32>;
        let rows = match &self.taken {
            Taken::Some(rows) => rows,
            Taken::All => {
                all = (0_u32..).take(values.len()).collect();
                &all
            }
        };
        if self.all {
            slots.fold_selected(self.value, rows, &values, |state: &mut u8, value| *state &= value);
        } else {
            slots.fold_selected(self.value, rows, &values, |state: &mut u8, value| *state |= value);
        }
        slots.fold_selected(self.seen, rows, &values, |seen, _| *seen = 1_u8);
        Ok(())
    }

    fn states(&self, slots: &Slots<'_>) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(slots)?])
    }

    fn evaluate(&self, slots: &Slots<'_>) -> Result<ArrayRef> {
        let values = slots.load::<u8>(self.value);
        let values = BooleanBuffer::collect_bool(values.len(), |row| values[row] != 0);
        let seen = slots.load::<u8>(self.seen);
        let array: ArrayRef = Arc::new(BooleanArray::new(values, nulls(&seen)));
        debug_assert_eq!(array.len(), slots.len());
        Ok(array)
    }
}
