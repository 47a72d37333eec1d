//! A table: a schema and the current version of its chunks.
//!
//! Readers take an [`Arc<TableVersion>`] and keep it for as long as they read; a writer builds the
//! next version beside it and swaps it in after the catalog has committed. Appends take the
//! writer's lock for their commit alone; statements that rewrite chunks hold it throughout.
//!
//! Locking order: writer (async), then the catalog's transaction, then `current`. `current` is
//! held for a pointer copy only.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, PoisonError, RwLock};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;
use terrace_pool::Space;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::catalog::{Journal, TableLocks};
use crate::chunk::Chunk;
use crate::error::SqlError;
use crate::home::Wishes;
use crate::segment::Encoding;
use crate::statistics;
use crate::write::{Changes, MergeCounters, RowChange};

/// The chunks of a table as one statement left them. Immutable.
pub struct TableVersion {
    /// Counts the commits that changed rows since the process started. Merging chunks changes none:
    /// two versions of one number have the same rows, perhaps in other chunks.
    pub number: u64,
    /// Counts those of the commits that removed or changed rows; the others added some.
    pub(crate) rewrites: u64,
    /// The chunks, in the order of their rows: oldest first, as far as UPDATE left them alone.
    pub chunks: Vec<Arc<Chunk>>,
    schema: SchemaRef,
    /// Where the sketches of the table's columns are: they stay in the catalog's file, and are read
    /// when statistics are asked for.
    sketches: (Arc<Journal>, u64),
    statistics: OnceLock<Arc<Statistics>>,
}

impl TableVersion {
    /// A version of the table made of `parts` with these chunks.
    fn new(number: u64, rewrites: u64, parts: &TableParts, chunks: Vec<Arc<Chunk>>) -> Self {
        let sketches = (Arc::clone(&parts.journal), parts.id);
        let schema = Arc::clone(&parts.columns);
        Self { number, rewrites, chunks, schema, sketches, statistics: OnceLock::new() }
    }

    /// The estimated number of distinct values of each column, over every row that the table ever
    /// held since it was last emptied.
    pub(crate) fn distinct(&self) -> Vec<u64> {
        let (journal, table) = &self.sketches;
        let found = journal.distinct(*table, self.schema.fields().len());
        found.unwrap_or_else(|error| {
            tracing::warn!(%error, table, "the planner goes by what single chunks hold");
            vec![]
        })
    }

    /// All segments by their chunk and column, those of a column one after the other: so they lie
    /// in a heap whose blocks scans of some columns read, and no others.
    pub(crate) fn segments_by_column(&self) -> impl Iterator<Item = (&Arc<Chunk>, usize)> {
        let columns = self.schema.fields().len();
        (0..columns).flat_map(|column| self.chunks.iter().map(move |chunk| (chunk, column)))
    }

    /// The schema of the table.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Rows in all chunks.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.rows).sum()
    }

    /// Bytes of all extents.
    #[must_use]
    pub fn extent_bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.extent_bytes()).sum()
    }

    /// Statistics of the table for the planner, computed once per version: exact rows, nulls,
    /// minimum and maximum, estimated distinct values.
    #[must_use]
    pub fn statistics(&self) -> Arc<Statistics> {
        self.statistics.get_or_init(|| Arc::new(statistics::of_version(self))).clone()
    }
}

/// What a table is made of beside its rows.
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

    /// The number of the table in the catalog, never used twice.
    #[must_use]
    pub fn id(&self) -> u64 {
        self.parts.id
    }

    /// The name of the schema that holds the table.
    #[must_use]
    pub fn schema_name(&self) -> &str {
        &self.parts.schema_name
    }

    /// The name of the table in its schema.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.parts.name
    }

    /// Schema and name, as errors say it.
    #[must_use]
    pub fn full_name(&self) -> String {
        format!("{}.{}", self.parts.schema_name, self.parts.name)
    }

    /// The columns.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.parts.columns
    }

    /// How new segments of the table are encoded.
    #[must_use]
    pub fn encoding(&self) -> Encoding {
        self.parts.encoding
    }

    /// The pool space that holds the table's pages.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.parts.space
    }

    /// Where its segments are wished to be.
    pub(crate) fn wishes(&self) -> &Wishes {
        &self.wishes
    }

    /// What merging its small chunks has done since the process started.
    pub(crate) fn merged(&self) -> &MergeCounters {
        &self.merged
    }

    /// The chunks as the last committed statement left them. They stay readable for as long as the
    /// version is held, whatever is committed meanwhile. Of a table that has been dropped there are
    /// none; [`Table::current`] tells.
    #[must_use]
    pub fn snapshot(&self) -> Arc<TableVersion> {
        self.current.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Whether the table has been dropped from the catalog.
    #[must_use]
    pub fn is_dropped(&self) -> bool {
        self.dropped.load(Ordering::Acquire)
    }

    /// The chunks as they are now.
    ///
    /// # Errors
    /// [`SqlError::Dropped`] when the table has been dropped from the catalog.
    pub fn current(&self) -> Result<Arc<TableVersion>, SqlError> {
        // In this order: what a dropped table shows is nothing.
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

    /// Waits for the other writers of the table and keeps them out until the guard is dropped.
    pub(crate) async fn lock_writer(&self) -> OwnedMutexGuard<()> {
        self.writer.clone().lock_owned().await
    }

    /// The locks of the catalog's tables.
    pub(crate) fn locks(&self) -> &TableLocks {
        &self.journal().locks
    }

    pub(crate) fn next_chunk_id(&self) -> u64 {
        self.next_chunk.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn journal(&self) -> &Arc<Journal> {
        &self.parts.journal
    }

    /// Commits `changes` to a table that the catalog holds and shows them to readers. The commit
    /// runs to its end, whether or not the caller still waits for it. `guard` holds this table's
    /// writer.
    ///
    /// # Errors
    /// [`SqlError::Dropped`] when the table is no longer in the catalog; errors of the store and
    /// of the catalog's file. Then nothing has changed.
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

    /// The catalog holds the table no more: its space goes back with its last reader.
    pub(crate) fn retire(&self) {
        self.dropped.store(true, Ordering::Release);
        let version = self.snapshot();
        version.chunks.iter().for_each(|chunk| chunk.mark_retired());
        drop(self.show(version.number + 1, version.rewrites + 1, vec![]));
        self.journal().versions.remove(self.id());
    }

    /// A version of the table with these chunks, which nothing shows.
    pub(crate) fn version(
        &self,
        number: u64,
        rewrites: u64,
        chunks: Vec<Arc<Chunk>>,
    ) -> TableVersion {
        TableVersion::new(number, rewrites, &self.parts, chunks)
    }

    /// Shows a version with these chunks to readers, and returns the one before. It is to be
    /// dropped without locks: its chunks may give their space back.
    pub(crate) fn show(
        &self,
        number: u64,
        rewrites: u64,
        chunks: Vec<Arc<Chunk>>,
    ) -> Arc<TableVersion> {
        let version = Arc::new(self.version(number, rewrites, chunks));
        let before = std::mem::replace(
            &mut *self.current.write().unwrap_or_else(PoisonError::into_inner),
            Arc::clone(&version),
        );
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
