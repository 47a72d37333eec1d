//! A file system in memory that records every operation, in one order over all of its files.
//!
//! [`crate::power`] builds from the record the states that a device may have after a power loss.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard};

use terrace_store::{Blocks, Buffer, Done, Io};
use terrace_sys::size::{PAGE_BYTES, to_u64, to_usize};
use terrace_sys::sync::lock;

/// An operation on the file system, as an entry of the record.
#[derive(Clone, Debug)]
pub enum Operation {
    /// A new, empty file was created under a name.
    Create {
        /// Number of the file.
        file: usize,
        /// Name of the file.
        path: PathBuf,
    },
    /// A file was renamed, replacing any file of that name.
    Rename {
        /// Number of the file.
        file: usize,
        /// Old name.
        from: PathBuf,
        /// New name.
        to: PathBuf,
    },
    /// A name was removed.
    Remove {
        /// Removed name.
        path: PathBuf,
    },
    /// The directory was synced: its names are durable.
    SyncNames,
    /// Bytes were written.
    Write {
        /// Number of the file.
        file: usize,
        /// Offset in bytes.
        offset: usize,
        /// Bytes written.
        bytes: Vec<u8>,
    },
    /// A file was truncated, or extended by zeros.
    SetLen {
        /// Number of the file.
        file: usize,
        /// New length in bytes.
        len: usize,
    },
    /// A hole was punched: the range of the file reads as zeros.
    Punch {
        /// Number of the file.
        file: usize,
        /// Offset of the range in bytes.
        offset: usize,
        /// Length of the range in bytes.
        len: usize,
    },
    /// A file was synced: its state after the first `since` operations is durable.
    Sync {
        /// Number of the file.
        file: usize,
        /// Number of operations recorded when the sync began.
        since: usize,
    },
}

/// State of the file system, with its names and files.
#[derive(Clone, Debug, Default)]
pub struct Image {
    names: BTreeMap<PathBuf, usize>,
    files: Vec<Vec<u8>>,
}

impl Image {
    /// Applies an operation. Syncs have no effect on an image.
    pub fn apply(&mut self, operation: &Operation) {
        match operation {
            Operation::Create { file, path } => {
                self.file(*file);
                self.names.insert(path.clone(), *file);
            }
            Operation::Rename { file, from, to } => {
                if self.names.get(from) == Some(file) {
                    self.names.remove(from);
                }
                self.names.insert(to.clone(), *file);
            }
            Operation::Remove { path } => drop(self.names.remove(path)),
            Operation::Write { file, offset, bytes } => {
                self.extend(*file, offset + bytes.len());
                self.overwrite(*file, *offset, bytes);
            }
            Operation::SetLen { file, len } => self.file(*file).resize(*len, 0),
            Operation::Punch { file, offset, len } => {
                let bytes = self.file(*file);
                let end = bytes.len().min(offset + len);
                bytes[end.min(*offset)..end].fill(0);
            }
            Operation::SyncNames | Operation::Sync { .. } => {}
        }
    }

    /// Extends a file by zeros to `len`, unless it is as long already.
    pub(crate) fn extend(&mut self, file: usize, len: usize) {
        let bytes = self.file(file);
        bytes.resize(bytes.len().max(len), 0);
    }

    /// Overwrites bytes of a file; drops bytes beyond its end.
    pub(crate) fn overwrite(&mut self, file: usize, offset: usize, bytes: &[u8]) {
        let to = self.file(file);
        let to = to.get_mut(offset..).unwrap_or_default();
        let len = to.len().min(bytes.len());
        to[..len].copy_from_slice(&bytes[..len]);
    }

    fn file(&mut self, file: usize) -> &mut Vec<u8> {
        self.files.resize(self.files.len().max(file + 1), Vec::new());
        &mut self.files[file]
    }
}

#[derive(Debug, Default)]
struct State {
    image: Image,
    record: Vec<Operation>,
}

impl State {
    fn perform(&mut self, operation: Operation) {
        self.image.apply(&operation);
        self.record.push(operation);
    }
}

/// A file system of one directory. Clones refer to the same file system.
#[derive(Clone, Debug, Default)]
pub struct RecordedDisk {
    state: Arc<Mutex<State>>,
}

impl RecordedDisk {
    /// Creates a file system with the state `image` and an empty record.
    #[must_use]
    pub fn new(image: Image) -> Self {
        Self { state: Arc::new(Mutex::new(State { image, record: Vec::new() })) }
    }

    /// Returns the operations so far, in order.
    #[must_use]
    pub fn record(&self) -> Vec<Operation> {
        self.state().record.clone()
    }

    /// Returns the number of operations so far.
    #[must_use]
    pub fn record_len(&self) -> usize {
        self.state().record.len()
    }

