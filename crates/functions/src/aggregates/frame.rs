//! Accumulator of sliding window frames, which keeps the rows of its frame.

use std::fmt;

use datafusion::arrow::array::{Array, ArrayRef};
use datafusion::arrow::compute::concat;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, not_impl_err};
use datafusion::logical_expr::{Accumulator, EmitTo};

use super::factory::Factory;
use super::single::with_one_group;

/// The arguments of the rows of a frame. A result is computed from all of them.
pub(super) struct Frame {
    factory: Factory,
    types: Vec<DataType>,
    /// The arguments, the oldest first; every piece has rows.
    pieces: Vec<Vec<ArrayRef>>,
}

impl Frame {
    /// Creates an empty frame, for arguments of `types`.
    pub(super) fn new(factory: Factory, types: Vec<DataType>) -> Self {
        Self { factory, types, pieces: Vec::new() }
    }

    /// Concatenates all pieces into one.
    fn join(&mut self) -> Result<()> {
        if self.pieces.len() > 1 {
            let column = |n: usize| {
                let pieces: Vec<&dyn Array> =
                    self.pieces.iter().map(|piece| piece[n].as_ref()).collect();
                Ok(concat(&pieces)?)
            };
            let columns = (0..self.types.len()).map(column).collect::<Result<_>>()?;
            self.pieces = vec![columns];
        }
        Ok(())
    }
}

fn rows(piece: &[ArrayRef]) -> usize {
    piece.first().map_or(0, |column| column.len())
}

impl Accumulator for Frame {
    fn update_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        if rows(values) > 0 {
            let arguments = self.types.len().min(values.len());
            self.pieces.push(values[..arguments].to_vec());
        }
        Ok(())
    }

    fn retract_batch(&mut self, values: &[ArrayRef]) -> Result<()> {
        let mut leaving = rows(values);
        let whole = self.pieces.iter().take_while(|piece| {
            let leaves = leaving >= rows(piece);
            leaving -= if leaves { rows(piece) } else { 0 };
            leaves
        });
        let whole = whole.count();
        self.pieces.drain(..whole);
        if let Some(first) = self.pieces.first_mut().filter(|_| leaving > 0) {
            for column in first {
                *column = column.slice(leaving, column.len() - leaving);
            }
        }
        Ok(())
    }

    fn evaluate(&mut self) -> Result<ScalarValue> {
        self.join()?;
        let mut groups = with_one_group(&self.factory, &self.types)?;
        for piece in &self.pieces {
            groups.update_batch(piece, &vec![0; rows(piece)], None, 1)?;
        }
        ScalarValue::try_from_array(&groups.evaluate(EmitTo::All)?, 0)
    }

    fn size(&self) -> usize {
        let columns = self.pieces.iter().flatten();
        let bytes = columns.map(|column| column.to_data().get_slice_memory_size().unwrap_or(0));
        size_of_val(self) + bytes.sum::<usize>()
    }

    fn state(&mut self) -> Result<Vec<ScalarValue>> {
        not_impl_err!("a window frame that moves has no state")
    }

    fn merge_batch(&mut self, _: &[ArrayRef]) -> Result<()> {
        not_impl_err!("a window frame that moves merges no state")
    }

    fn supports_retract_batch(&self) -> bool {
        true
    }
}

impl fmt::Debug for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Frame").field("types", &self.types).finish_non_exhaustive()
    }
}
