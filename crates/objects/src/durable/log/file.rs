//! File of a log, and its state on the device.

use std::io;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use terrace_sys::size::to_u64;
use terrace_sys::sync::lock;

use super::batch::{BATCH_HEAD_BYTES, Changes};
use crate::durable::blocks::{BlockPosition, HEAD_BYTES, Head, Link};
use crate::durable::files::{Files, StoredFile, directory_of};
use crate::error::ObjectError;

/// State of a log file on the device: how much of it survives a power loss. Syncs use this and need
/// neither the pending changes nor the lock of the file, so that writes continue meanwhile.
pub(crate) struct Device {
    file: Box<dyn StoredFile>,
    pub(crate) path: PathBuf,
    pub(crate) sequence: u64,
    /// Length of the file that is on the device; 0 if the log before it may not be.
    synced: AtomicU64,
    /// Held for a sync, of which one runs at a time, as a device reports an error once.
    syncing: Mutex<Syncing>,
}

#[derive(Default)]
struct Syncing {
    /// A sync failed: a later one may succeed without all data on the device.
    failed: bool,
    /// The log before this one, which has to be on the device first, and its length.
    before: Option<(Arc<Device>, u64)>,
}

impl Device {
    /// Waits until `len` bytes of the file are on the device, and all logs before it.
    pub(crate) fn sync_to(&self, len: u64) -> io::Result<()> {
        let mut syncing = lock(&self.syncing);
        if syncing.failed {
            return Err(io::Error::other("the device failed before"));
        }
        if self.synced.load(Ordering::Acquire) >= len {
            return Ok(());
        }
        if let Some((device, len)) = &syncing.before {
            device.sync_to(*len)?;
        }
        syncing.before = None;
        let synced = self.file.sync();
        syncing.failed = synced.is_err();
        if synced.is_ok() {
            self.synced.fetch_max(len, Ordering::Release);
        }
        synced
    }

    /// Notes that the log before this one is on the device, or that a dump has replaced it.
    pub(crate) fn begin(&self) {
        let mut syncing = lock(&self.syncing);
        syncing.before = None;
        self.synced.fetch_max(to_u64(HEAD_BYTES), Ordering::Release);
    }
}

/// The log file that is being written.
pub(crate) struct LogFile {
    pub(crate) device: Arc<Device>,
    salt: u64,
    len: u64,
    /// A write failed, so the contents of the file are unknown.
    failed: bool,
    /// The batch before the first one of this file, and the last batch written.
    pub(crate) first: Link,
    last: Link,
    /// End of the last batch with changes, and the synced length that the last batch records, both
    /// in bytes from the beginning of the file.
    filled: u64,
    said: u64,
    /// Bytes of the logs before this one that no dump has replaced yet.
    pub(crate) earlier: u64,
}

impl LogFile {
    /// Creates a new log file with this head, durably.
    pub(crate) fn create(
        files: &dyn Files,
        path: PathBuf,
        head: Head,
    ) -> Result<Self, ObjectError> {
        let failed = |source| ObjectError::file("write", &path, source);
        let file = files.create(&path).map_err(failed)?;
        let begun = file.write_at(&head.to_bytes(), 0).and_then(|()| file.sync());
        let begun = begun.and_then(|()| files.sync_names(directory_of(&path)));
        begun.inspect_err(|_| drop(files.remove(&path))).map_err(failed)?;
        Ok(Self::new(file, path, head))
    }

    pub(super) fn new(file: Box<dyn StoredFile>, path: PathBuf, head: Head) -> Self {
        let Head { sequence, salt, .. } = head;
        let (synced, syncing) = (AtomicU64::new(0), Mutex::default());
        let device = Arc::new(Device { file, path, sequence, synced, syncing });
        let (len, link) = (to_u64(HEAD_BYTES), Link::default());
        let (failed, earlier) = (false, 0);
        let (first, last, filled, said) = (link, link, len, len);
        Self { device, salt, len, failed, first, last, filled, said, earlier }
    }

    /// Begins the chain of batches behind one that is on the device.
    pub(crate) fn follow(mut self, last: Link) -> Self {
        (self.first, self.last) = (last, last);
        self.device.begin();
        self
    }

    /// Continues in another file, which is not synced before this one. Returns this one.
    pub(crate) fn continue_in(&mut self, mut next: Self) -> Self {
        (next.first, next.last) = (self.last, self.last);
        next.earlier = self.earlier + self.len;
        let mut syncing = lock(&next.device.syncing);
        syncing.before = Some((Arc::clone(&self.device), self.len));
        drop(syncing);
        std::mem::replace(self, next)
    }

    /// Bytes of this log and of the `earlier` ones.
    pub(crate) fn bytes(&self) -> u64 {
        self.earlier + self.len
    }

    /// Writes changes as one batch to the end of the file, without a sync.
    pub(crate) fn write(&mut self, changes: &mut Changes) -> io::Result<()> {
        self.is_ours()?;
        let synced = self.device.synced.load(Ordering::Acquire);
        let place = BlockPosition { salt: self.salt, offset: self.len };
        let (batch, link) = changes.batch(place, self.last, synced);
        let written = self.device.file.write_at(batch, self.len);
        self.failed = written.is_err();
        written?;
        (self.said, self.last) = (synced, link);
        self.len += to_u64(BATCH_HEAD_BYTES + changes.len());
        if changes.len() > 0 {
            self.filled = self.len;
        }
        Ok(())
    }

    fn is_ours(&self) -> io::Result<()> {
        if self.failed {
            return Err(io::Error::other("a write to it failed before"));
        }
        Ok(())
    }

    /// Returns the device and the length to sync for everything written. An error if the length of
    /// the file is not that of what was written: another process writes to it, or has truncated it.
    pub(crate) fn to_sync(&self) -> io::Result<(Arc<Device>, u64)> {
        self.is_ours()?;
        let (has, len) = (self.device.file.len()?, self.len);
        if has != len {
            let text = format!("it has {has} bytes and {len} were written: another writes to it");
            return Err(io::Error::other(text));
        }
        Ok((Arc::clone(&self.device), len))
    }

    /// Writes a batch without changes, which records that all changes are on the device, if they
    /// are and no batch records it yet.
    pub(crate) fn seal(&mut self) -> io::Result<()> {
        let synced = self.device.synced.load(Ordering::Acquire);
        if self.said < self.filled && synced >= self.filled {
            return self.write(&mut Changes::default());
        }
        Ok(())
    }
}
