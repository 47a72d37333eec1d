//! The log: changes on their way to a device, so that they survive the process.
//!
//! Whoever changes an object appends the change to a buffer under the latch of the object's group,
//! so the log has the changes of one object in their order. Once the latch is free, the change
//! waits until it is durable: the first who waits writes what everybody has appended as one batch
//! and wakes all whose changes were in it (group commit). Others see a change before it is durable.
//!
//! ```text
//! file     head, batches
//! batch    magic 4, checksum 4, bytes 8, synced 8, changes
//! ```
//!
//! A batch says up to where the file was on the device before it was written. Of what comes after
//! that place a machine that stops may leave any part; before it, what is not whole is damaged. A
//! batch without changes follows where a sync is the last that happens.
//!
//! A log that could not be written is not written to again: what the device has of it is not known.
//! Changes are refused from then on, until a checkpoint has written everything elsewhere.
//!
//! Locking order: a group's latch, then what is pending, then the file.

use std::collections::TryReserveError;
use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use terrace_sys::size::to_u64;

use crate::blocks::{HEAD_BYTES, Head, Place, checksum, u32_at, u64_at};
use crate::config::Durability;
use crate::error::ObjectError;
use crate::record::Change;

pub(crate) const MAGIC: [u8; 8] = *b"TRCobjlo";
pub(crate) const BATCH_MAGIC: [u8; 4] = *b"TbLo";
pub(crate) const BATCH_HEAD_BYTES: usize = 24;
/// Changes that nobody waits for are written when there are so many bytes of them.
const BUFFER_BYTES: usize = 1 << 20;

/// Where the log goes.
pub(crate) trait Device: Send {
    /// Appends bytes.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
    /// Makes what was appended durable.
    fn sync(&mut self) -> io::Result<()>;
}

impl Device for File {
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.write_all(bytes)
    }

    fn sync(&mut self) -> io::Result<()> {
        self.sync_data()
    }
}

/// How many bytes of changes came before, of all since the store was opened: a place in the log.
pub(crate) type Position = u64;

/// The log of a store.
pub(crate) struct Log {
    durability: Durability,
    pending: Mutex<Pending>,
    written: Condvar,
    file: Mutex<LogFile>,
    /// No change is taken until a checkpoint was made.
    broken: AtomicBool,
}

struct Pending {
    changes: Changes,
    /// An empty buffer to go on with.
    spare: Changes,
    /// Where the next change goes, and up to where all is durable.
    end: Position,
    durable: Position,
    writing: bool,
    failed: Option<String>,
    /// Bytes of files before this one that no dump stands for yet.
    earlier: u64,
}

/// Changes that become a batch, behind room for its head: both are written at once.
struct Changes(Vec<u8>);

impl Default for Changes {
    fn default() -> Self {
        Self(vec![0; BATCH_HEAD_BYTES])
    }
}

impl Changes {
    fn len(&self) -> usize {
        self.0.len() - BATCH_HEAD_BYTES
    }

    fn append(&mut self, change: Change<'_>) -> Result<(), TryReserveError> {
        self.0.try_reserve(change.bytes_max())?;
        change.append(&mut self.0);
        Ok(())
    }

    fn clear(&mut self) {
        self.0.truncate(BATCH_HEAD_BYTES);
        self.0.shrink_to(2 * BUFFER_BYTES);
    }

    /// The batch that begins at a place of the file.
    fn batch(&mut self, place: Place, synced: u64) -> &[u8] {
        let (head, changes) = self.0.split_at_mut(BATCH_HEAD_BYTES);
        head.copy_from_slice(&BatchHead::of(place, synced, changes).to_bytes());
        &self.0
    }
}

/// The file that is written to.
pub(crate) struct LogFile {
    device: Box<dyn Device>,
    pub(crate) path: PathBuf,
    pub(crate) sequence: u64,
    salt: u64,
    len: u64,
    /// The device failed: it may say yes the next time without having everything.
    failed: bool,
    /// Up to where it has changes, is on the device, and says that it is.
    filled: u64,
    synced: u64,
    said: u64,
}

