//! Commit of a draft: all of its changes become durable and visible atomically, or none.

use std::collections::BTreeMap;
use std::sync::Arc;

use terrace_sys::sync::write;

use super::draft::{ChangedTable, Draft};
use super::state::Catalog;
use crate::error::SqlError;
use crate::table::Table;
use crate::transaction::LockTimeout;
use crate::write::RowChange;

impl Catalog {
    /// Commits a draft, after waiting at most for `limit` for the writer of each table. The commit
    /// then runs to completion even if the caller stops waiting for it.
    ///
    /// # Errors
    /// [`SqlError::Conflict`] if another commit since the draft's snapshot has changed the same
    /// names or removed chunks that the draft removes; [`SqlError::LockTimeout`]; errors of the
    /// store and of the catalog's file. Then nothing has changed.
    pub async fn commit(
        self: &Arc<Self>,
        draft: Draft,
        limit: &LockTimeout,
    ) -> Result<(), SqlError> {
        let guard = self.lock_writers(&draft, &[], limit).await?;
        self.commit_with(draft, guard).await
    }

    /// Commits as [`Catalog::commit`] does, for a caller whose `guard` holds the writers of `held`.
    ///
    /// # Errors
    /// As [`Catalog::commit`].
    pub(crate) async fn commit_holding<G: Send + 'static>(
        self: &Arc<Self>,
        draft: Draft,
        held: &[Arc<Table>],
        guard: G,
        limit: &LockTimeout,
    ) -> Result<(), SqlError> {
        let writers = self.lock_writers(&draft, held, limit).await?;
        self.commit_with(draft, (guard, writers)).await
    }

    async fn commit_with<G: Send + 'static>(
        self: &Arc<Self>,
        draft: Draft,
        guard: G,
    ) -> Result<(), SqlError> {
        if draft.is_empty() {
            return Ok(());
        }
        let changes = match draft.definitions.is_empty() {
            true => None,
            false => Some(Arc::clone(&self.changes).lock_owned().await),
        };
        self.blocking((guard, changes), move |catalog| catalog.settle(draft)).await
    }

    /// Locks the writers of the tables that a draft changes, in the order of table ids.
    async fn lock_writers(
        &self,
        draft: &Draft,
        held: &[Arc<Table>],
        limit: &LockTimeout,
    ) -> Result<impl Send + 'static, SqlError> {
        let old = draft.tables.values().filter(|changed| !changed.is_new);
        let old = old.map(|changed| &changed.table).chain(draft.dropped());
        let old = old.filter(|table| held.iter().all(|held| held.id() != table.id()));
        let old: BTreeMap<u64, &Arc<Table>> = old.map(|table| (table.id(), table)).collect();
        let mut writers = Vec::with_capacity(old.len());
        for table in old.values() {
            writers.push(table.lock_writer_within(limit).await?);
        }
        Ok(writers)
    }

    pub(super) fn settle(&self, draft: Draft) -> Result<(), SqlError> {
        let gone: Vec<_> = draft.dropped().map(Arc::clone).collect();
        // Chunks that only the snapshot keeps alive free their space with the commit.
        let Draft { definitions, tables, snapshot, .. } = draft;
        drop(snapshot);
        let (mut schemas, next_table) = {
            let names = self.names();
            (names.schemas.clone(), names.next_table)
        };
        for definition in &definitions {
            definition.apply(&mut schemas)?;
            definition.refuse_unseen_rows()?;
        }
        let changes = tables.into_values().map(row_change);
        let changes = changes.collect::<Result<Vec<_>, SqlError>>()?;
        let added: Vec<_> = changes.iter().flat_map(RowChange::added).map(Arc::clone).collect();
        self.journal.settle(&added, |transaction| {
            if !definitions.is_empty() {
                transaction.put_next_table(next_table)?;
            }
            definitions.iter().try_for_each(|definition| definition.write(transaction))?;
            changes.iter().try_for_each(|change| change.write(transaction))
        })?;
        drop(added);
        let trims = !gone.is_empty() || changes.iter().any(RowChange::gives_space_back);
        let changed: Vec<_> = changes.iter().map(|change| Arc::clone(change.table())).collect();
        // One hold of the names, so that a snapshot sees all of the changes or none.
        let before: Vec<_> = {
            let mut names = write(&self.names);
            if !definitions.is_empty() {
                names.changes += 1;
                names.schemas = schemas;
            }
            changes.into_iter().map(RowChange::publish).collect()
        };
        drop(before);
        gone.iter().for_each(|table| table.retire());
        changed.iter().for_each(|table| self.journal.merges.note(table));
        if trims {
            self.journal.store().trim();
        }
        Ok(())
    }
}

/// Applies the changes of a table to its current version.
fn row_change(changed: ChangedTable) -> Result<RowChange, SqlError> {
    let ChangedTable { table, is_new, changes, .. } = changed;
    let conflict = || SqlError::Conflict { what: format!("{} was changed", table.full_name()) };
    if !is_new && table.is_dropped() {
        return Err(conflict());
    }
    let change = RowChange::new(&table, changes);
    if change.misses_chunks() { Err(conflict()) } else { Ok(change) }
}
