//! Opening stores by path.
//!
//! A store treats all space that its owner does not claim as free, so a mistyped path would cost
//! the data behind it. Stores are therefore opened only over blank or labelled files and devices;
//! other data is accepted only by the functions that are named for overwriting.

use std::io;
use std::path::Path;
use std::sync::Arc;

use terrace_sys::file::DirectFile;
use terrace_sys::file_system::free_bytes;

use super::engine::EngineChoice;
use super::error::StoreError;
use super::file_blocks::FileBlocks;
use super::store::Store;

impl Store {
    /// Opens a store in the file at `path`, created when missing; existing contents are kept, and
    /// are in use once claimed. Without a capacity, the store may use the space that is free on the
    /// file system now. The file is locked against other processes while the store lives.
    ///
    /// A file that is not blank must have a [`Label`](super::Label), by which its owner recognizes
    /// it: [`Store::settle`] labels a new store. The directory entry of a new file is durable only
    /// after the caller has synced its directory.
    ///
    /// # Errors
    /// [`StoreError::Open`] when the file cannot be opened or another process keeps it locked for
    /// two seconds; [`StoreError::Foreign`] when it holds foreign data.
    pub fn open_file(path: &Path, capacity_bytes: Option<u64>) -> Result<Store, StoreError> {
        Store::open_file_with(path, capacity_bytes, EngineChoice::Auto)
    }

    /// [`Store::open_file`] with a given engine.
    ///
    /// # Errors
    /// As [`Store::open_file`], and when the engine is refused.
    pub fn open_file_with(
        path: &Path,
        capacity_bytes: Option<u64>,
        choice: EngineChoice,
    ) -> Result<Store, StoreError> {
        guarded(Store::overwrite_file_with(path, capacity_bytes, choice)?)
    }

    /// As [`Store::open_file`], regardless of the contents: space that is not claimed is
    /// overwritten by the first extents that are allocated.
    ///
    /// # Errors
    /// [`StoreError::Open`], as [`Store::open_file`].
    pub fn overwrite_file(path: &Path, capacity_bytes: Option<u64>) -> Result<Store, StoreError> {
        Store::overwrite_file_with(path, capacity_bytes, EngineChoice::Auto)
    }

    /// [`Store::overwrite_file`] with a given engine.
    ///
    /// # Errors
    /// As [`Store::overwrite_file`], and when the engine is refused.
    pub fn overwrite_file_with(
        path: &Path,
        capacity_bytes: Option<u64>,
        choice: EngineChoice,
    ) -> Result<Store, StoreError> {
        over_file(path, DirectFile::create(path), capacity_bytes, choice)
    }

    /// [`Store::overwrite_file`] of an existing file: nothing is created. For owners that know its
    /// contents from elsewhere.
    ///
    /// # Errors
    /// As [`Store::overwrite_file`], and when there is no such file.
    pub fn reopen_file(path: &Path, capacity_bytes: Option<u64>) -> Result<Store, StoreError> {
        over_file(path, DirectFile::open(path), capacity_bytes, EngineChoice::Auto)
    }

    /// Opens a store on the block device at `path`, with its size or less as capacity. A device
    /// that is mounted, or in use by another store, is refused; one that is not blank must have a
    /// label, as the file of [`Store::open_file`].
    ///
    /// # Errors
    /// [`StoreError::Open`] when the device cannot be opened, is busy, or is smaller than the
    /// requested capacity; [`StoreError::Foreign`] when it holds foreign data.
    pub fn open_device(path: &Path, capacity_bytes: Option<u64>) -> Result<Store, StoreError> {
        Store::open_device_with(path, capacity_bytes, EngineChoice::Auto)
    }

    /// [`Store::open_device`] with a given engine.
    ///
    /// # Errors
    /// As [`Store::open_device`], and when the engine is refused.
    pub fn open_device_with(
        path: &Path,
        capacity_bytes: Option<u64>,
        choice: EngineChoice,
    ) -> Result<Store, StoreError> {
        guarded(Store::overwrite_device_with(path, capacity_bytes, choice)?)
    }

