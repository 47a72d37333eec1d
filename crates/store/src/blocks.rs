//! The `Blocks` trait: storage and transfer of raw bytes, below checksums and free map.

use std::io;
use std::sync::Arc;

use terrace_sys::file::DirectFile;

pub use terrace_sys::transfer::{Buffer, Done, Io};

/// A flat byte range with positioned transfers.
///
/// To implement it: perform every transfer that [`Blocks::run`] is given, set every result, and
/// keep no reference to the buffers after returning. Transfers of one batch may overlap in time and
/// complete in any order; batches of several threads run concurrently. Nothing may be cached that
/// [`Blocks::sync`] does not flush, and an error is reported once, by the call that met it: the
/// store above latches.
///
/// ```text
///  Store      extents, free map, checksums, latch
///    |  run(batch, done), ensure, punch, truncate, sync
///  Blocks     memory | file x { io_uring, pread } | faulty(any of them) | emulated(any of them)
/// ```
pub trait Blocks: Send + Sync {
    /// Performs the transfers, all in flight together as far as the engine can, and returns when
    /// the last one is complete. Sets each [`Io::result`]: `Ok` if every byte was transferred;
    /// `done` is called once for each such transfer, while others are in flight.
    fn run(&self, batch: &mut [Io<'_>], done: &Done<'_>);

    /// Makes completed writes durable.
    ///
    /// # Errors
    /// Returns an error if the device fails; writes since the last sync may be lost.
    fn sync(&self) -> io::Result<()>;

    /// Allocates space for bytes up to `end_bytes`. Threads that transfer at different offsets may
    /// call it concurrently.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] or [`io::ErrorKind::QuotaExceeded`] when there is no space.
    fn ensure(&self, end_bytes: u64) -> io::Result<()>;

    /// Releases the space of a range; afterwards it reads as zero or as before.
    ///
    /// # Errors
    /// Returns an error if the device fails, or does not support it.
    fn punch(&self, offset: u64, len_bytes: u64) -> io::Result<()>;

    /// Releases all space from `end_bytes` on. Never called concurrently with [`Blocks::ensure`].
    ///
    /// # Errors
    /// Returns an error if the device fails.
    fn truncate(&self, end_bytes: u64) -> io::Result<()>;

    /// True if the blocks were never written, as far as that can be told without reading them all,
    /// so that nothing of value is overwritten.
    ///
    /// # Errors
    /// Returns an error if the device fails.
    fn is_blank(&self) -> io::Result<bool>;

    /// Returns the number of bytes that can be read; bytes beyond were never written.
    ///
    /// # Errors
    /// Returns an error if the length of the device cannot be determined.
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    /// Returns the free bytes of the file system below, which may be fewer than the store's
    /// capacity; 0 if there is none or it cannot tell.
    fn room_bytes(&self) -> u64 {
        0
    }

    /// Required alignment of offsets, lengths and buffer addresses of transfers, in bytes.
    fn alignment_bytes(&self) -> u64 {
        1
    }

    /// Returns the file behind the blocks, for callers that wait for its transfers together with
    /// other events; `None` if there is no file.
    fn file(&self) -> Option<Arc<DirectFile>> {
        None
    }

    /// Returns the kind for statistics: `io_uring`, `pread`, `memory` or `emulated`, with a note if
    /// transfers go through the page cache.
    fn kind(&self) -> &str;
}