impl LogFile {
    /// Begins a log that is not there yet.
    pub(crate) fn create(path: PathBuf, head: Head) -> Result<Self, ObjectError> {
        let failed = |source| ObjectError::file("write", &path, source);
        let file = OpenOptions::new().append(true).create_new(true).open(&path);
        let mut file = file.map_err(failed)?;
        let begun = file.write_all(&head.to_bytes()).and_then(|()| file.sync_all());
        let begun = begun.and_then(|()| crate::dump::sync_entry(&path));
        begun.inspect_err(|_| drop(std::fs::remove_file(&path))).map_err(failed)?;
        Ok(Self::new(Box::new(file), path, head))
    }

    fn new(device: Box<dyn Device>, path: PathBuf, head: Head) -> Self {
        let (len, Head { sequence, salt, .. }) = (to_u64(HEAD_BYTES), head);
        let (filled, synced, said) = (len, len, len);
        Self { device, path, sequence, salt, len, failed: false, filled, synced, said }
    }

    /// Asks the device for something, unless it has failed before.
    fn ask<T>(&mut self, ask: impl FnOnce(&mut dyn Device) -> io::Result<T>) -> io::Result<T> {
        if self.failed {
            return Err(io::Error::other("the device failed before"));
        }
        let answer = ask(&mut *self.device);
        self.failed = answer.is_err();
        answer
    }

    fn write(&mut self, changes: &mut Changes, syncs: bool) -> io::Result<()> {
        let batch = changes.batch(Place { salt: self.salt, offset: self.len }, self.synced);
        self.ask(|device| device.append(batch))?;
        self.said = self.synced;
        self.len += to_u64(BATCH_HEAD_BYTES + changes.len());
        if changes.len() > 0 {
            self.filled = self.len;
        }
        if syncs { self.sync() } else { Ok(()) }
    }

    fn sync(&mut self) -> io::Result<()> {
        self.ask(|device| device.sync())?;
        self.synced = self.len;
        Ok(())
    }

    /// Syncs, and says so now: changes that would say it may not follow.
    fn seal(&mut self) -> io::Result<()> {
        self.sync()?;
        if self.said < self.filled { self.write(&mut Changes::default(), false) } else { Ok(()) }
    }
}

/// What stands before the changes of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BatchHead {
    /// Bytes of its changes.
    pub(crate) len: u64,
    /// Up to where the file was on the device.
    pub(crate) synced: u64,
    sum: u32,
}

impl BatchHead {
    fn of(place: Place, synced: u64, changes: &[u8]) -> Self {
        let sum = crc32c::crc32c_append(checksum(place, &synced.to_le_bytes()), changes);
        Self { len: to_u64(changes.len()), synced, sum }
    }

    fn to_bytes(self) -> [u8; BATCH_HEAD_BYTES] {
        let mut all = [0; BATCH_HEAD_BYTES];
        all[..4].copy_from_slice(&BATCH_MAGIC);
        all[4..8].copy_from_slice(&self.sum.to_le_bytes());
        all[8..16].copy_from_slice(&self.len.to_le_bytes());
        all[16..].copy_from_slice(&self.synced.to_le_bytes());
        all
    }

    /// What must be such a head; none if it is not.
    pub(crate) fn from_bytes(all: &[u8; BATCH_HEAD_BYTES]) -> Option<Self> {
        let head = Self { sum: u32_at(all, 4), len: u64_at(all, 8), synced: u64_at(all, 16) };
        (all[..4] == BATCH_MAGIC).then_some(head)
    }

