//! The store: extents from a free map, and their transfers.
//!
//! Locking order: `growth` before `map`; `first_error` alone. No lock is held during a transfer,
//! and `map` is never held during a system call.

mod contents;

use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use terrace_sys::size::{PAGE_BYTES, round_down, to_u64};
use terrace_sys::sync::lock;

use crate::blocks::{Blocks, Io};
use crate::checksum::checksum;
use crate::counters::{Counters, StoreStats};
use crate::emulated_blocks::{Distance, EmulatedBlocks};
use crate::error::{StoreError, is_full};
use crate::extent::{EXTENT_ALIGN_BYTES, Extent, Read, Stored, Write, whole_pages};
use crate::first_error::FirstError;
use crate::free_map::FreeMap;
use crate::speed::Speed;
use crate::turns::{Turn, Turns};

/// Page-granular, checksummed storage with a free map. Shared by reference between threads.
pub struct Store {
    name: String,
    capacity_bytes: u64,
    blocks: Arc<dyn Blocks>,
    /// Held while the end of the blocks moves, in either direction.
    growth: Mutex<()>,
    map: Mutex<FreeMap>,
    first_error: FirstError,
    counters: Counters,
    speed: Speed,
    turns: Turns,
}

impl Store {
    /// Creates a store over `blocks`, empty until extents are claimed or allocated.
    /// `capacity_bytes` is rounded down to whole pages.
    ///
    /// # Errors
    /// [`StoreError::Invalid`] when there is no room for a page or the blocks need a coarser
    /// alignment than a page.
    pub fn open(
        blocks: Arc<dyn Blocks>,
        name: impl Into<String>,
        capacity_bytes: u64,
    ) -> Result<Store, StoreError> {
        let name = name.into();
        let invalid = |what: String| StoreError::Invalid { store: name.clone(), what };
        let capacity_bytes = round_down(capacity_bytes, EXTENT_ALIGN_BYTES);
        if capacity_bytes == 0 {
            return Err(invalid("its capacity must be at least 4KiB".into()));
        }
        if blocks.alignment_bytes() > EXTENT_ALIGN_BYTES {
            let align = blocks.alignment_bytes();
            return Err(invalid(format!("its blocks of {align} bytes must be at most 4KiB")));
        }
        Ok(Store {
            name,
            capacity_bytes,
            blocks,
            growth: Mutex::new(()),
            map: Mutex::new(FreeMap::new(capacity_bytes)),
            first_error: FirstError::default(),
            counters: Counters::default(),
            speed: Speed::default(),
            turns: Turns::default(),
        })
    }

    /// Limits the store to the rate of a volume that transfers this many bytes per second, reads
    /// and writes together. Transfers are served in order of arrival, and idle time is not saved
    /// up.
    #[must_use]
    pub fn with_rate(mut self, bytes_per_second: u64) -> Store {
        let distance = Distance { latency: Duration::ZERO, bytes_per_second };
        self.blocks = Arc::new(EmulatedBlocks::new(self.blocks, distance));
        self
    }

    /// Returns the name of the store in errors and statistics.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the capacity in bytes.
    #[must_use]
    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    /// Returns the kind of the blocks: `io_uring`, `pread`, `memory`, or `emulated` with a rate.
    #[must_use]
    pub fn kind(&self) -> &str {
        self.blocks.kind()
    }

    /// Returns the first error, after which the store refuses writes; `None` if it is not latched.
    #[must_use]
    pub fn latched(&self) -> Option<String> {
        self.first_error.first()
    }

    /// Allocates an extent of `len_bytes`, rounded up to whole pages: the smallest hole that fits,
    /// or new space at the end of the store.
    ///
    /// # Errors
    /// [`StoreError::Full`] when no space is left, in the store or on the file system; the store
    /// stays usable. [`StoreError::Latched`] after a failed write. [`StoreError::Invalid`] for
    /// zero.
    pub fn allocate(&self, len_bytes: u64) -> Result<Extent, StoreError> {
        self.refuse_if_latched()?;
        let Some(len_bytes) = whole_pages(len_bytes) else {
            let what = format!("{len_bytes} bytes are not a possible extent");
            return Err(self.invalid(what));
        };
        if let Some(extent) = self.map().take(len_bytes) {
            return Ok(extent);
        }
        self.grow(len_bytes)
    }

