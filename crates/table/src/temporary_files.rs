//! The file system of a temporary data directory: nothing in it outlives the process, so that no
//! write waits for the device.

use std::any::Any;
use std::fs::{self, OpenOptions};
use std::io;
use std::path::Path;

use redb::backends::FileBackend;
use redb::{Builder, Database, DatabaseError, StorageBackend};
use terrace_store::{Store, StoreError};

use crate::files::{Files, SystemFiles};

/// The machine's file system, as [`SystemFiles`], but without syncs of the catalog and directories.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TemporaryFiles;

impl Files for TemporaryFiles {
    fn make_directory(&self, path: &Path) -> io::Result<()> {
        fs::create_dir_all(path)
    }

    fn names(&self, directory: &Path) -> io::Result<Vec<String>> {
        SystemFiles.names(directory)
    }

    fn exists(&self, path: &Path) -> io::Result<bool> {
        SystemFiles.exists(path)
    }

    fn lock(&self, path: &Path) -> io::Result<Box<dyn Any + Send + Sync>> {
        SystemFiles.lock(path)
    }

    fn read(&self, path: &Path) -> io::Result<Vec<u8>> {
        SystemFiles.read(path)
    }

    fn write(&self, path: &Path, bytes: &[u8]) -> io::Result<()> {
        fs::write(path, bytes)
    }

    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        SystemFiles.rename(from, to)
    }

    fn remove(&self, path: &Path) -> io::Result<()> {
        SystemFiles.remove(path)
    }

    fn sync_directory(&self, _path: &Path) -> io::Result<()> {
        Ok(())
    }

    fn open_catalog(&self, path: &Path, builder: &Builder) -> Result<Database, DatabaseError> {
        let mut options = OpenOptions::new();
        let file = options.read(true).write(true).create(true).truncate(false).open(path)?;
        builder.create_with_backend(Unsynced(FileBackend::new(file)?))
    }

    fn open_store(&self, path: &Path, create: bool) -> Result<Store, StoreError> {
        SystemFiles.open_store(path, create)
    }
}

/// A file whose syncs do nothing. The lock of the data directory keeps other processes out.
#[derive(Debug)]
struct Unsynced(FileBackend);

impl StorageBackend for Unsynced {
    fn len(&self) -> io::Result<u64> {
        self.0.len()
    }

    fn read(&self, offset: u64, out: &mut [u8]) -> io::Result<()> {
        self.0.read(offset, out)
    }

    fn set_len(&self, len: u64) -> io::Result<()> {
        self.0.set_len(len)
    }

    fn sync_data(&self) -> io::Result<()> {
        Ok(())
    }

    fn write(&self, offset: u64, data: &[u8]) -> io::Result<()> {
        self.0.write(offset, data)
    }

    fn close(&self) -> io::Result<()> {
        self.0.close()
    }
}

#[cfg(test)]
mod tests {
    use redb::{ReadableDatabase, TableDefinition};

    use super::*;

    #[test]
    fn a_catalog_without_syncs_is_read_back() {
        const NUMBERS: TableDefinition<'_, u64, u64> = TableDefinition::new("numbers");
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("catalog");
        let open = || TemporaryFiles.open_catalog(&path, &Database::builder()).expect("opened");
        let database = open();
        let write = database.begin_write().expect("a transaction");
        write.open_table(NUMBERS).expect("a table").insert(1, 2).expect("inserted");
        write.commit().expect("committed");
        drop(database);
        let database = open();
        let numbers = database.begin_read().expect("a transaction").open_table(NUMBERS);
        let found = numbers.expect("a table").get(1).expect("read");
        assert_eq!(found.map(|it| it.value()), Some(2));
    }
}
