//! Where bytes live and how they are moved, below checksums and free map.

use std::io;
use std::sync::Arc;

use terrace_sys::file::DirectFile;

pub use terrace_sys::transfer::{Buffer, Done, Io};

/// A flat run of bytes with positioned transfers.
///
/// To implement it: move what [`Blocks::run`] is asked to, set every result, and keep nothing of
/// the buffers after returning. Transfers of one batch may overlap in time and take any order;
/// batches of several threads run side by side. Nothing is cached that [`Blocks::sync`] would not
/// flush, and an error is reported once, by the call that met it: the store above latches.
///
/// ```text
///  Store      extents, free map, checksums, latch
///    |  run(batch, done), ensure, punch, truncate, sync
///  Blocks     memory | file x { io_uring, pread } | faulty(any of them) | emulated(any of them)
/// ```
pub trait Blocks: Send + Sync {
    /// Performs the transfers, all in flight together as far as the engine can, and returns when
    /// the last one is done. Sets each [`Io::result`]: `Ok` when every byte moved; `done` is called
    /// once for each such transfer, while others are in flight.
    fn run(&self, batch: &mut [Io<'_>], done: &Done<'_>);

    /// Makes completed writes durable.
    ///
    /// # Errors
    /// When the device fails; what was written since the last sync may be lost.
    fn sync(&self) -> io::Result<()>;

    /// Makes room for bytes up to `end_bytes`. Several threads may call it at a time: those that
    /// move what lies in different places.
    ///
    /// # Errors
    /// [`io::ErrorKind::StorageFull`] or [`io::ErrorKind::QuotaExceeded`] when there is none.
    fn ensure(&self, end_bytes: u64) -> io::Result<()>;

    /// Gives the space of a range back; it reads as zero or as before afterwards.
    ///
    /// # Errors
    /// When the device fails, or cannot do it at all.
    fn punch(&self, offset: u64, len_bytes: u64) -> io::Result<()>;

    /// Gives everything from `end_bytes` on back. Not called beside [`Blocks::ensure`].
    ///
    /// # Errors
    /// When the device fails.
    fn truncate(&self, end_bytes: u64) -> io::Result<()>;

    /// Whether they hold nothing that somebody may want: they were never written, as far as that
    /// can be told without reading them all.
    ///
    /// # Errors
    /// When the device fails.
    fn is_blank(&self) -> io::Result<bool>;

    /// Bytes that can be read; what lies beyond was never written.
    ///
    /// # Errors
    /// When the device cannot tell.
    fn len_bytes(&self) -> io::Result<u64> {
        Ok(u64::MAX)
    }

    /// Bytes that the file system below has left, which may be fewer than the store's capacity.
    fn room_bytes(&self) -> u64 {
        0
    }

    /// What offsets, lengths and addresses of transfers must be multiples of.
    fn alignment_bytes(&self) -> u64 {
        1
    }

    /// The file they are, for who waits for its transfers beside other things.
    fn file(&self) -> Option<Arc<DirectFile>> {
        None
    }

    /// A word for statistics: `io_uring`, `pread`, `memory`, and whether the page cache is used.
    fn kind(&self) -> &str;
}
