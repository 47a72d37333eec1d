//! File operations of a database directory: the seam between an engine and its file system.

use std::any::Any;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use redb::{Builder, Database, DatabaseError};
use terrace_sys::lock::LockedFile;
use terrace_tier::store::{Store, StoreError};

/// The file system of one database directory. [`SystemFiles`] is the machine's own; another one
/// puts the whole database elsewhere, such as into memory that records every operation.
///
/// To implement it: what was written to a file is durable once [`Files::write`] returns, or the
/// catalog's or the store's own sync; a name that was created, renamed or removed is durable once
/// [`Files::sync_directory`] of its directory returns, and not before. A rename replaces what had
/// the name, in one step.
pub trait Files: std::fmt::Debug + Send + Sync {
    /// Makes a directory with those above it that are missing; all of them are durable then.
    ///
    /// # Errors
    /// If the file system refuses.
    fn make_directory(&self, path: &Path) -> io::Result<()>;

    /// The names of a directory's entries.
    ///
    /// # Errors
    /// If the directory cannot be read.
    fn names(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// True if there is a file of this name.
    ///
    /// # Errors
    /// If the directory cannot be read.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Locks the file at `path`, created when missing, against every other process until the value
    /// is dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] when another process has it; when it cannot be written.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>>;

    /// The bytes of a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when there is no such file; when it cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Writes a file that holds `bytes` and nothing else, created when missing.
    ///
    /// # Errors
    /// If it cannot be written.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Gives a file another name.
    ///
    /// # Errors
    /// If the file system refuses.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] when there is none; when the file system refuses.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the names of a directory durable.
    ///
    /// # Errors
    /// If the device fails.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Opens the catalog's file, created when missing.
    ///
    /// # Errors
    /// If it cannot be opened or is no file of redb.
    fn open_catalog(&self, path: &Path, builder: &Builder) -> Result<Database, DatabaseError>;

    /// Opens the store's file. `create` says that it may be missing.
    ///
    /// # Errors
    /// [`StoreError::Open`] when it cannot be opened.
    fn open_store(&self, path: &Path, create: bool) -> Result<Store, StoreError>;
}

/// The file system of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemFiles;

impl Files for SystemFiles {
    fn make_directory(&self, path: &Path) -> io::Result<()> {
        terrace_sys::file::make_directory(path, |above| self.sync_directory(above))
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        let name = |entry: io::Result<fs::DirEntry>| {
            entry.map(|entry| entry.file_name().to_string_lossy().into_owned())
        };
        fs::read_dir(directory)?.map(name).collect()
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        path.try_exists()
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        Ok(Box::new(LockedFile::open(path)?))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        fs::read(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let mut file = fs::File::create(path)?;
        file.write_all(bytes)?;
        file.sync_all()
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        fs::rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        fs::remove_file(path)
    }

    fn sync_directory(&self, path: &Path) -> io::Result<()> {
        terrace_sys::file::sync_directory(path)
    }

    fn open_catalog(&self, path: &Path, builder: &Builder) -> Result<Database, DatabaseError> {
        builder.create(path)
    }

    fn open_store(&self, path: &Path, create: bool) -> Result<Store, StoreError> {
        match create {
            true => Store::overwrite_file(path, None),
            false => Store::reopen_file(path, None),
        }
    }
}
