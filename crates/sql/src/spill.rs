//! Spill files of queries, stored in pages of the pool.
//!
//! DataFusion's operators write what does not fit in memory as Arrow IPC streams through a
//! [`TempFileFactory`]. Here such a file is a run of pool pages: it stays in memory while there is
//! room, is moved to slower tiers by the pool's own policy otherwise, and a file that is dropped
//! before it was evicted costs no I/O at all.
//!
//! Each IPC message is contiguous at a multiple of 64 bytes, and is returned to the reader as one
//! [`bytes::Bytes`] that owns a pin of its page. Arrow then builds arrays that point into the page.
//! One slice per message, rather than one per page, keeps `Buffer::capacity` exact, which operators
//! use to account for their input. See `run` for the layout.

mod framing;
mod reader;
mod run;
mod writer;

use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::Stream;
use terrace_pool::{PoolError, Space};

use crate::pins::PagePins;
use reader::RunReader;
use run::Run;
use writer::RunWriter;

/// Factory of the spill files of one query, in one space of the pool.
#[derive(Debug)]
pub struct SpillSpace {
    space: Space,
    pins: Arc<PagePins>,
    counters: Arc<SpillCounters>,
}

/// Counters of what a query has spilled so far.
#[derive(Debug, Default)]
pub struct SpillCounters {
    files: AtomicU64,
    bytes: AtomicU64,
}

impl SpillCounters {
    /// Returns the number of files created.
    #[must_use]
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    /// Returns the bytes written to them, or unpinned by paged operators for lack of memory.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(crate) fn count_bytes(&self, bytes: u64) {
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

impl SpillSpace {
    /// Spill files are stored in pages of `space`; pins of pages that are read are counted in
    /// `pins`.
    #[must_use]
    pub fn new(space: Space, pins: Arc<PagePins>) -> Self {
        Self { space, pins, counters: Arc::default() }
    }

    /// Returns the counters, which outlive the query.
    #[must_use]
    pub fn counters(&self) -> &Arc<SpillCounters> {
        &self.counters
    }
}

impl TempFileFactory for SpillSpace {
    fn create_temp_file(&self, _description: &str) -> Result<Arc<dyn SpillFile>> {
        self.counters.files.fetch_add(1, Ordering::Relaxed);
        let run = Arc::new(Run::new(self.space.clone()));
        let (pins, counters) = (Arc::clone(&self.pins), Arc::clone(&self.counters));
        Ok(Arc::new_cyclic(|this| PageSpillFile { this: this.clone(), run, pins, counters }))
    }
}

/// One spill file. Dropping the last reference and the last reader frees its pages.
struct PageSpillFile {
    this: Weak<Self>,
    run: Arc<Run>,
    pins: Arc<PagePins>,
    counters: Arc<SpillCounters>,
}

impl SpillFile for PageSpillFile {
    fn size(&self) -> Option<u64> {
        Some(self.run.len_bytes())
    }

    fn read_stream(&self) -> Result<Pin<Box<dyn Stream<Item = Result<Bytes>> + Send>>> {
        let (run, pins) = (Arc::clone(&self.run), Arc::clone(&self.pins));
        Ok(Box::pin(RunReader::new(run, Owners(self.this.clone()), pins)))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(RunWriter::new(Arc::clone(&self.run), Arc::clone(&self.counters))))
    }
}

/// Tells a reader if the file could be read once more.
///
/// DataFusion's reader holds the file for as long as it reads. If that reference is the only one,
/// consumed data is dead and its pages can be freed at once instead of being evicted later.
struct Owners(Weak<PageSpillFile>);

impl Owners {
    fn only_the_reader(&self) -> bool {
        self.0.strong_count() <= 1
    }
}

/// Converts an error of the pool to DataFusion's.
pub(crate) fn pool_error(error: PoolError) -> DataFusionError {
    match error {
        PoolError::Exhausted { .. } => DataFusionError::ResourcesExhausted(error.to_string()),
        other => DataFusionError::External(Box::new(other)),
    }
}

#[cfg(test)]
mod tests;
