//! Tables: a schema and the current version of its chunks.
//!
//! Readers take an [`Arc<TableVersion>`] and hold it for as long as they read; a writer builds the
//! next version beside it and swaps it in after the catalog has committed. Appends take the
//! writer's lock only for their commit; statements that rewrite chunks hold it throughout.
//!
//! Locking order: writer (async), then the catalog's transaction, then `current`. `current` is held
//! for a pointer copy only.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, RwLock};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use terrace_pool::Space;
use terrace_sys::sync::{read, write};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::catalog::{Journal, TableLocks};
use crate::chunk::Chunk;
use crate::error::SqlError;
use crate::placement::Wishes;
use crate::segment::Encoding;
use crate::statistics;
use crate::write::{Changes, MergeCounters, RowChange};

/// The chunks of a table as of one statement. Immutable.
pub struct TableVersion {
    /// Number of commits that changed rows since the process started. Merging chunks does not
    /// change rows: two versions with the same number have the same rows, possibly in other chunks.
    pub number: u64,
    /// Number of those commits that removed or changed rows; the others only added rows.
    pub(crate) rewrites: u64,
    /// Chunks in row order: oldest first, except for chunks rewritten by UPDATE.
    pub chunks: Vec<Arc<Chunk>>,
    schema: SchemaRef,
    /// Source of the sketches of the table's columns: they stay in the catalog's file, and are read
    /// when statistics are requested.
    sketches: (Arc<Journal>, u64),
    statistics: OnceLock<Arc<Statistics>>,
}

impl TableVersion {
    /// Builds a version of the table made of `parts` with these chunks.
    fn new(number: u64, rewrites: u64, parts: &TableParts, chunks: Vec<Arc<Chunk>>) -> Self {
        let sketches = (Arc::clone(&parts.journal), parts.id);
        let schema = Arc::clone(&parts.columns);
        Self { number, rewrites, chunks, schema, sketches, statistics: OnceLock::new() }
    }

    /// Returns the estimated number of distinct values of each column, over every row that the
    /// table has held since it was last emptied.
    pub(crate) fn distinct(&self) -> Vec<u64> {
        let (journal, table) = &self.sketches;
        let found = journal.distinct(*table, self.schema.fields().len());
        found.unwrap_or_else(|error| {
            tracing::warn!(%error, table, "the planner goes by what single chunks hold");
            vec![]
        })
    }

    /// Returns all segments by chunk and column, those of a column one after the other. Copied to a
    /// heap in this order, the blocks that a scan of some columns reads hold no other columns.
    pub(crate) fn segments_by_column(&self) -> impl Iterator<Item = (&Arc<Chunk>, usize)> {
        let columns = self.schema.fields().len();
        (0..columns).flat_map(|column| self.chunks.iter().map(move |chunk| (chunk, column)))
    }

    /// Returns the schema of the table.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the number of rows in all chunks.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.rows).sum()
    }

    /// Returns the bytes of all extents.
    #[must_use]
    pub fn extent_bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.extent_bytes()).sum()
    }

    /// Returns the table's statistics for the planner, computed once per version: exact rows,
    /// nulls, minimum and maximum, estimated distinct values.
    #[must_use]
    pub fn statistics(&self) -> Arc<Statistics> {
        self.statistics.get_or_init(|| Arc::new(statistics::of_version(self))).clone()
    }
}

/// The parts of a table other than its rows.
pub(crate) struct TableParts {
    pub id: u64,
    pub schema_name: String,
    pub name: String,
    pub columns: SchemaRef,
    pub encoding: Encoding,
    pub space: Space,
    pub journal: Arc<Journal>,
}

/// A table of the catalog.
pub struct Table {
    parts: TableParts,
    current: RwLock<Arc<TableVersion>>,
    next_chunk: AtomicU64,
    dropped: AtomicBool,
    writer: Arc<AsyncMutex<()>>,
    wishes: Wishes,
    merged: MergeCounters,
}

impl Table {
    pub(crate) fn new(parts: TableParts, chunks: Vec<Arc<Chunk>>) -> Self {
        let next_chunk = chunks.iter().map(|chunk| chunk.id + 1).max().unwrap_or(0);
        let current = RwLock::new(Arc::new(TableVersion::new(0, 0, &parts, chunks)));
        Self {
            parts,
            current,
            next_chunk: AtomicU64::new(next_chunk),
            dropped: AtomicBool::new(false),
            writer: Arc::default(),
            wishes: Wishes::default(),
            merged: MergeCounters::default(),
        }
    }

