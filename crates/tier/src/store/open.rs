//! Stores by path.

use std::io;
use std::path::Path;
use std::sync::Arc;

use terrace_sys::file::DirectFile;
use terrace_sys::file_system::free_bytes;

use super::{EngineChoice, FileBlocks, Store, StoreError};

impl Store {
    /// A store in the file at `path`, created when missing; what it holds is kept, and in use once
    /// claimed. Without a capacity it may take what is free on the file system now. The file is
    /// locked against other processes while the store lives.
    ///
    /// # Errors
    /// [`StoreError::Open`] when the file cannot be opened or another process has it.
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
        over_file(path, DirectFile::create(path), capacity_bytes, choice)
    }

    /// [`Store::open_file`] of a file that must be there: nothing is created.
    ///
    /// # Errors
    /// As [`Store::open_file`], and when there is no such file.
    pub fn reopen_file(path: &Path, capacity_bytes: Option<u64>) -> Result<Store, StoreError> {
        over_file(path, DirectFile::open(path), capacity_bytes, EngineChoice::Auto)
    }

    /// A store on the block device at `path`, of its size or less. What the device held is
    /// overwritten as extents are allocated ([`Store::is_blank`] tells whether it held anything); a
    /// device that is mounted, or in use by another
    /// store, is refused.
    ///
    /// # Errors
    /// [`StoreError::Open`] when the device cannot be opened, is busy or smaller than asked.
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

    /// A store in a file without a name in `dir`, which vanishes with it, however the process ends.
    /// Without a capacity it may take what is free on the file system now.
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
    file.try_lock()?;
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
