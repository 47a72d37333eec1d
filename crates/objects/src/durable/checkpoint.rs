//! Checkpoints: a new log, and a dump of everything before it.

use std::path::{Path, PathBuf};
use std::sync::Mutex;

use terrace_sys::sync::lock;

use super::blocks::{Head, Link};
use super::directory::LogDirectory;
use super::dump::{Dump, Dumped};
use super::identity::Identity;
use super::log::{self, Log, LogFile};
use crate::error::ObjectError;

/// Maker of the checkpoints of a store with a log, one at a time.
pub(crate) struct Checkpoints {
    directory: LogDirectory,
    /// Held during a checkpoint: a second one waits for the first.
    alone: Mutex<()>,
}

impl Checkpoints {
    /// Makes the checkpoints of a store with a directory.
    pub(crate) fn new(directory: LogDirectory) -> Self {
        Self { directory, alone: Mutex::default() }
    }

    /// Writes the whole store to a dump and begins a new log.
    pub(crate) fn make(&self, log: &Log, dump: Dump<'_>) -> Result<Dumped, ObjectError> {
        let _alone = lock(&self.alone);
        loop {
            let was_broken = log.is_sound().is_err();
            log.turn_over(begin_log(&self.directory, dump.identity, log.place().0 + 1, None)?);
            // A log that failed before is followed by one that is empty until it is mended, so the
            // dump has every change made. If the log has failed since, the next one may have some
            // changes and lack later ones.
            if was_broken || log.is_sound().is_ok() {
                let (number, after) = log.place();
                let path = self.directory.path("dump", number);
                // Recovery redoes the changes of the log upon the dump. That ends at a state the
                // store had only if the log has all changes that the dump has.
                let ready = || if was_broken { Ok(()) } else { log.sync() };
                let dumped =
                    dump.to_file(self.directory.files(), &path, number, Some(after), ready)?;
                if was_broken {
                    log.mend();
                }
                log.forget_earlier();
                self.directory.remove_before(number)?;
                log.is_sound()?;
                return Ok(dumped);
            }
        }
    }

    /// Gives files second names that recovery does not read, durably.
    pub(crate) fn keep(&self, files: &[PathBuf]) -> Result<(), ObjectError> {
        files.iter().try_for_each(|path: &PathBuf| self.directory.keep(Path::new(path)))?;
        self.directory.sync()
    }
}

/// Begins a log. `after` links to the batch before it, if no batch will be appended to the log
/// before.
pub(crate) fn begin_log(
    directory: &LogDirectory,
    identity: Identity,
    number: u64,
    after: Option<Link>,
) -> Result<LogFile, ObjectError> {
    let files = directory.files();
    let head = Head { boot: files.boot(), after, ..identity.head(log::MAGIC, number) };
    LogFile::create(files, directory.path("log", number), head)
}
