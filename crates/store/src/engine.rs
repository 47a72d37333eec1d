//! I/O engines of files: io_uring, or `pread` and `pwrite` where the kernel refuses it.

use std::io;

use terrace_sys::file::DirectFile;

use super::blocks::{Done, Io};

mod pread;
mod uring;

use pread::Pread;
use uring::RingPool;

/// Choice of the I/O engine of a file.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// io_uring, or `pread` and `pwrite` if the kernel refuses it.
    #[default]
    Auto,
    /// io_uring; an error if the kernel refuses it.
    Uring,
    /// `pread` and `pwrite`.
    Pread,
}

/// An I/O engine, which runs batches with the contract of [`Blocks::run`](super::Blocks::run).
pub(super) trait Engine: Send + Sync {
    fn run(&self, file: &DirectFile, batch: &mut [Io<'_>], done: &Done<'_>);

    fn name(&self) -> &'static str;
}

/// Opens the chosen engine.
///
/// # Errors
/// Returns an error if io_uring is demanded and the kernel refuses it.
pub(super) fn open(choice: EngineChoice) -> io::Result<Box<dyn Engine>> {
    match choice {
        EngineChoice::Pread => Ok(Box::new(Pread)),
        EngineChoice::Uring => Ok(Box::new(RingPool::open()?)),
        EngineChoice::Auto => match RingPool::open() {
            Ok(rings) => Ok(Box::new(rings)),
            Err(error) => {
                tracing::warn!(%error, "io_uring is refused: pread and pwrite serve instead");
                Ok(Box::new(Pread))
            }
        },
    }
}