    /// Marks an extent as in use when the store is opened over blocks that hold data.
    ///
    /// # Errors
    /// [`StoreError::Claim`] when the extent is not made of pages of this store or overlaps one
    /// that is in use.
    pub fn claim(&self, extent: Extent) -> Result<(), StoreError> {
        let _growth = lock(&self.growth);
        let claimed = self.map().claim(extent);
        claimed.map_err(|cause| StoreError::Claim { store: self.name.clone(), extent, cause })
    }

    /// Frees an extent. The caller must have no transfer of it in flight and must drop every
    /// [`Stored`] of it.
    ///
    /// # Panics
    /// In debug builds, when the extent is not in use; release builds count it in
    /// [`StoreStats::double_frees`] and change nothing.
    pub fn free(&self, extent: Extent) {
        let released = self.map().release(extent);
        if let Err(cause) = released {
            self.counters.double_free();
            debug_assert!(false, "store {}: cannot free {extent}: {cause}", self.name);
        }
    }

    /// Writes extents in one batch and returns their checksums in order. Makes two heap allocations
    /// per batch and none per write.
    ///
    /// # Errors
    /// Per write: [`StoreError::Write`] (which latches the store), [`StoreError::Full`] when the
    /// file system has no space, [`StoreError::Latched`], [`StoreError::Invalid`] for a buffer that
    /// does not match its extent.
    pub fn write_batch(&self, writes: &[Write<'_>]) -> Vec<Result<Stored, StoreError>> {
        self.write_in_turn(writes, Turns::now)
    }

    /// As [`Store::write_batch`], for background writes: waits while two background batches are in
    /// flight, and for the foreground batches in flight until one more has begun.
    pub fn write_batch_later(&self, writes: &[Write<'_>]) -> Vec<Result<Stored, StoreError>> {
        self.write_in_turn(writes, Turns::later)
    }

    fn write_in_turn(
        &self,
        writes: &[Write<'_>],
        turn: fn(&Turns) -> Turn<'_>,
    ) -> Vec<Result<Stored, StoreError>> {
        if let Some(first) = self.first_error.first() {
            let refuse = |_: &Write<'_>| Err(self.latched_error(first.clone()));
            return writes.iter().map(refuse).collect();
        }
        let mut results: Vec<Result<Stored, StoreError>> =
            writes.iter().map(|write| self.accept(write)).collect();
        let accepted = |result: &Result<Stored, StoreError>| result.is_ok();
        let mut batch: Vec<Io<'_>> = writes
            .iter()
            .zip(&results)
            .filter(|(_, result)| accepted(result))
            .map(|(write, _)| Io::write(write.extent.offset_bytes, write.data))
            .collect();
        self.run(&mut batch, turn);
        let outcomes = batch.into_iter().map(|io| self.written(io));
        for (result, outcome) in results.iter_mut().filter(|r| accepted(r)).zip(outcomes) {
            *result = outcome;
        }
        results
    }

    /// Reads extents in one batch and verifies each. Results are in the order of `reads`.
    ///
    /// # Errors
    /// Per read: [`StoreError::Read`] when the device fails, [`StoreError::Corrupt`] when the
    /// bytes are not those that were written, [`StoreError::Invalid`] for a buffer that does not
    /// match its extent.
    pub fn read_batch(&self, reads: &mut [Read<'_>]) -> Vec<Result<(), StoreError>> {
        self.read_in_turn(reads, Turns::now)
    }

    /// As [`Store::read_batch`], for background reads, which wait as those of
    /// [`Store::write_batch_later`] do.
    pub fn read_batch_later(&self, reads: &mut [Read<'_>]) -> Vec<Result<(), StoreError>> {
        self.read_in_turn(reads, Turns::later)
    }

    fn read_in_turn(
        &self,
        reads: &mut [Read<'_>],
        turn: fn(&Turns) -> Turn<'_>,
    ) -> Vec<Result<(), StoreError>> {
        let mut results: Vec<Result<(), StoreError>> =
            reads.iter().map(|read| self.check(read.stored.extent, read.data)).collect();
        let mut batch: Vec<Io<'_>> = reads
            .iter_mut()
            .zip(&results)
            .filter(|(_, result)| result.is_ok())
            .map(|(read, _)| {
                let io = Io::read(read.stored.extent.offset_bytes, read.data);
                Io { expected: read.stored.checksum, ..io }
            })
            .collect();
        self.run(&mut batch, turn);
        let outcomes = batch.into_iter().map(|io| self.verified(io));
        for (result, outcome) in results.iter_mut().filter(|r| r.is_ok()).zip(outcomes) {
            *result = outcome;
        }
        results
    }

    /// Waits until every completed write is durable on the device (`fdatasync`).
    ///
    /// # Errors
    /// [`StoreError::Sync`], which latches the store: the kernel forgets the pages that failed.
    /// [`StoreError::Latched`] after an earlier failure.
    pub fn sync(&self) -> Result<(), StoreError> {
        self.refuse_if_latched()?;
        self.blocks.sync().map_err(|error| {
            let error = StoreError::Sync { store: self.name.clone(), source: Arc::new(error) };
            self.first_error.set(&error);
            error
        })
    }

    /// Releases the space of free extents to the file system: truncates the tail and punches holes.
    /// If the file system does not support that, the store keeps the space and reuses it. A later
    /// write to released space needs new space from the file system and fails with
    /// [`StoreError::Full`] if there is none.
    pub fn trim(&self) {
        let _growth = lock(&self.growth);
        if let Err(error) = self.trim_tail().and_then(|()| self.punch_holes()) {
            tracing::debug!(store = %self.name, %error, "free space stays with the store");
        }
    }

    /// Returns the recently observed throughput in bytes per second while transfers are in flight,
    /// reads and writes together; `None` before some MiB were transferred.
    #[must_use]
    pub fn bytes_per_second(&self) -> Option<f64> {
        self.speed.bytes_per_second()
    }

    /// Returns the counters and the state of the free map.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        let mut stats = self.counters.snapshot();
        let map = self.map();
        stats.capacity_bytes = self.capacity_bytes;
        stats.used_bytes = map.used_bytes();
        stats.extent_bytes = map.frontier_bytes();
        stats.largest_free_bytes = map.largest_free_bytes();
        stats
    }

    /// Runs a batch when its turn comes.
    fn run(&self, batch: &mut [Io<'_>], turn: fn(&Turns) -> Turn<'_>) {
        let _turn = turn(&self.turns);
        let _under_way = self.speed.begin(batch.iter().map(|io| to_u64(io.buffer.len())).sum());
        self.blocks.run(batch, &digest);
    }

    fn map(&self) -> MutexGuard<'_, FreeMap> {
        lock(&self.map)
    }

    /// Moves the frontier. Holes are tried again under the growth lock, because a trim, which holds
    /// it, takes holes out of the map temporarily.
    fn grow(&self, len_bytes: u64) -> Result<Extent, StoreError> {
        let _growth = lock(&self.growth);
        let grown = {
            let mut map = self.map();
            if let Some(extent) = map.take(len_bytes) {
                return Ok(extent);
            }
            map.extend(len_bytes)
        };
        let Some(extent) = grown else { return Err(self.full(len_bytes)) };
        match self.blocks.ensure(extent.end_bytes()) {
            Ok(()) => Ok(extent),
            Err(error) => Err(self.growth_failed(extent, error)),
        }
    }

    fn growth_failed(&self, extent: Extent, error: std::io::Error) -> StoreError {
        {
            let mut map = self.map();
            let released = map.release(extent);
            debug_assert!(released.is_ok(), "the extent was taken by this thread: {released:?}");
            map.retreat();
        }
        if is_full(&error) {
            return self.full_below(extent.len_bytes);
        }
        StoreError::Grow { store: self.name.clone(), extent, source: Arc::new(error) }
    }

    fn trim_tail(&self) -> std::io::Result<()> {
        let frontier = {
            let mut map = self.map();
            map.retreat();
            map.frontier_bytes()
        };
        self.blocks.truncate(frontier)
    }

    /// Releases the space of each hole. A hole is claimed in the map while it is punched, so that
    /// no other thread can allocate and write it.
    fn punch_holes(&self) -> std::io::Result<()> {
        let holes = self.map().free_extents();
        for hole in holes {
            if self.map().claim(hole).is_err() {
                continue; // Allocated in the meantime.
            }
            let punched = self.blocks.punch(hole.offset_bytes, hole.len_bytes);
            self.free(hole);
            punched?;
        }
        Ok(())
    }

    fn accept(&self, write: &Write<'_>) -> Result<Stored, StoreError> {
        self.check(write.extent, write.data)?;
        debug_assert!(self.map().is_used(write.extent), "write to free {}", write.extent);
        Ok(Stored { extent: write.extent, checksum: 0 })
    }

    fn check(&self, extent: Extent, data: &[u8]) -> Result<(), StoreError> {
        let aligned = data.as_ptr().addr().is_multiple_of(PAGE_BYTES);
        let inside = extent.is_whole_pages() && extent.end_bytes() <= self.capacity_bytes;
        if aligned && inside && to_u64(data.len()) == extent.len_bytes {
            return Ok(());
        }
        Err(self.invalid(format!(
            "a buffer of {} bytes at {:p} cannot hold {extent}: it must have the same length, lie \
             on a 4KiB boundary, and the extent inside the store",
            data.len(),
            data.as_ptr()
        )))
    }

    fn written(&self, io: Io<'_>) -> Result<Stored, StoreError> {
        let extent = extent_of(&io);
        self.counters.wrote(extent.len_bytes);
        match io.result {
            Ok(()) => Ok(Stored { extent, checksum: io.found }),
            Err(error) => Err(self.write_failed(extent, error)),
        }
    }

    fn verified(&self, io: Io<'_>) -> Result<(), StoreError> {
        let extent = extent_of(&io);
        self.counters.read(extent.len_bytes);
        match io.result {
            Ok(()) if io.found == io.expected => Ok(()),
            Ok(()) => {
                self.counters.corrupt();
                Err(StoreError::Corrupt {
                    store: self.name.clone(),
                    offset: extent.offset_bytes,
                    len: extent.len_bytes,
                    expected: io.expected,
                    found: io.found,
                })
            }
            Err(error) => Err(self.read_failed(extent, error)),
        }
    }

    fn read_failed(&self, extent: Extent, error: std::io::Error) -> StoreError {
        self.counters.read_error();
        StoreError::Read { store: self.name.clone(), extent, source: Arc::new(error) }
    }

    fn write_failed(&self, extent: Extent, error: std::io::Error) -> StoreError {
        if is_full(&error) {
            return self.full_below(extent.len_bytes);
        }
        let source = Arc::new(error);
        let error = StoreError::Write { store: self.name.clone(), extent, source };
        self.first_error.set(&error);
        error
    }

    fn refuse_if_latched(&self) -> Result<(), StoreError> {
        self.first_error.first().map_or(Ok(()), |first| Err(self.latched_error(first)))
    }

    fn latched_error(&self, first: String) -> StoreError {
        StoreError::Latched { store: self.name.clone(), first }
    }

    fn full(&self, asked_bytes: u64) -> StoreError {
        self.counters.full();
        let map = self.map();
        StoreError::Full {
            store: self.name.clone(),
            asked_bytes,
            free_bytes: map.free_bytes(),
            largest_free_bytes: map.largest_free_bytes(),
            capacity_bytes: self.capacity_bytes,
        }
    }

    /// Returns [`StoreError::Full`] for a full file system: the free space of the file system
    /// limits that of the store.
    fn full_below(&self, asked_bytes: u64) -> StoreError {
        self.counters.full();
        let room_bytes = self.blocks.room_bytes();
        let map = self.map();
        let free_bytes = room_bytes.min(map.free_bytes());
        StoreError::Full {
            store: self.name.clone(),
            asked_bytes,
            free_bytes,
            largest_free_bytes: free_bytes.min(map.largest_free_bytes()),
            capacity_bytes: map.used_bytes() + free_bytes,
        }
    }

    fn invalid(&self, what: String) -> StoreError {
        StoreError::Invalid { store: self.name.clone(), what }
    }
}

/// Computes the checksum of a transfer while others of the batch are in flight: at 10 GiB/s and
/// more, its cost is hidden behind any device.
fn digest(io: &mut Io<'_>) {
    io.found = checksum(io.offset, io.buffer.bytes());
}

fn extent_of(io: &Io<'_>) -> Extent {
    Extent { offset_bytes: io.offset, len_bytes: to_u64(io.buffer.len()) }
}

impl std::fmt::Debug for Store {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Store")
            .field("name", &self.name)
            .field("kind", &self.kind())
            .field("capacity_bytes", &self.capacity_bytes)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
