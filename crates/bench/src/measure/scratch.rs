//! Working directories of experiments.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use crate::error::{BenchError, Result};

/// Counter that makes the names of one process's directories unique.
static COUNT: AtomicU64 = AtomicU64::new(0);

/// A directory; if it is temporary, it is removed with its contents on drop.
#[derive(Debug)]
pub struct Scratch {
    path: PathBuf,
    temporary: bool,
}

impl Scratch {
    /// Returns the given directory, or creates a temporary one for `purpose` below the system's
    /// temporary directory.
    ///
    /// # Errors
    /// [`BenchError::File`] if the directory cannot be created.
    pub fn of(named: Option<&Path>, purpose: &str) -> Result<Scratch> {
        match named {
            Some(path) => Scratch::make(path.to_path_buf(), false),
            None => Scratch::below(&std::env::temp_dir(), purpose),
        }
    }

    /// Creates a temporary directory for `purpose` below `parent`.
    ///
    /// # Errors
    /// As [`Scratch::of`].
    pub fn below(parent: &Path, purpose: &str) -> Result<Scratch> {
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("terrace-{purpose}-{}-{count}", std::process::id());
        Scratch::make(parent.join(name), true)
    }

    fn make(path: PathBuf, temporary: bool) -> Result<Scratch> {
        let made = std::fs::create_dir_all(&path);
        made.map_err(|source| BenchError::file("create", &path, source))?;
        Ok(Scratch { path, temporary })
    }

    /// Returns the path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if self.temporary {
            // A directory that cannot be removed stays among the system's temporary files.
            let _ = std::fs::remove_dir_all(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_goes_unless_it_was_named() {
        let first = Scratch::of(None, "test").expect("made");
        let second = Scratch::of(None, "test").expect("made");
        assert_ne!(first.path(), second.path());
        std::fs::write(first.path().join("file"), "text").expect("written");
        let path = first.path().to_path_buf();
        drop(first);
        assert!(!path.exists());
        drop(Scratch::of(Some(second.path()), "test").expect("found"));
        assert!(second.path().exists());
        assert!(Scratch::of(Some(Path::new("/proc/no")), "test").is_err());
    }
}
