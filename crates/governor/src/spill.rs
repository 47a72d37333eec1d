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

mod counters;
mod framing;
mod reader;
mod run;
mod writer;

use std::pin::Pin;
use std::sync::{Arc, Weak};

use bytes::Bytes;
use datafusion::common::Result;
use datafusion::execution::{SpillFile, SpillWriter, TempFileFactory};
use futures::Stream;
use terrace_pool::Space;

use crate::pins::PagePins;
pub use counters::SpillCounters;
use reader::{Owners, RunReader};
use run::Run;
use writer::RunWriter;

/// Factory of the spill files of one query, in one space of the pool.
#[derive(Debug)]
pub struct SpillSpace {
    space: Space,
    pins: Arc<PagePins>,
    counters: Arc<SpillCounters>,
}

impl SpillSpace {
    /// Creates a factory whose files are stored in pages of `space`; pins of pages that are read
    /// are counted in `pins`.
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
        self.counters.count_file();
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
        let this: Weak<Self> = self.this.clone();
        Ok(Box::pin(RunReader::new(run, Owners(this), pins)))
    }

    fn open_writer(&self) -> Result<Box<dyn SpillWriter>> {
        Ok(Box::new(RunWriter::new(Arc::clone(&self.run), Arc::clone(&self.counters))))
    }
}

#[cfg(test)]
mod tests;