    /// Returns all names.
    #[must_use]
    pub fn names(&self) -> Vec<PathBuf> {
        self.state().image.names.keys().cloned().collect()
    }

    /// Opens the file of a name.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if no file has the name.
    pub fn open(&self, path: &Path) -> io::Result<RecordedFile> {
        let file = self.state().image.names.get(path).copied();
        let file = file.ok_or_else(|| io::Error::from(io::ErrorKind::NotFound))?;
        Ok(RecordedFile { disk: self.clone(), file })
    }

    /// Opens the file of a name; creates it if it is missing.
    #[must_use]
    pub fn create(&self, path: &Path) -> RecordedFile {
        let mut state = self.state();
        let file = state.image.names.get(path).copied().unwrap_or_else(|| {
            let file = state.image.files.len();
            state.perform(Operation::Create { file, path: path.to_owned() });
            file
        });
        RecordedFile { disk: self.clone(), file }
    }

    /// Renames a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if no file has the name.
    pub fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        let file = self.open(from)?.file;
        let (from, to) = (from.to_owned(), to.to_owned());
        self.state().perform(Operation::Rename { file, from, to });
        Ok(())
    }

    /// Removes a name.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if no file has the name.
    pub fn remove(&self, path: &Path) -> io::Result<()> {
        self.open(path)?;
        self.state().perform(Operation::Remove { path: path.to_owned() });
        Ok(())
    }

    /// Makes all names durable (`fsync` of the directory).
    pub fn sync_names(&self) {
        self.state().perform(Operation::SyncNames);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

/// A file of a [`RecordedDisk`].
#[derive(Clone, Debug)]
pub struct RecordedFile {
    disk: RecordedDisk,
    file: usize,
}

impl RecordedFile {
    /// Returns the length in bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.disk.state().image.files[self.file].len()
    }

    /// True if it has no bytes.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `to` with the bytes from `offset` on.
    ///
    /// # Errors
    /// [`io::ErrorKind::UnexpectedEof`] if the file ends within the range.
    pub fn read(&self, offset: usize, to: &mut [u8]) -> io::Result<()> {
        let state = self.disk.state();
        let bytes = state.image.files[self.file].get(offset..offset + to.len());
        to.copy_from_slice(bytes.ok_or(io::ErrorKind::UnexpectedEof)?);
        Ok(())
    }

    /// Writes bytes at `offset`.
    pub fn write(&self, offset: usize, bytes: &[u8]) {
        let operation = Operation::Write { file: self.file, offset, bytes: bytes.to_vec() };
        self.disk.state().perform(operation);
    }

    /// Truncates the file, or extends it by zeros.
    pub fn set_len(&self, len: usize) {
        self.disk.state().perform(Operation::SetLen { file: self.file, len });
    }

    /// Makes the bytes and the length durable, as of the begin of the call. Operations of other
    /// threads may be recorded meanwhile.
    pub fn sync(&self) {
        let since = self.disk.record_len();
        std::thread::yield_now();
        self.disk.state().perform(Operation::Sync { file: self.file, since });
    }

    fn transfer(&self, offset: usize, buffer: &mut Buffer<'_>) -> io::Result<()> {
        match buffer {
            Buffer::ReadInto(to) => self.read(offset, to),
            Buffer::WriteFrom(bytes) => {
                self.write(offset, bytes);
                Ok(())
            }
        }
    }
}

impl Blocks for RecordedFile {
    fn run(&self, batch: &mut [Io<'_>], done: &Done<'_>) {
        for io in batch {
            io.result = self.transfer(to_usize(io.offset), &mut io.buffer);
            if io.result.is_ok() {
                done(io);
            }
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.sync();
        Ok(())
    }

    fn ensure(&self, end_bytes: u64) -> io::Result<()> {
        if to_usize(end_bytes) > self.len() {
            self.set_len(to_usize(end_bytes));
        }
        Ok(())
    }

    fn punch(&self, offset: u64, len_bytes: u64) -> io::Result<()> {
        let (offset, len) = (to_usize(offset), to_usize(len_bytes));
        self.disk.state().perform(Operation::Punch { file: self.file, offset, len });
        Ok(())
    }

    fn truncate(&self, end_bytes: u64) -> io::Result<()> {
        if to_usize(end_bytes) < self.len() {
            self.set_len(to_usize(end_bytes));
        }
        Ok(())
    }

    /// True if the file is empty or a single page of zeros, which a power loss may leave of its
    /// first page.
    fn is_blank(&self) -> io::Result<bool> {
        let state = self.disk.state();
        let bytes = &state.image.files[self.file];
        Ok(bytes.is_empty() || bytes.len() == PAGE_BYTES && bytes.iter().all(|byte| *byte == 0))
    }

    fn len_bytes(&self) -> io::Result<u64> {
        Ok(to_u64(self.len()))
    }

    fn kind(&self) -> &str {
        "recorded"
    }
}
