//! Durability of statements, in an order that survives a crash at any point: a chunk's extents are
//! on the device before the catalog names them, and they become free only after it no longer names
//! them.

use std::sync::Arc;

use terrace_store::Store;

use super::file::{CatalogFile, CommitFailure, FileTransaction};
use super::locks::TableLocks;
use super::record::ChunkRecord;
use super::versions::Versions;
use crate::chunk::Chunk;
use crate::error::SqlError;
use crate::failpoint::{Failpoints, Point};
use crate::sketch::Sketch;
use crate::table::Sketches;
use crate::tasks::Tasks;
use crate::write::MergeQueue;
use terrace_governor::pins::PagePins;

/// The catalog's file, the store that holds the extents it names, and other state shared by the
/// tables.
pub(crate) struct Journal {
    pub(super) file: CatalogFile,
    store: Arc<Store>,
    pub pins: Arc<PagePins>,
    pub tasks: Tasks,
    pub(crate) failpoints: Failpoints,
    /// The current version of each table.
    pub versions: Versions,
    pub merges: MergeQueue,
    pub locks: TableLocks,
}

impl Journal {
    pub(super) fn new(file: CatalogFile, store: Arc<Store>, pins: Arc<PagePins>) -> Self {
        let (tasks, failpoints) = (Tasks::default(), Failpoints::default());
        let (versions, merges) = (Versions::default(), MergeQueue::default());
        let locks = TableLocks::default();
        Self { file, store, pins, tasks, failpoints, versions, merges, locks }
    }

    /// Returns the store that holds the extents.
    pub fn store(&self) -> &Arc<Store> {
        &self.store
    }

    /// Makes the changes that `write` writes durable in one transaction, after the extents of the
    /// chunks that they add. On success the catalog owns these chunks; otherwise their creator
    /// still does.
    ///
    /// Blocks on the device.
    pub fn settle(
        &self,
        added: &[Arc<Chunk>],
        write: impl FnOnce(&FileTransaction<'_>) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        self.failpoints.hit(Point::Sync)?;
        if !added.is_empty() {
            self.store.sync()?;
        }
        self.failpoints.hit(Point::Commit)?;
        let committed = self
            .file
            .commit(write)
            .and_then(|()| self.failpoints.hit(Point::Committed).map_err(CommitFailure::InDoubt));
        match committed {
            Ok(()) => added.iter().for_each(|chunk| chunk.mark_committed()),
            Err(CommitFailure::RolledBack(error)) => return Err(error),
            Err(CommitFailure::InDoubt(error)) => {
                // The file may name the chunks when it is opened again, so their space must not be
                // reused until then.
                added.iter().for_each(|chunk| chunk.mark_committed());
                let chunks = added.len();
                tracing::error!(%error, chunks, "commit in doubt, space withheld");
                return Err(SqlError::InDoubt { source: Box::new(error) });
            }
        }
        // The commit is durable, so nothing may fail the statement from here on.
        if let Err(error) = self.failpoints.hit(Point::Swap) {
            tracing::error!(%error, "after the commit");
        }
        Ok(())
    }
}

impl Journal {
    /// Returns the sketch of each of a table's columns.
    ///
    /// # Errors
    /// Errors of the catalog's file.
    pub fn sketches(&self, table: u64, columns: usize) -> Result<Vec<Sketch>, SqlError> {
        self.file.sketches(table, columns)
    }
}

impl Sketches for Journal {
    fn distinct(&self, table: u64, columns: usize) -> Result<Vec<u64>, SqlError> {
        self.file.distinct(table, columns)
    }
}

/// Writes the chunks' records into a transaction.
pub(crate) fn put_chunks(
    transaction: &FileTransaction<'_>,
    table: u64,
    chunks: &[Arc<Chunk>],
) -> Result<(), SqlError> {
    let mut chunks = chunks.iter();
    chunks.try_for_each(|chunk| transaction.put_chunk(table, chunk.id, &ChunkRecord::of(chunk)))
}
