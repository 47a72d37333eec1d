//! File operations of a database directory: the interface between an engine and its file system.

use std::any::Any;
use std::fs;
use std::io::{self, Write as _};
use std::path::Path;

use redb::{Builder, Database, DatabaseError};
use terrace_store::{Store, StoreError};
use terrace_sys::lock::LockedFile;

/// The file system of one database directory. [`SystemFiles`] is the machine's own; other
/// implementations place the whole database elsewhere, such as in memory that records every
/// operation.
///
/// To implement it: what was written to a file is durable once [`Files::write`] returns, or the
/// catalog's or the store's own sync; a name that was created, renamed or removed is durable once
/// [`Files::sync_directory`] of its directory returns, and not before. A rename replaces a file of
/// the new name atomically.
pub trait Files: std::fmt::Debug + Send + Sync {
    /// Creates a directory with its missing ancestors; all of them are durable when this returns.
    ///
    /// # Errors
    /// If the file system refuses.
    fn make_directory(&self, path: &Path) -> io::Result<()>;

    /// Returns the names of a directory's entries.
    ///
    /// # Errors
    /// If the directory cannot be read.
    fn names(&self, directory: &Path) -> io::Result<Vec<String>>;

    /// Returns true if there is a file of this name.
    ///
    /// # Errors
    /// If the directory cannot be read.
    fn exists(&self, path: &Path) -> io::Result<bool>;

    /// Locks the file at `path`, created if missing, against every other process until the returned
    /// value is dropped.
    ///
    /// # Errors
    /// [`io::ErrorKind::WouldBlock`] if another process holds the lock; if it cannot be written.
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>>;

    /// Reads all bytes of a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is no such file; if it cannot be read.
    fn read(&self, path: &Path) -> io::Result<Vec<u8>>;

    /// Writes a file that consists of `bytes`, created if missing.
    ///
    /// # Errors
    /// If it cannot be written.
    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()>;

    /// Renames a file.
    ///
    /// # Errors
    /// If the file system refuses.
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()>;

    /// Removes a file.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`] if there is none; if the file system refuses.
    fn remove(&self, path: &Path) -> io::Result<()>;

    /// Makes the entries of a directory durable.
    ///
    /// # Errors
    /// If the device fails.
    fn sync_directory(&self, path: &Path) -> io::Result<()>;

    /// Opens the catalog's file, created if missing.
    ///
    /// # Errors
    /// If it cannot be opened or is not a redb file.
    fn open_catalog(&self, path: &Path, builder: &Builder) -> Result<Database, DatabaseError>;

    /// Opens the store's file. If `create` is set, it may be missing.
    ///
    /// # Errors
    /// [`StoreError::Open`] if it cannot be opened.
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
