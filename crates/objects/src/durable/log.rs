//! The log: makes changes durable, so that they survive the process.
//!
//! A thread that changes an object appends the change to a buffer under the latch of the object's
//! group, so the log has the changes of one object in their order. After the latch is released, the
//! change waits until it is durable: the first waiting thread writes the changes of all threads as
//! one batch and wakes every thread whose changes were in it (group commit). Other threads see a
//! change before it is durable.
//!
//! ```text
//! file     head, batches
//! batch    head 44, changes (log/batch.rs)
//! ```
//!
//! A batch records the length of the file that was on the device before the batch was written. A
//! crash of the machine may leave any part of what comes after that offset (torn writes); before
//! it, an incomplete batch is damage. A batch without changes is written after a sync that no other
//! batch follows. Batches are numbered, and each has the checksum of the one before it, also across
//! logs: a missing batch, or one of another writer, breaks the chain.
//!
//! # No thread waits for another's sync
//!
//! A sync (`fdatasync`) takes milliseconds, on a busy device seconds. For that long, only the
//! thread that requested the sync waits, and those that wait for durability themselves
//! ([`Durability::Synced`], [`crate::ObjectStore::sync`]):
//!
//! - A group commit writes its batch under the lock of the file, and syncs without it.
//! - A checkpoint begins the next log, makes it durable, and then swaps the files: the lock of the
//!   file is held for the swap alone. The old file is synced afterwards, while the new one is
//!   written.
//! - `sync` and the maintenance thread write the pending changes, sync without a lock, and then
//!   write the batch that records the sync.
//!
//! [`file::Device`] keeps the order of the logs on the device: the new file is not synced before
//! the old one is. So no change counts as synced while one before it may be lost, and until then
//! batches in the new file record that the device may lack the log before (`synced` is 0). Recovery
//! reads the old file first, and continues with the new one if the chain of batches does. If the
//! machine crashed in between, and the old file lacks its end, the new one begins with a batch that
//! does not continue the chain: by its own record nothing in it was synced, and it is left out, as
//! the missing end of the old file is. If a batch of the new file records that the log before it
//! was on the device, the old one is damaged.
//!
//! # After an error
//!
//! After a failed write or sync a log is not written to again, as its contents on the device are
//! unknown. Changes are refused from then on, until a checkpoint has written the whole store
//! elsewhere. The dump of that checkpoint has all changes that were made, also those that no log
//! has; so the log that follows it must have no change from before the dump: it is begun when no
//! write is in progress and none can begin.
//!
//! # After a fork
//!
//! A child process has a copy of the store and of its descriptors, and the parent continues the
//! log. So changes are errors in a child, and dropping its copy writes nothing ([`Log::is_here`]).
//!
//! Locking order: a group's latch, then `pending`, then the file. A thread waits for a sync with
//! none of them.

mod batch;
mod file;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use terrace_sys::identity::ProcessMark;
use terrace_sys::size::to_u64;
use terrace_sys::sync::lock;

pub(crate) use batch::{BATCH_HEAD_BYTES, BatchHead};
pub(crate) use file::LogFile;

use crate::config::Durability;
use crate::durable::blocks::Link;
use crate::durable::change::Change;
use crate::error::ObjectError;
use batch::Changes;
use file::Device;

pub(crate) const MAGIC: [u8; 8] = *b"TRCobjlo";
/// Bytes of deferred changes from which on they are written.
const BUFFER_BYTES: usize = 1 << 20;

/// Position in the log: upper bound of the bytes of all changes since the store was opened.
pub(crate) type Position = u64;

/// The log of a store: the changes that wait to be written, and the current file.
pub(crate) struct Log {
    durability: Durability,
    owner: ProcessMark,
    pending: Mutex<Pending>,
    written: Condvar,
    file: Mutex<LogFile>,
    /// No change is accepted until a checkpoint was made.
    broken: AtomicBool,
    /// The last sync was made, or is left to another process.
    closed: AtomicBool,
}