    /// Whether these are the changes of the batch, which begins at a place of the file.
    pub(crate) fn is_of(self, place: Place, changes: &[u8]) -> bool {
        Self::of(place, self.synced, changes) == self
    }
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
            earlier: 0,
        };
        Self {
            durability,
            pending: Mutex::new(pending),
            written: Condvar::new(),
            file: Mutex::new(file),
            broken: AtomicBool::new(false),
        }
    }

    fn pending(&self) -> MutexGuard<'_, Pending> {
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn file(&self) -> MutexGuard<'_, LogFile> {
        self.file.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// Waits as long as whoever made a change is to wait for it.
    pub(crate) fn commit(&self, position: Position) -> Result<(), ObjectError> {
        match self.durability {
            Durability::Synced | Durability::Written => self.wait(position),
            Durability::Deferred if self.pending().changes.len() < BUFFER_BYTES => Ok(()),
            Durability::Deferred => self.wait(position),
        }
    }

    /// Waits until all before a position is written, and writes it if nobody else does.
    pub(crate) fn wait(&self, position: Position) -> Result<(), ObjectError> {
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
            pending = self.write(pending, self.durability == Durability::Synced);
        }
    }

    /// Up to where there are changes.
    pub(crate) fn end(&self) -> Position {
        self.pending().end
    }

    /// Everything up to now is durable once this returns.
    pub(crate) fn sync(&self) -> Result<(), ObjectError> {
        let position = self.pending().end;
        self.wait(position)?;
        self.is_sound()?;
        let mut file = self.file();
        let synced = file.seal();
        let (path, sequence) = (file.path.clone(), file.sequence);
        drop(file);
        synced.map_err(|error| {
            let reason = reason_of(&path, &error);
            let mut pending = self.pending();
            // A checkpoint may have put everything elsewhere by now.
            if self.file().sequence == sequence {
                self.fail(&mut pending, reason.clone());
            }
            ObjectError::Log(reason)
        })
    }

    fn write<'a>(
        &'a self,
        mut now: MutexGuard<'a, Pending>,
        syncs: bool,
    ) -> MutexGuard<'a, Pending> {
        now.writing = true;
        let spare = std::mem::take(&mut now.spare);
        let mut changes = std::mem::replace(&mut now.changes, spare);
        let end = now.end;
        drop(now);
        let (written, path) = {
            let mut file = self.file();
            (file.write(&mut changes, syncs), file.path.clone())
        };
        changes.clear();
        let mut pending = self.pending();
        pending.writing = false;
        pending.spare = changes;
        match written {
            Ok(()) => pending.durable = end,
            Err(error) => self.fail(&mut pending, reason_of(&path, &error)),
        }
        self.written.notify_all();
        pending
    }

    /// Goes on in another file, once everything before is in this one and on the device. A log
    /// that has failed takes no changes there either, until [`Log::mend`].
    pub(crate) fn turn_over(&self, next: LogFile) {
        // Most of it before anybody has to wait; what this fails for is found again below.
        let _ = self.sync();
        let mut pending = self.pending();
        loop {
            if pending.writing {
                pending = self.written.wait(pending).unwrap_or_else(PoisonError::into_inner);
            } else if pending.failed.is_none() && pending.changes.len() > 0 {
                pending = self.write(pending, true);
            } else {
                break;
            }
        }
        let mut file = self.file();
        // What says that all is synced is synced as well: what comes after it is in another file.
        if pending.failed.is_none()
            && let Err(error) = file.seal().and_then(|()| file.sync())
        {
            let reason = reason_of(&file.path, &error);
            self.fail(&mut pending, reason);
        }
        pending.earlier += file.len;
        *file = next;
    }

    /// A dump stands for all files before this one.
    pub(crate) fn forget_earlier(&self) {
        self.pending().earlier = 0;
    }

    /// Everything that the store holds was written elsewhere: changes are taken again.
    pub(crate) fn mend(&self) {
        let mut pending = self.pending();
        pending.failed = None;
        pending.changes.clear();
        pending.durable = pending.end;
        self.broken.store(false, Ordering::Release);
        self.written.notify_all();
    }

    /// Bytes that a start would read.
    pub(crate) fn len(&self) -> u64 {
        let earlier = self.pending().earlier;
        earlier + self.file().len
    }
}

