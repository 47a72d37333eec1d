//! Directory of the logs and dumps of a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use super::files::{Files, Stream};
use crate::error::ObjectError;

/// Directory of the logs and dumps of a store, locked by this process.
pub(crate) struct LogDirectory {
    dir: PathBuf,
    files: Arc<dyn Files>,
    _lock: Box<dyn Send + Sync>,
}

impl LogDirectory {
    pub(crate) fn lock(files: Arc<dyn Files>, dir: &Path) -> Result<Self, ObjectError> {
        let made = files.make_directory(dir);
        made.map_err(|source| ObjectError::file("make", dir, source))?;
        let path = dir.join("lock");
        let lock = files.lock(&path).map_err(|source| ObjectError::file("lock", &path, source))?;
        Ok(Self { dir: dir.to_owned(), files, _lock: lock })
    }

    /// Returns the file system of the directory.
    pub(crate) fn files(&self) -> &dyn Files {
        &*self.files
    }

    pub(crate) fn path(&self, kind: &str, number: u64) -> PathBuf {
        self.dir.join(format!("{kind}-{number:016x}"))
    }

    fn names(&self) -> Result<Vec<String>, ObjectError> {
        self.files.names(&self.dir).map_err(|source| ObjectError::file("read", &self.dir, source))
    }

    /// Returns the numbers of the files of a kind, in order.
    pub(crate) fn numbers(&self, kind: &str) -> Result<Vec<u64>, ObjectError> {
        let mut numbers = Vec::new();
        for name in self.names()? {
            let number = name.strip_prefix(kind).and_then(|name| name.strip_prefix('-'));
            let number = number.filter(|digits| digits.len() == 16);
            numbers.extend(number.and_then(|digits| u64::from_str_radix(digits, 16).ok()));
        }
        numbers.sort_unstable();
        Ok(numbers)
    }

    /// Makes the names of files durable.
    pub(crate) fn sync(&self) -> Result<(), ObjectError> {
        let synced = self.files.sync_names(&self.dir);
        synced.map_err(|source| ObjectError::file("sync", &self.dir, source))
    }

    /// Removes the dumps and logs with numbers below `number`, which that dump has replaced. A file
    /// that cannot be removed stays, with a warning, until the next checkpoint or recovery.
    pub(crate) fn remove_before(&self, number: u64) -> Result<(), ObjectError> {
        for kind in ["dump", "log"] {
            for old in self.numbers(kind)?.into_iter().filter(|old| *old < number) {
                let path = self.path(kind, old);
                if let Err(error) = self.files.remove(&path) {
                    tracing::warn!(path = %path.display(), %error, "an old file stays");
                }
            }
        }
        Ok(())
    }

    /// Removes the files that the last dump has replaced, and unfinished dumps.
    pub(crate) fn tidy(&self) -> Result<(), ObjectError> {
        if let Some(last) = self.numbers("dump")?.last() {
            // The name of the dump may not be durable yet.
            self.sync()?;
            self.remove_before(*last)?;
        }
        for name in self.names()?.into_iter().filter(|name| name.ends_with(".unfinished")) {
            let path = self.dir.join(name);
            let removed = self.files.remove(&path);
            removed.map_err(|source| ObjectError::file("remove", &path, source))?;
        }
        Ok(())
    }

    /// Keeps a file, if it exists, under a second name that recovery does not read. Idempotent.
    pub(crate) fn keep(&self, path: &Path) -> Result<(), ObjectError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let (name, kept) = (name.to_string(), format!("damaged-{name}"));
        let names = self.names()?;
        if !names.contains(&name) || names.contains(&kept) {
            return Ok(());
        }
        let kept = self.dir.join(kept);
        // Some file systems have no hard links.
        let linked = self.files.link(path, &kept).or_else(|_| self.copy(path, &kept));
        linked.map_err(|source| ObjectError::file("keep", path, source))
    }

    fn copy(&self, from: &Path, to: &Path) -> std::io::Result<()> {
        let mut copy = Stream::new(self.files.create(to)?);
        let copied = std::io::copy(&mut Stream::new(self.files.open(from)?), &mut copy);
        let copied = copied.and_then(|_| copy.file.sync());
        copied.inspect_err(|_| drop(self.files.remove(to)))
    }
}
