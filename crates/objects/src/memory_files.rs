//! Files in memory that record the operations of a store, have slow syncs, and fail: for tests.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use terrace_sys::size::{to_u64, to_usize};
use terrace_sys::sync::lock;

use crate::durable::files::{Files, StoredFile};

/// One operation, in the order in which they were completed.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Asked {
    Create(usize, PathBuf),
    Write {
        file: usize,
        offset: u64,
        bytes: Vec<u8>,
    },
    /// The device has the file as it was when `since` operations had been recorded.
    Sync {
        file: usize,
        since: usize,
    },
    /// A sync of a file that failed.
    FailedSync(usize),
    Link(PathBuf, PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    SyncNames,
}

/// Names and files, as in the kernel's memory or on a device.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    pub(crate) names: BTreeMap<PathBuf, usize>,
    pub(crate) files: Vec<Vec<u8>>,
}

impl Disk {
    /// Applies an operation; a sync changes nothing here.
    pub(crate) fn take(&mut self, asked: &Asked) {
        match asked {
            Asked::Create(file, path) => {
                self.files.resize(self.files.len().max(file + 1), Vec::new());
                self.names.insert(path.clone(), *file);
            }
            Asked::Write { file, offset, bytes } => self.write(*file, to_usize(*offset), bytes),
            Asked::Link(from, to) => {
                let file = self.names.get(from).copied();
                self.names.extend(file.map(|file| (to.clone(), file)));
            }
            Asked::Rename(from, to) => {
                let file = self.names.remove(from);
                self.names.extend(file.map(|file| (to.clone(), file)));
            }
            Asked::Remove(path) => drop(self.names.remove(path)),
            Asked::Sync { .. } | Asked::FailedSync(_) | Asked::SyncNames => {}
        }
    }

    pub(crate) fn write(&mut self, file: usize, offset: usize, bytes: &[u8]) {
        self.files.resize(self.files.len().max(file + 1), Vec::new());
        let to = &mut self.files[file];
        to.resize(to.len().max(offset + bytes.len()), 0);
        to[offset..offset + bytes.len()].copy_from_slice(bytes);
    }
}

#[derive(Default)]
struct State {
    disk: Disk,
    asked: Vec<Asked>,
}

/// A file system of one directory.
#[derive(Clone, Default)]
pub(crate) struct MemoryFiles {
    inner: Arc<Inner>,
}

#[derive(Default)]
struct Inner {
    state: Mutex<State>,
    boot: u128,
    /// Run within every sync of a file.
    in_sync: Mutex<Option<Arc<dyn Fn() + Send + Sync>>>,
    /// Number of file syncs up to the one that fails.
    syncs_left: AtomicUsize,
    read_bytes: AtomicU64,
    /// Run before the next dump is made.
    before_dump: Mutex<Option<Box<dyn FnOnce() + Send>>>,
}

impl MemoryFiles {
    /// Returns the file system of a machine that was started for the `boot`th time.
    pub(crate) fn of(disk: Disk, boot: u128) -> Self {
        Self::resume(disk, Vec::new(), boot)
    }

    /// Returns the file system that the next process finds, with the operations that were recorded
    /// since the device had `disk`.
    pub(crate) fn resume(mut disk: Disk, asked: Vec<Asked>, boot: u128) -> Self {
        asked.iter().for_each(|asked| disk.take(asked));
        let state = Mutex::new(State { disk, asked });
        Self { inner: Arc::new(Inner { state, boot, ..Inner::default() }) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.inner.state)
    }

    pub(crate) fn disk(&self) -> Disk {
        self.state().disk.clone()
    }

    pub(crate) fn asked(&self) -> Vec<Asked> {
        self.state().asked.clone()
    }

    pub(crate) fn asked_count(&self) -> usize {
        self.state().asked.len()
    }

    /// Runs `work` within every sync of a file from now on: the sync ends after it.
    pub(crate) fn in_each_sync(&self, work: impl Fn() + Send + Sync + 'static) {
        *lock(&self.inner.in_sync) = Some(Arc::new(work));
    }

