//! Changes of sequences in the catalog's file.

use redb::ReadableTable as _;

use super::file::FileTransaction;
use super::sequence_options::{Position, SequenceOptions};
use super::sequence_records::{POSITIONS, SEQUENCES, to_bytes};
use crate::error::SqlError;

impl FileTransaction<'_> {
    /// Stores the definition of a sequence.
    pub(super) fn put_sequence(
        &self,
        id: u64,
        names: (&str, &str),
        options: &SequenceOptions,
    ) -> Result<(), SqlError> {
        let record = to_bytes(names, options);
        self.change(|write| {
            Ok(write.open_table(SEQUENCES)?.insert(id, record.as_slice()).map(drop)?)
        })
    }

    /// Removes a sequence.
    pub(super) fn remove_sequence(&self, id: u64) -> Result<(), SqlError> {
        self.change(|write| {
            write.open_table(SEQUENCES)?.remove(id)?;
            write.open_table(POSITIONS)?.remove(id)?;
            Ok(())
        })
    }

    /// Stores the position of a sequence.
    pub(super) fn put_position(&self, id: u64, position: Position) -> Result<(), SqlError> {
        let position = (position.value, position.is_called);
        self.change(|write| Ok(write.open_table(POSITIONS)?.insert(id, position).map(drop)?))
    }

    /// Stores the position of a sequence, if the file has the sequence. Returns true if it has.
    pub(super) fn move_sequence(&self, id: u64, position: Position) -> Result<bool, SqlError> {
        let mut is_there = false;
        self.change(|write| {
            let mut positions = write.open_table(POSITIONS)?;
            is_there = positions.get(id)?.is_some();
            if is_there {
                positions.insert(id, (position.value, position.is_called))?;
            }
            Ok(())
        })?;
        Ok(is_there)
    }
}