struct Pending {
    changes: Changes,
    /// An empty buffer, to continue with during a write.
    spare: Changes,
    /// Position of the next change, and position up to which all changes are as durable as
    /// configured.
    end: Position,
    durable: Position,
    writing: bool,
    failed: Option<String>,
}

impl Log {
    pub(crate) fn new(file: LogFile, durability: Durability) -> Self {
        let pending = Pending {
            changes: Changes::default(),
            spare: Changes::default(),
            end: 0,
            durable: 0,
            writing: false,
            failed: None,
        };
        Self {
            durability,
            owner: ProcessMark::new(),
            pending: Mutex::new(pending),
            written: Condvar::new(),
            file: Mutex::new(file),
            broken: AtomicBool::new(false),
            closed: AtomicBool::new(false),
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        lock(&self.pending)
    }

    fn file(&self) -> MutexGuard<'_, LogFile> {
        lock(&self.file)
    }

    /// Checks that this is the process that opened the store. In a child, locks of the log may be
    /// held by threads that exist only in the parent, so this is called before any of them is
    /// taken.
    #[inline]
    pub(crate) fn is_here(&self) -> Result<(), ObjectError> {
        if self.owner.is_here() {
            return Ok(());
        }
        Err(ObjectError::Forked { opened_by: self.owner.process() })
    }

    /// Checks that the log accepts changes.
    pub(crate) fn is_sound(&self) -> Result<(), ObjectError> {
        if !self.broken.load(Ordering::Acquire) {
            return Ok(());
        }
        let pending = self.pending();
        pending.failed.as_ref().map_or(Ok(()), |reason| Err(ObjectError::Log(reason.clone())))
    }

    /// Appends a change, under the latch of the changed group. Returns the position of its end.
    pub(crate) fn append(&self, change: Change<'_>) -> Position {
        let mut pending = self.pending();
        if pending.failed.is_none()
            && let Err(error) = pending.changes.append(change)
        {
            self.fail(&mut pending, format!("no memory for a change: {error}"));
        }
        pending.end += to_u64(change.bytes_max());
        pending.end
    }

    fn fail(&self, pending: &mut Pending, reason: String) {
        tracing::error!(reason, "the log of a store of objects");
        pending.failed.get_or_insert(reason);
        self.broken.store(true, Ordering::Release);
        self.written.notify_all();
    }

    /// Waits until the changes up to a position are as durable as configured.
    pub(crate) fn commit(&self, position: Position) -> Result<(), ObjectError> {
        match self.durability {
            Durability::Synced | Durability::Written => self.wait(position),
            Durability::Deferred if self.pending().changes.len() < BUFFER_BYTES => Ok(()),
            Durability::Deferred => self.wait(position),
        }
    }

