//! File system below the logs and dumps of a store.
//!
//! It is a trait so that tests can record the operations of a store, construct the possible states
//! of a device after a power loss, and simulate a slow device (`power_tests.rs`).

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;

use terrace_sys::file::{make_directory, sync_directory};
use terrace_sys::identity::boot_id;
use terrace_sys::lock::LockedFile;
use terrace_sys::size::to_u64;

/// Operations on directories and on the names of files in them.
pub(crate) trait Files: Send + Sync {
    /// Makes a directory and its missing parents, durably.
    fn make_directory(&self, path: &Path) -> io::Result<()>;
    /// Locks a file for this process until the returned value is dropped.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>>;
    /// Returns the names of files in a directory.
    fn names(&self, dir: &Path) -> io::Result<Vec<String>>;
    /// Creates a new file.
    fn create(&self, path: &Path) -> io::Result<Box<dyn StoredFile>>;
    /// Opens a file for reading.
    fn open(&self, path: &Path) -> io::Result<Box<dyn StoredFile>>;
    /// Gives a file a second name.
    fn link(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Renames a file, which may replace another.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;
    /// Removes a file.
    fn remove(&self, path: &Path) -> io::Result<()>;
    /// Makes the names in a directory durable.
    fn sync_names(&self, dir: &Path) -> io::Result<()>;
    /// Returns a number that differs after each boot of the machine; 0 if unknown.
    fn boot(&self) -> u128;
}

/// An open file. Reads and writes take an offset, so that threads share no position.
pub(crate) trait StoredFile: Send + Sync {
    /// Bytes of the file.
    fn len(&self) -> io::Result<u64>;
    /// Reads up to as many bytes as `to` has.
    fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<usize>;
    /// Writes all of `from`.
    fn write_at(&self, from: &[u8], offset: u64) -> io::Result<()>;
    /// Waits until everything written before the call is on the device, the length included.
    fn sync(&self) -> io::Result<()>;
}

/// The file system of the machine.
pub(crate) struct SystemFiles;

impl Files for SystemFiles {
    fn make_directory(&self, path: &Path) -> io::Result<()> {
        make_directory(path, sync_directory)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        Ok(Box::new(LockedFile::open(path)?))
    }

    fn names(&self, dir: &Path) -> io::Result<Vec<String>> {
        let mut names = Vec::new();
        for entry in fs::read_dir(dir)? {
            // A name that is not UTF-8 does not belong to a store.
            names.extend(entry?.file_name().into_string().ok());
        }
        Ok(names)
    }

    fn create(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        Ok(Box::new(File::create_new(path)?))
    }

    fn open(&self, path: &Path) -> io::Result<Box<dyn StoredFile>> {
        Ok(Box::new(File::open(path)?))
    }

    fn link(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::hard_link(from, to)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_names(&self, dir: &Path) -> io::Result<()> {
        sync_directory(dir)
    }

    fn boot(&self) -> u128 {
        boot_id().unwrap_or(0)
    }
}

impl StoredFile for File {
    fn len(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn read_at(&self, to: &mut [u8], offset: u64) -> io::Result<usize> {
        loop {
            match FileExt::read_at(self, to, offset) {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                read => return read,
            }
        }
    }

    fn write_at(&self, from: &[u8], offset: u64) -> io::Result<()> {
        self.write_all_at(from, offset)
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }
}

/// Returns the directory of a file.
pub(crate) fn directory_of(file: &Path) -> &Path {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new("."))
}

/// A file that is read or written sequentially from its beginning.
pub(crate) struct Stream {
    pub(crate) file: Box<dyn StoredFile>,
    at: u64,
}

impl Stream {
    pub(crate) fn new(file: Box<dyn StoredFile>) -> Self {
        Self { file, at: 0 }
    }
}

impl Read for Stream {
    fn read(&mut self, to: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read_at(to, self.at)?;
        self.at += to_u64(read);
        Ok(read)
    }
}

impl Write for Stream {
    fn write(&mut self, from: &[u8]) -> io::Result<usize> {
        self.file.write_at(from, self.at)?;
        self.at += to_u64(from.len());
        Ok(from.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