fn reason_of(path: &Path, error: &io::Error) -> String {
    format!("{}: {error}", path.display())
}

impl Drop for Log {
    fn drop(&mut self) {
        if let Err(error) = self.sync() {
            tracing::error!(%error, "the last changes of a store of objects");
        }
    }
}

#[cfg(all(test, not(loom), not(miri)))]
mod tests {
    use std::sync::Arc;

    use super::*;

    const HEAD: Head = Head { magic: MAGIC, node: 0, generations: false, sequence: 1, salt: 7 };

    /// What a device was asked for.
    type Asked = Arc<Mutex<Vec<&'static str>>>;

    /// A device that takes everything, takes its time for a sync, and fails one, counted from one.
    struct Faulty {
        asked: Asked,
        fails: usize,
    }

    impl Faulty {
        fn ask(&self, what: &'static str) -> usize {
            let mut asked = self.asked.lock().unwrap_or_else(PoisonError::into_inner);
            asked.push(what);
            asked.iter().filter(|it| **it == what).count()
        }
    }

    impl Device for Faulty {
        fn append(&mut self, _: &[u8]) -> io::Result<()> {
            self.ask("append");
            Ok(())
        }

        fn sync(&mut self) -> io::Result<()> {
            let number = self.ask("sync");
            std::thread::sleep(std::time::Duration::from_millis(20));
            if number == self.fails { Err(io::Error::other("the device is gone")) } else { Ok(()) }
        }
    }

    fn file(fails: usize, asked: &Asked) -> LogFile {
        LogFile::new(Box::new(Faulty { asked: Arc::clone(asked), fails }), "log".into(), HEAD)
    }

    fn log(fails: usize, durability: Durability) -> (Log, Asked) {
        let asked = Asked::default();
        (Log::new(file(fails, &asked), durability), asked)
    }

    fn asked(asked: &Asked) -> Vec<&'static str> {
        asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Changes an object and waits as a change does.
    fn change(log: &Log) -> Result<(), ObjectError> {
        let id = crate::id::ObjectId::from_bits(1);
        log.commit(log.append(Change::Put { id, bytes: &[7; 8] }))
    }

    #[test]
    fn whoever_waits_hears_of_a_sync_that_failed() {
        let (log, device) = log(1, Durability::Deferred);
        change(&log).expect("nobody waits");
        std::thread::scope(|scope| {
            (0..4).for_each(|_| drop(scope.spawn(|| assert!(log.sync().is_err()))));
        });
        assert_eq!(asked(&device), ["append", "sync"]);
    }

    #[test]
    fn all_of_a_log_is_synced_before_another_begins() {
        let (log, device) = log(0, Durability::Written);
        change(&log).expect("it is written");
        log.turn_over(file(0, &device));
        log.is_sound().expect("all went well");
        assert_eq!(asked(&device).last(), Some(&"sync"));
        assert!(log.len() > to_u64(2 * HEAD_BYTES), "no dump stands for the other");
        log.forget_earlier();
        assert_eq!(log.len(), to_u64(HEAD_BYTES));
    }

    #[test]
    fn a_sync_that_failed_is_not_asked_for_again() {
        for durability in [Durability::Written, Durability::Deferred] {
            let (log, device) = log(1, durability);
            change(&log).expect("it is written, or deferred");
            assert!(log.sync().is_err());
            assert!(log.sync().is_err(), "nobody knows what the device has");
            assert!(log.is_sound().is_err());
            assert_eq!(asked(&device), ["append", "sync"]);
        }
    }

    #[test]
    fn changes_of_a_batch_that_failed_are_not_acknowledged() {
        let (log, _) = log(2, Durability::Synced);
        change(&log).expect("the first sync");
        assert!(change(&log).is_err() && change(&log).is_err());
        log.turn_over(file(0, &Asked::default()));
        assert!(log.is_sound().is_err(), "a checkpoint is missing");
        log.mend();
        change(&log).expect("everything is elsewhere");
    }
}
