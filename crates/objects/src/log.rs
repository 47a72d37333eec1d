//! The log: changes on their way to a device, so that they survive the process.
//!
//! A thread that changes an object appends the change to a buffer under the latch of the object's
//! group, so the log has the changes of one object in their order. Once the latch is free, the
//! change waits until it is durable: the first thread that waits writes what all have appended as
//! one batch and wakes all whose changes were in it (group commit). Others see a change before it
//! is durable.
//!
//! ```text
//! file     head, batches
//! batch    head 44, changes (log/batch.rs)
//! ```
//!
//! A batch says up to where the file was on the device before it was written. Of what comes after
//! that place a machine that stops may leave any part; before it, what is not whole is damaged. A
//! batch without changes follows where a sync is the last that happens. Batches are numbered, and
//! each knows the checksum of the one before it, from log to log: a missing one, and one of another
//! writer, breaks the chain.
//!
//! # No thread waits for another's sync
//!
//! A sync (`fdatasync`) takes milliseconds, on a busy device seconds. Whatever is held for that
//! long is held by the one thread that asked for the sync, and by those that wait for durability
//! themselves ([`Durability::Synced`], [`crate::ObjectStore::sync`]):
//!
//! - A group commit writes its batch under the lock of the file, and syncs without it.
//! - A checkpoint begins the next log, makes it durable, and then swaps the files: the lock of the
//!   file is held for that alone. The old file is synced afterwards, while the new one is written.
//! - `sync` and the keeper write what is pending, sync without a lock, and then write the batch
//!   that says so.
//!
//! The order of the logs on the device is kept by [`file::Device`]: the new file is not synced
//! before the old one is. So no change counts as synced while one before it may be lost, and until
//! then batches in the new file say that the device may lack the log before (`synced` is 0).
//! Recovery reads the old file first, and goes on with the new one where the chain of batches does.
//! Where the machine stopped in between, and the old file lacks its end, the new one begins with a
//! batch that does not continue the chain: nothing in it was synced, by its own word, and it is
//! left out as the end of the old one is. If a batch of the new file says that the log before it
//! was on the device, the old one is damaged.
//!
//! # After an error
//!
//! A log that could not be written, or not synced, is not written to again: what the device has of
//! it is not known. Changes are refused from then on, until a checkpoint has written everything
//! elsewhere. The dump of that checkpoint has all changes that were made, also those that no log
//! has; so the log that follows it must have none of before: it is begun when no write is under way
//! and none can begin.
//!
//! # After a fork
//!
//! A child process has a copy of the store and of its descriptors, and the parent goes on with the
//! log. So changes are errors in a child, and its copy ends without a write ([`Log::is_here`]).
//!
//! Locking order: a group's latch, then what is pending, then the file. A sync is waited for with
//! none of them.

mod batch;
mod file;

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use terrace_sys::identity::ProcessMark;
use terrace_sys::size::to_u64;

pub(crate) use batch::{BATCH_HEAD_BYTES, BatchHead, Link};
pub(crate) use file::LogFile;

use crate::config::Durability;
use crate::error::ObjectError;
use crate::record::Change;
use batch::Changes;
use file::Device;

pub(crate) const MAGIC: [u8; 8] = *b"TRCobjlo";
/// Changes that nobody waits for are written when there are so many bytes of them.
const BUFFER_BYTES: usize = 1 << 20;

/// Bytes of changes of all since the store was opened: a place in the log.
pub(crate) type Position = u64;

/// The log of a store.
pub(crate) struct Log {
    durability: Durability,
    owner: ProcessMark,
    pending: Mutex<Pending>,
    written: Condvar,
    file: Mutex<LogFile>,
    /// No change is taken until a checkpoint was made.
    broken: AtomicBool,
    /// The last sync was made, or is nobody's business.
    closed: AtomicBool,
}

struct Pending {
    changes: Changes,
    /// An empty buffer to go on with.
    spare: Changes,
    /// Where the next change goes, and up to where all is as durable as changes wait for.
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
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn file(&self) -> MutexGuard<'_, LogFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether this is the process that opened the store. Locks of the log may be held in a child
    /// by threads that it does not have: this is asked before any of them is taken.
    #[inline]
    pub(crate) fn is_here(&self) -> Result<(), ObjectError> {
        if self.owner.is_here() {
            return Ok(());
        }
        Err(ObjectError::Forked { opened_by: self.owner.process() })
    }

