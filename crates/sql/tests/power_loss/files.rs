//! The recorded disk as an engine's file system.

use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use redb::{Builder, Database, DatabaseError, StorageBackend};
use terrace_sql::files::Files;
use terrace_store::{Store, StoreError};
use terrace_sys::size::{to_u64, to_usize};
use terrace_testkit::{RecordedDisk, RecordedFile};

/// Capacity of the store.
const STORE_BYTES: u64 = 1 << 30;

/// The files of one data directory, which exists and is durable from the start.
#[derive(Debug)]
pub struct RecordedFiles(pub RecordedDisk);

impl Files for RecordedFiles {
    fn make_directory(&self, _: &Path) -> io::Result<()> {
        Ok(())
    }

    fn names(&self, _: &Path) -> io::Result<Vec<String>> {
        let name = |path: &PathBuf| path.file_name()?.to_str().map(str::to_owned);
        Ok(self.0.names().iter().filter_map(name).collect())
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        Ok(self.0.names().iter().any(|name| name == path))
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        Ok(Box::new(self.0.create(path)))
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        let file = self.0.open(path)?;
        let mut bytes = vec![0; file.len()];
        file.read(0, &mut bytes)?;
        Ok(bytes)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        let file = self.0.create(path);
        file.set_len(0);
        file.write(0, bytes);
        file.sync();
        Ok(())
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.0.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        self.0.remove(path)
    }

    fn sync_directory(&self, _: &Path) -> io::Result<()> {
        self.0.sync_names();
        Ok(())
    }

    fn open_catalog(&self, path: &Path, builder: &Builder) -> Result<Database, DatabaseError> {
        builder.create_with_backend(CatalogFile(self.0.create(path)))
    }

    fn open_store(&self, path: &Path, create: bool) -> Result<Store, StoreError> {
        let name = format!("file:{}", path.display());
        let file = match create {
            true => Ok(self.0.create(path)),
            false => self.0.open(path),
        };
        let opened = |source| StoreError::Open { store: name.clone(), source: Arc::new(source) };
        Store::open(Arc::new(file.map_err(opened)?), name, STORE_BYTES)
    }
}

/// A recorded file as redb's storage backend.
#[derive(Debug)]
struct CatalogFile(RecordedFile);

impl StorageBackend for CatalogFile {
    fn len(&self) -> io::Result<u64> {
        Ok(to_u64(self.0.len()))
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(to_usize(offset), out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(to_usize(len));
        Ok(())
    }

    fn sync_data(&self) -> io::Result<()> {
        self.0.sync();
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(to_usize(offset), data);
        Ok(())
    }
}