    /// Waits until all changes before a position are written, and synced if configured. Writes them
    /// itself if no other thread does.
    fn wait(&self, position: Position) -> Result<(), ObjectError> {
        let mut pending = self.pending();
        loop {
            if pending.durable >= position {
                return Ok(());
            }
            if let Some(reason) = &pending.failed {
                return Err(ObjectError::Log(reason.clone()));
            }
            if pending.writing {
                pending = self.written.wait(pending).unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            pending = self.write(pending);
        }
    }

    fn write<'a>(&'a self, mut now: MutexGuard<'a, Pending>) -> MutexGuard<'a, Pending> {
        now.writing = true;
        let spare = std::mem::take(&mut now.spare);
        let mut changes = std::mem::replace(&mut now.changes, spare);
        let end = now.end;
        drop(now);
        let mut file = self.file();
        let device = Arc::clone(&file.device);
        let written = file.write(&mut changes);
        let to_sync = written.and_then(|()| match self.durability {
            Durability::Synced => file.to_sync().map(Some),
            Durability::Written | Durability::Deferred => Ok(None),
        });
        drop(file);
        let done = to_sync.and_then(|it| it.map_or(Ok(()), |(device, len)| device.sync_to(len)));
        changes.clear(2 * BUFFER_BYTES);
        let mut pending = self.pending();
        pending.writing = false;
        pending.spare = changes;
        match done {
            Ok(()) => pending.durable = end,
            Err(error) => self.fail(&mut pending, reason_of(&device.path, &error)),
        }
        self.written.notify_all();
        pending
    }

    /// Returns the position of the end of all changes.
    pub(crate) fn end(&self) -> Position {
        self.pending().end
    }

    /// Syncs all changes up to now to the device.
    pub(crate) fn sync(&self) -> Result<(), ObjectError> {
        self.is_here()?;
        let position = self.pending().end;
        self.wait(position)?;
        self.is_sound()?;
        let file = self.file();
        let (device, to_sync) = (Arc::clone(&file.device), file.to_sync());
        drop(file);
        let synced = to_sync.and_then(|(device, len)| device.sync_to(len));
        let said = synced.and_then(|()| {
            let mut file = self.file();
            // The batches of another log record this themselves.
            if Arc::ptr_eq(&file.device, &device) { file.seal() } else { Ok(()) }
        });
        said.map_err(|error| self.fail_of(&device, &error))
    }

    /// Notes the failure of a file, unless a checkpoint has replaced the file meanwhile.
    fn fail_of(&self, device: &Device, error: &io::Error) -> ObjectError {
        let reason = reason_of(&device.path, error);
        let mut pending = self.pending();
        if self.file().device.sequence == device.sequence {
            self.fail(&mut pending, reason.clone());
        }
        ObjectError::Log(reason)
    }

    /// Makes the last sync; dropping the log does not sync again. Does nothing in a child process.
    pub(crate) fn close(&self) -> Result<(), ObjectError> {
        if self.closed.swap(true, Ordering::AcqRel) || !self.owner.is_here() {
            return Ok(());
        }
        self.sync()
    }

    /// Continues in the file `next`. A log that has failed accepts no changes there either until
    /// [`Log::mend`], so that the file stays empty until then.
    pub(crate) fn turn_over(&self, next: LogFile) {
        // Syncs most of the changes before the files are swapped; a failure is found again below.
        let _ = self.sync();
        let mut pending = self.pending();
        // After a failure no write begins; one in progress belongs to the old file.
        while pending.failed.is_some() && pending.writing {
            pending = self.written.wait(pending).unwrap_or_else(PoisonError::into_inner);
        }
        let failed = pending.failed.is_some();
        drop(pending);
        let mut file = self.file();
        let old = file.continue_in(next);
        let new = Arc::clone(&file.device);
        drop(file);
        if failed {
            return;
        }
        match old.to_sync().and_then(|(device, len)| device.sync_to(len)) {
            Ok(()) => new.begin(),
            Err(error) => {
                let reason = reason_of(&old.device.path, &error);
                self.fail(&mut self.pending(), reason);
            }
        }
    }

    /// Returns the sequence number of the current file, and the batch before its first one.
    pub(crate) fn place(&self) -> (u64, Link) {
        let file = self.file();
        (file.device.sequence, file.first)
    }

    /// Excludes the files before this one, which a dump has replaced, from [`Log::len`].
    pub(crate) fn forget_earlier(&self) {
        self.file().earlier = 0;
    }

    /// Accepts changes again, after a checkpoint has written the whole store elsewhere.
    pub(crate) fn mend(&self) {
        Arc::clone(&self.file().device).begin();
        let mut pending = self.pending();
        pending.failed = None;
        pending.changes.clear(2 * BUFFER_BYTES);
        pending.durable = pending.end;
        self.broken.store(false, Ordering::Release);
        self.written.notify_all();
    }

    /// Returns the bytes of the log since the last checkpoint; 0 in a child process.
    pub(crate) fn len(&self) -> u64 {
        if self.owner.is_here() { self.file().bytes() } else { 0 }
    }
}

fn reason_of(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Err(error) = self.close() {
            tracing::error!(%error, "the last changes of a store of objects");
        }
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests;
