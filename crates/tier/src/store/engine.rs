//! How batches reach a file: through io_uring, or by `pread` and `pwrite` where it is refused.

use std::io;

use terrace_sys::file::DirectFile;

use super::{Done, Io};

mod pread;
mod uring;

use pread::Pread;
use uring::RingPool;

/// Which engine moves the bytes of a file.
#[derive(Copy, Clone, Debug, Default, PartialEq, Eq)]
pub enum EngineChoice {
    /// io_uring, or `pread` where the kernel refuses it.
    #[default]
    Auto,
    /// io_uring or an error.
    Uring,
    /// `pread` and `pwrite`.
    Pread,
}

/// Moves the bytes of batches, as [`Blocks::run`](super::Blocks::run) says.
pub(super) trait Engine: Send + Sync {
    fn run(&self, file: &DirectFile, batch: &mut [Io<'_>], done: &Done<'_>);

    fn name(&self) -> &'static str;
}

/// The engine chosen.
///
/// # Errors
/// When io_uring is demanded and refused.
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
