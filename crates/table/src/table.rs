//! Tables: a schema and the current version of its chunks.
//!
//! Readers take an [`Arc<TableVersion>`] and hold it for as long as they read; a writer builds the
//! next version, and publishes it after the catalog has committed. Appends take the writer's lock
//! only for their commit; statements that rewrite chunks hold it throughout.
//!
//! Locking order: writer (async), then the catalog's transaction, then `current`. `current` is held
//! for a pointer copy only.

mod chunks;
mod version;

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, RwLock};

use datafusion::arrow::datatypes::SchemaRef;
use terrace_pool::Space;
use terrace_sys::sync::{read, write};
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::catalog::{Journal, Lockable, Properties, TableLocks};
use crate::chunk::Chunk;
use crate::error::SqlError;
use crate::placement::PlacementRequests;
use crate::segment::Encoding;
use crate::transaction::LockTimeout;
use crate::write::MergeCounters;

pub use chunks::Chunks;
pub(crate) use version::Sketches;
pub use version::TableVersion;

/// The parts of a table other than its rows: its definition, and what it shares with others.
pub(crate) struct TableParts {
    pub id: u64,
    pub schema_name: String,
    pub name: String,
    pub columns: SchemaRef,
    pub encoding: Encoding,
    pub properties: Properties,
    pub space: Space,
    pub journal: Arc<Journal>,
}

impl TableParts {
    fn version(&self, number: u64, rewrites: u64, chunks: Chunks) -> TableVersion {
        let sketches: Arc<dyn Sketches> = Arc::clone(&self.journal) as _;
        let schema = Arc::clone(&self.columns);
        TableVersion::new(number, rewrites, chunks, schema, (sketches, self.id))
    }
}

/// A table of the catalog: its definition, and the current version of its rows.
pub struct Table {
    parts: TableParts,
    current: RwLock<Arc<TableVersion>>,
    next_chunk: AtomicU64,
    dropped: AtomicBool,
    writer: Arc<AsyncMutex<()>>,
    placement_requests: PlacementRequests,
    merged: MergeCounters,
}

impl Table {
    pub(crate) fn new(parts: TableParts, chunks: Vec<Arc<Chunk>>) -> Self {
        let next_chunk = chunks.iter().map(|chunk| chunk.id + 1).max().unwrap_or(0);
        let current = RwLock::new(Arc::new(parts.version(0, 0, chunks.into())));
        Self {
            parts,
            current,
            next_chunk: AtomicU64::new(next_chunk),
            dropped: AtomicBool::new(false),
            writer: Arc::default(),
            placement_requests: PlacementRequests::default(),
            merged: MergeCounters::default(),
        }
    }

    /// Creates a table without rows, the successor of `before` in ALTER TABLE: ids of its new
    /// chunks continue those of `before`.
    pub(crate) fn successor(parts: TableParts, before: &Self) -> Self {
        let next_chunk = AtomicU64::new(before.next_chunk.load(Ordering::Relaxed));
        Self { next_chunk, ..Self::new(parts, vec![]) }
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

    /// Returns the defaults, checks and comments.
    #[must_use]
    pub fn properties(&self) -> &Properties {
        &self.parts.properties
    }

    /// Returns the pool space that holds the table's pages.
    #[must_use]
    pub fn space(&self) -> &Space {
        &self.parts.space
    }

    /// Returns the requested placements of its segments.
    pub fn placement_requests(&self) -> &PlacementRequests {
        &self.placement_requests
    }

    /// Returns the counters of small-chunk merges since the process started.
    pub fn merged(&self) -> &MergeCounters {
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

    /// Waits as [`Table::lock_writer`] does, at most for `limit`.
    ///
    /// # Errors
    /// [`SqlError::LockTimeout`].
    pub(crate) async fn lock_writer_within(
        &self,
        limit: &LockTimeout,
    ) -> Result<OwnedMutexGuard<()>, SqlError> {
        limit.wait(|| self.full_name(), self.lock_writer()).await
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

    /// Retires the table after the catalog has dropped it: its last reader frees its space.
    pub(crate) fn retire(&self) {
        self.dropped.store(true, Ordering::Release);
        let version = self.snapshot();
        version.chunks.iter().for_each(|chunk| chunk.mark_retired());
        drop(self.show(version.number + 1, version.rewrites + 1, vec![]));
        self.journal().versions.remove(self.id());
    }

    /// Builds a version of the table with these chunks, without publishing it. `number` and
    /// `rewrites` are those of [`TableVersion`].
    pub fn version(&self, number: u64, rewrites: u64, chunks: Chunks) -> TableVersion {
        self.parts.version(number, rewrites, chunks)
    }

    /// Publishes a version with these chunks to readers, and returns the previous one, which the
    /// caller must drop without holding locks: its chunks may free their space. `number` and
    /// `rewrites` are those of [`TableVersion`].
    pub fn show(&self, number: u64, rewrites: u64, chunks: Vec<Arc<Chunk>>) -> Arc<TableVersion> {
        let version = Arc::new(self.version(number, rewrites, chunks.into()));
        let before = std::mem::replace(&mut *write(&self.current), Arc::clone(&version));
        self.journal().versions.put(self.id(), version);
        before
    }
}

impl Lockable for Table {
    fn id(&self) -> u64 {
        self.parts.id
    }

    fn full_name(&self) -> String {
        self.full_name()
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
