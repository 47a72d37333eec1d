//! `count`: the number of rows whose value is not null.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::Result;

use super::interface::{Cell, Input, Room, Taken, put, taken};
use crate::functions::{array, natives};
use crate::rows::Slots;

/// The number of rows that are neither null nor filtered out; `count` is its offset in a row's
/// extra bytes.
#[derive(Debug)]
pub(super) struct Count {
    count: usize,
    taken: Taken,
}

impl Count {
    pub(super) fn new(room: &mut Room) -> Self {
        Self { count: room.take::<i64>(), taken: Taken::All }
    }
}

impl Cell for Count {
    fn begin(&mut self, input: Input<'_>) -> Result<()> {
        if !input.states {
            let nulls = input.columns.first().and_then(|column| column.logical_nulls());
            self.taken = taken(nulls.as_ref(), input.filter);
        }
        Ok(())
    }

    fn start(&self, row: &mut [u8]) {
        put(row, self.count, 0_i64);
    }

    fn take(&mut self, slots: &mut Slots<'_>, input: Input<'_>) -> Result<()> {
        if input.states {
            let counts = natives::<i64>(&input.columns[0])?;
            let add = |count: &mut i64, more: i64| *count = count.wrapping_add(more);
            slots.fold(self.count, counts.iter().copied(), add);
            return Ok(());
        }
        let add = |count: &mut i64, ()| *count += 1;
        match &self.taken {
            Taken::All => slots.fold(self.count, std::iter::repeat_n((), slots.len()), add),
            Taken::Some(rows) => {
                let units = vec![(); slots.len()];
                slots.fold_selected(self.count, rows, &units, add);
            }
        }
        Ok(())
    }

    fn states(&self, slots: &Slots<'_>) -> Result<Vec<ArrayRef>> {
        Ok(vec![self.evaluate(slots)?])
    }

    fn evaluate(&self, slots: &Slots<'_>) -> Result<ArrayRef> {
        array(&DataType::Int64, slots.load::<i64>(self.count), None)
    }
}