    /// As [`Store::open_device`], regardless of the contents: space that is not claimed is
    /// overwritten by the first extents that are allocated.
    ///
    /// # Errors
    /// [`StoreError::Open`], as [`Store::open_device`].
    pub fn overwrite_device(path: &Path, capacity_bytes: Option<u64>) -> Result<Store, StoreError> {
        Store::overwrite_device_with(path, capacity_bytes, EngineChoice::Auto)
    }

    /// [`Store::overwrite_device`] with a given engine.
    ///
    /// # Errors
    /// As [`Store::overwrite_device`], and when the engine is refused.
    pub fn overwrite_device_with(
        path: &Path,
        capacity_bytes: Option<u64>,
        choice: EngineChoice,
    ) -> Result<Store, StoreError> {
        let name = format!("dev:{}", path.display());
        let opened = DirectFile::device(path).and_then(|file| {
            let len = file.len()?;
            let capacity_bytes = capacity_bytes.unwrap_or(len);
            if capacity_bytes > len {
                let message = format!("it has {len} bytes, fewer than the {capacity_bytes} asked");
                return Err(io::Error::other(message));
            }
            over(file, capacity_bytes, choice)
        });
        finish(name, opened)
    }

    /// Opens a store in an unnamed file in `dir`, which the kernel removes when the store is
    /// dropped or the process ends in any way. Without a capacity, the store may use the space that
    /// is free on the file system now.
    ///
    /// # Errors
    /// [`StoreError::Open`] when the directory is missing or not writable.
    pub fn temporary(dir: &Path, capacity_bytes: Option<u64>) -> Result<Store, StoreError> {
        Store::temporary_with(dir, capacity_bytes, EngineChoice::Auto)
    }

    /// [`Store::temporary`] with a given engine.
    ///
    /// # Errors
    /// As [`Store::temporary`], and when the engine is refused.
    pub fn temporary_with(
        dir: &Path,
        capacity_bytes: Option<u64>,
        choice: EngineChoice,
    ) -> Result<Store, StoreError> {
        let name = format!("temporary file in {}", dir.display());
        let opened = DirectFile::temporary(dir).and_then(|file| {
            let capacity_bytes = match capacity_bytes {
                Some(bytes) => bytes,
                None => free_bytes(dir)?,
            };
            over(file, capacity_bytes, choice)
        });
        finish(name, opened)
    }
}

fn guarded(store: Store) -> Result<Store, StoreError> {
    store.refuse_foreign().map(|()| store)
}

fn over_file(
    path: &Path,
    file: io::Result<DirectFile>,
    capacity_bytes: Option<u64>,
    choice: EngineChoice,
) -> Result<Store, StoreError> {
    let opened = lock(file).and_then(|file| {
        let capacity_bytes = match capacity_bytes {
            Some(bytes) => bytes,
            None => file.len()?.saturating_add(free_bytes(path)?),
        };
        over(file, capacity_bytes, choice)
    });
    finish(format!("file:{}", path.display()), opened)
}

fn lock(file: io::Result<DirectFile>) -> io::Result<DirectFile> {
    let file = file?;
    file.lock().map_err(|error| match error.kind() {
        io::ErrorKind::WouldBlock => {
            let message = format!("another store has it open ({error}); end that process first");
            io::Error::new(io::ErrorKind::WouldBlock, message)
        }
        _ => error,
    })?;
    Ok(file)
}

fn over(
    file: DirectFile,
    capacity_bytes: u64,
    choice: EngineChoice,
) -> io::Result<(FileBlocks, u64)> {
    Ok((FileBlocks::open(file, capacity_bytes, choice)?, capacity_bytes))
}

fn finish(name: String, opened: io::Result<(FileBlocks, u64)>) -> Result<Store, StoreError> {
    match opened {
        Ok((blocks, capacity_bytes)) => Store::open(Arc::new(blocks), name, capacity_bytes),
        Err(source) => Err(StoreError::Open { store: name, source: Arc::new(source) }),
    }
}