    /// Makes the sync with this number from now on fail, counted from one, and no other.
    pub(crate) fn fail_sync(&self, number: usize) {
        self.inner.syncs_left.store(number, Ordering::Relaxed);
    }

    /// Runs `work` once, after the next log has begun and before its dump has.
    pub(crate) fn before_dump(&self, work: impl FnOnce() + Send + 'static) {
        let work: Box<dyn FnOnce() + Send> = Box::new(work);
        *lock(&self.inner.before_dump) = Some(work);
    }

    pub(crate) fn read_bytes(&self) -> u64 {
        self.inner.read_bytes.load(Ordering::Relaxed)
    }

    /// Writes to a file as another process would.
    pub(crate) fn intrude(&self, path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
        let mut state = self.state();
        let file = state.disk.names[path];
        change(&mut state.disk.files[file]);
    }

    fn ask(&self, asked: Asked) {
        let mut state = self.state();
        state.disk.take(&asked);
        state.asked.push(asked);
    }

    fn found(&self, path: &Path) -> io::Result<usize> {
        let missing = || io::Error::from(io::ErrorKind::NotFound);
        self.state().disk.names.get(path).copied().ok_or_else(missing)
    }
}

impl Files for MemoryFiles {
    fn make_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn lock(&self, _: &Path) -> io::Result<Box<dyn Send + Sync>> {
        Ok(Box::new(()))
    }

    fn names(&self, _: &Path) -> io::Result<Vec<String>> {
        let name = |path: &PathBuf| path.file_name()?.to_str().map(str::to_owned);
        Ok(self.state().disk.names.keys().filter_map(name).collect())
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        if path.extension().is_some_and(|extension| extension == "unfinished") {
            let mut before_dump = lock(&self.inner.before_dump);
            let work = before_dump.take();
            drop(before_dump);
            work.into_iter().for_each(|work| work());
        }
        let mut state = self.state();
        if state.disk.names.contains_key(path) {
            return Err(io::ErrorKind::AlreadyExists.into());
        }
        let file = state.disk.files.len();
        let asked = Asked::Create(file, path.to_owned());
        state.disk.take(&asked);
        state.asked.push(asked);
        Ok(Box::new(MemoryFile { files: self.clone(), file }))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        Ok(Box::new(MemoryFile { files: self.clone(), file: self.found(path)? }))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.found(from)?;
        self.ask(Asked::Link(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.found(from)?;
        self.ask(Asked::Rename(from.to_owned(), to.to_owned()));
        Ok(())
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.found(path)?;
        self.ask(Asked::Remove(path.to_owned()));
        Ok(())
    }

    fn sync_names(&self, _: &Path) -> io::Result<()> {
        self.ask(Asked::SyncNames);
        Ok(())
    }

    fn boot(&self) -> u128 {
        self.inner.boot
    }
}

struct MemoryFile {
    files: MemoryFiles,
    file: usize,
}

impl StoredFile for MemoryFile {
    fn len(&self) -> io::Result<u64> {
        Ok(to_u64(self.files.state().disk.files[self.file].len()))
    }

    fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<usize> {
        let state = self.files.state();
        let bytes = &state.disk.files[self.file];
        let rest = &bytes[to_usize(offset).min(bytes.len())..];
        let some = rest.len().min(to.len());
        to[..some].copy_from_slice(&rest[..some]);
        self.files.inner.read_bytes.fetch_add(to_u64(some), Ordering::Relaxed);
        Ok(some)
    }

    fn write_at(&self, from: &[u8], offset: u64) -> io::Result<()> {
        self.files.ask(Asked::Write { file: self.file, offset, bytes: from.to_vec() });
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let (file, since) = (self.file, self.files.asked_count());
        let inner = &self.files.inner;
        let work = lock(&inner.in_sync).clone();
        work.into_iter().for_each(|work| work());
        let left = inner.syncs_left.load(Ordering::Relaxed);
        inner.syncs_left.store(left.saturating_sub(1), Ordering::Relaxed);
        if left == 1 {
            self.files.ask(Asked::FailedSync(file));
            return Err(io::Error::other("the device is gone"));
        }
        self.files.ask(Asked::Sync { file, since });
        Ok(())
    }
}