    /// Whether changes are taken.
    pub(crate) fn is_sound(&self) -> Result<(), ObjectError> {
        if !self.broken.load(Ordering::Acquire) {
            return Ok(());
        }
        let pending = self.pending();
        pending.failed.as_ref().map_or(Ok(()), |reason| Err(ObjectError::Log(reason.clone())))
    }

    /// Appends a change, under the latch of what is changed; where that ends.
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

    /// Waits as long as the durability of the log asks for.
    pub(crate) fn commit(&self, position: Position) -> Result<(), ObjectError> {
        match self.durability {
            Durability::Synced | Durability::Written => self.wait(position),
            Durability::Deferred if self.pending().changes.len() < BUFFER_BYTES => Ok(()),
            Durability::Deferred => self.wait(position),
        }
    }

    /// Waits until all before a position is written, and synced where changes wait for that; does
    /// it if no other thread does.
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

    /// Up to where there are changes.
    pub(crate) fn end(&self) -> Position {
        self.pending().end
    }

    /// Everything up to now is on the device once this returns.
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
            // What another log has is said by its batches.
            if Arc::ptr_eq(&file.device, &device) { file.seal() } else { Ok(()) }
        });
        said.map_err(|error| self.fail_of(&device, &error))
    }

    /// A file failed; if it is that of before a checkpoint, everything may be elsewhere by now.
    fn fail_of(&self, device: &Device, error: &io::Error) -> ObjectError {
        let reason = reason_of(&device.path, error);
        let mut pending = self.pending();
        if self.file().device.sequence == device.sequence {
            self.fail(&mut pending, reason.clone());
        }
        ObjectError::Log(reason)
    }

    /// Syncs for the last time; what is dropped after this does not sync again. Nothing in a child.
    pub(crate) fn close(&self) -> Result<(), ObjectError> {
        if self.closed.swap(true, Ordering::AcqRel) || !self.owner.is_here() {
            return Ok(());
        }
        self.sync()
    }

    /// Goes on in another file. A log that has failed takes no changes there either, until
    /// [`Log::mend`]; that one is empty then.
    pub(crate) fn turn_over(&self, next: LogFile) {
        // Most of it before the files are swapped; what this fails for is found again below.
        let _ = self.sync();
        let mut pending = self.pending();
        // With a log that failed no write begins; one that is under way belongs to the old file.
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

    /// The number of the file that is written to, and the batch before its first one.
    pub(crate) fn place(&self) -> (u64, Link) {
        let file = self.file();
        (file.device.sequence, file.first)
    }

    /// A dump stands for all files before this one.
    pub(crate) fn forget_earlier(&self) {
        self.file().earlier = 0;
    }

    /// Everything that the store holds was written elsewhere: changes are taken again.
    pub(crate) fn mend(&self) {
        Arc::clone(&self.file().device).begin();
        let mut pending = self.pending();
        pending.failed = None;
        pending.changes.clear(2 * BUFFER_BYTES);
        pending.durable = pending.end;
        self.broken.store(false, Ordering::Release);
        self.written.notify_all();
    }

    /// Bytes that a start would read; none in a child.
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
mod tests {
    use std::path::PathBuf;

    use super::*;
    use crate::blocks::{HEAD_BYTES, Head, VERSION};
    use crate::memory_files::{Asked, MemoryFiles};

    fn path(sequence: u64) -> PathBuf {
        format!("log-{sequence}").into()
    }

    fn file(files: &MemoryFiles, sequence: u64) -> LogFile {
        let (magic, version, node, salt, boot) = (MAGIC, VERSION, 0, 7, 0);
        let (generations, after) = (false, None);
        let head = Head { magic, version, node, generations, sequence, salt, boot, after };
        LogFile::create(files, path(sequence), head).expect("a new one")
    }

    fn log(durability: Durability) -> (Log, MemoryFiles) {
        let files = MemoryFiles::default();
        let log = Log::new(file(&files, 1).follow(Link::default()), durability);
        (log, files)
    }

    /// What the files were asked for since they were made, in words.
    fn asked(files: &MemoryFiles) -> Vec<String> {
        let word = |asked: &Asked| match asked {
            Asked::Write { file, .. } => format!("write {file}"),
            Asked::FailedSync(_) => "failed sync".to_owned(),
            Asked::Sync { file, .. } => format!("sync {file}"),
            other => format!("{other:?}"),
        };
        files.asked().iter().skip(4).map(word).collect()
    }

    /// Changes an object and waits as a change does.
    fn change(log: &Log) -> Result<(), ObjectError> {
        let id = crate::id::ObjectId::from_bits(1);
        log.commit(log.append(Change::Put { id, bytes: &[7; 8] }))
    }

    #[test]
    fn whoever_waits_hears_of_a_sync_that_failed() {
        let (log, files) = log(Durability::Deferred);
        files.fail_sync(1);
        files.slow_down(std::time::Duration::from_millis(20));
        change(&log).expect("nobody waits");
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(|| assert!(log.sync().is_err()))));
        });
        assert_eq!(asked(&files), ["write 0", "failed sync"]);
    }

    #[test]
    fn a_log_is_not_synced_before_the_one_before_it() {
        let (log, files) = log(Durability::Written);
        change(&log).expect("it is written");
        let old = log.file().continue_in(file(&files, 2));
        change(&log).expect("it is written");
        let before = asked(&files).len();
        log.sync().expect("a device");
        assert_eq!(asked(&files)[before..], ["sync 0", "sync 1", "write 1"]);
        assert!(old.to_sync().is_ok_and(|(device, len)| device.sync_to(len).is_ok()));
        assert_eq!(asked(&files).len(), before + 3, "it is on the device");
    }

    #[test]
    fn all_of_a_log_is_synced_when_another_begins() {
        let (log, files) = log(Durability::Written);
        change(&log).expect("it is written");
        log.turn_over(file(&files, 2));
        log.is_sound().expect("all went well");
        assert!(asked(&files).contains(&"sync 0".to_owned()), "{:?}", asked(&files));
        assert!(log.len() > to_u64(2 * HEAD_BYTES), "no dump stands for the other");
        log.forget_earlier();
        assert_eq!(log.len(), to_u64(HEAD_BYTES));
    }

    #[test]
    fn a_sync_that_failed_is_not_asked_for_again() {
        for durability in [Durability::Written, Durability::Deferred] {
            let (log, files) = log(durability);
            files.fail_sync(1);
            change(&log).expect("it is written, or deferred");
            assert!(log.sync().is_err());
            assert!(log.sync().is_err(), "nobody knows what the device has");
            assert!(log.is_sound().is_err());
            assert_eq!(asked(&files), ["write 0", "failed sync"]);
        }
    }

    #[test]
    fn changes_of_a_batch_that_failed_are_not_acknowledged() {
        let (log, files) = log(Durability::Synced);
        change(&log).expect("the first sync");
        files.fail_sync(1);
        assert!(change(&log).is_err() && change(&log).is_err());
        log.turn_over(file(&files, 2));
        assert!(log.is_sound().is_err(), "a checkpoint is missing");
        log.mend();
        change(&log).expect("everything is elsewhere");
    }

    /// A log that failed while another began is not gone on with in that one.
    #[test]
    fn a_log_whose_end_is_not_synced_fails() {
        let (log, files) = log(Durability::Written);
        let next = file(&files, 2);
        change(&log).expect("it is written");
        // The first sync is that of before the files are swapped.
        files.fail_sync(1);
        log.turn_over(next);
        assert!(log.is_sound().is_err() && change(&log).is_err() && log.sync().is_err());
    }

    #[test]
    fn another_writer_is_an_error() {
        for intrude in [|log: &mut Vec<u8>| log.push(0), |log: &mut Vec<u8>| log.truncate(70)] {
            let (log, files) = log(Durability::Written);
            change(&log).expect("it is written");
            log.sync().expect("a device");
            change(&log).expect("it is written");
            files.intrude(&path(1), intrude);
            let error = log.sync().expect_err("another writer");
            assert!(error.to_string().contains("another writes to it"), "{error}");
        }
    }
}
