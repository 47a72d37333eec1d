//! Commit of the row changes of one table.

use std::sync::Arc;

use super::change::{Changes, RowChange};
use crate::error::SqlError;
use crate::table::Table;

impl Table {
    /// Commits `changes` to a table that the catalog holds and publishes them to readers. The
    /// commit runs to completion even if the caller stops waiting for it. `guard` holds this
    /// table's writer.
    ///
    /// # Errors
    /// [`SqlError::Dropped`] if the table is no longer in the catalog; errors of the store and of
    /// the catalog's file. Then nothing has changed.
    pub async fn commit<G: Send + 'static>(
        self: &Arc<Self>,
        guard: G,
        changes: Changes,
    ) -> Result<(), SqlError> {
        let table = self.clone();
        let committed = self.journal().tasks.spawn(move || {
            let _guard = guard;
            table.refuse_if_dropped()?;
            let change = RowChange::new(&table, changes);
            table.journal().settle(change.added(), |transaction| change.write(transaction))?;
            let gives_space_back = change.gives_space_back();
            drop(change.publish());
            table.journal().merges.note(&table);
            if gives_space_back {
                table.journal().store().trim();
            }
            Ok(())
        });
        committed.await?
    }
}