    /// Returns the table's id in the catalog, which is never reused.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.parts.id
    }

    /// Returns the name of the schema that holds the table.
    #[must_use]
    pub fn schema_name(&self) -> &str {
        &self.parts.schema_name
    }

    /// Returns the name of the table in its schema.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// Returns schema and name, as used in errors.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.parts.schema_name, self.parts.name)
    }

    /// Returns the columns.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.parts.columns
    }

    /// Returns the encoding of new segments of the table.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.parts.encoding
    }

    /// Returns the pool space that holds the table's pages.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.parts.space
    }

    /// Returns the requested placements of its segments.
    pub(crate) fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// Returns the counters of small-chunk merges since the process started.
    pub(crate) fn merged(&self) -> &MergeCounters {
        &self.merged
    }

    /// Returns the chunks as of the last committed statement. They stay readable for as long as the
    /// version is held, whatever is committed meanwhile. A dropped table has none;
    /// [`Table::current`] reports that it was dropped.
    #[must_use]
    pub fn snapshot(&self) -> Arc<TableVersion> {
        read(&self.current).clone()
    }

    /// Returns true if the table has been dropped from the catalog.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// Returns the current version.
    ///
    /// # Errors
    /// [`SqlError::Dropped`] if the table has been dropped from the catalog.
    pub fn current(&self) -> Result<Arc<TableVersion>, SqlError> {
        // In this order, since the snapshot of a dropped table is empty.
        let version = self.snapshot();
        self.refuse_if_dropped()?;
        Ok(version)
    }

    pub(crate) fn refuse_if_dropped(&self) -> Result<(), SqlError> {
        match self.is_dropped() {
            true => Err(SqlError::Dropped { name: self.full_name() }),
            false => Ok(()),
        }
    }

    /// Waits for the other writers of the table and excludes them until the guard is dropped.
    pub(crate) async fn lock_writer(&self) -> OwnedMutexGuard<()> {
        self.writer.clone().lock_owned().await
    }

    /// Returns the locks of the catalog's tables.
    pub(crate) fn locks(&self) -> &TableLocks {
        &self.journal().locks
    }

    pub(crate) fn next_chunk_id(&self) -> u64 {
        self.next_chunk.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn journal(&self) -> &Arc<Journal> {
        &self.parts.journal
    }

    /// Commits `changes` to a table that the catalog holds and publishes them to readers. The
    /// commit runs to completion even if the caller stops waiting for it. `guard` holds this
    /// table's writer.
    ///
    /// # Errors
    /// [`SqlError::Dropped`] if the table is no longer in the catalog; errors of the store and of
    /// the catalog's file. Then nothing has changed.
    pub(crate) async fn commit<G: Send + 'static>(
        self: &Arc<Self>,
        guard: G,
        changes: Changes,
    ) -> Result<(), SqlError> {
        let table = self.clone();
        let committed = self.journal().tasks.spawn(move || {
            let _guard = guard;
            table.refuse_if_dropped()?;
            let change = RowChange::new(&table, changes);
            table.journal().settle(std::slice::from_ref(&change), |_| Ok(()))?;
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

    /// Retires the table after the catalog has dropped it: its last reader frees its space.
    pub(crate) fn retire(&self) {
        self.dropped.store(true, Ordering::Release);
        let version = self.snapshot();
        version.chunks.iter().for_each(|chunk| chunk.mark_retired());
        drop(self.show(version.number + 1, version.rewrites + 1, vec![]));
        self.journal().versions.remove(self.id());
    }

    /// Builds a version of the table with these chunks, without publishing it.
    pub(crate) fn version(
        &self,
        number: u64,
        rewrites: u64,
        chunks: Vec<Arc<Chunk>>,
    ) -> TableVersion {
        TableVersion::new(number, rewrites, &self.parts, chunks)
    }

    /// Publishes a version with these chunks to readers, and returns the previous one. The caller
    /// must drop that without holding locks: its chunks may free their space.
    pub(crate) fn show(
        &self,
        number: u64,
        rewrites: u64,
        chunks: Vec<Arc<Chunk>>,
    ) -> Arc<TableVersion> {
        let version = Arc::new(self.version(number, rewrites, chunks));
        let before = std::mem::replace(&mut *write(&self.current), Arc::clone(&version));
        self.journal().versions.put(self.id(), version);
        before
    }
}

impl fmt::Debug for TableVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableVersion")
            .field("number", &self.number)
            .field("chunks", &self.chunks)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table")
            .field("id", &self.id())
            .field("name", &self.full_name())
            .finish_non_exhaustive()
    }
}
