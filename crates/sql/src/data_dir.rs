//! The directory that holds a database: `FORMAT`, `LOCK`, `catalog.redb`, unless a tier names
//! another file or a device `store.terrace`, and `STORE`, which says which of these it is and
//! stands for a first start that came to its end.

use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use terrace_sys::file::make_directory;
use terrace_sys::lock::LockedFile;

use crate::error::SqlError;

/// The version of everything below a data directory. A program opens its own version only.
pub const FORMAT_VERSION: u32 = 2;

const FORMAT_FILE: &str = "FORMAT";
const FORMAT_NAME: &str = "terrace";
const LOCK_FILE: &str = "LOCK";
const STORE_FILE: &str = "STORE";

/// An open data directory, locked against every other process until it is dropped. A temporary
/// one is removed then.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    // The lock goes before the directory it is in.
    _lock: LockedFile,
    temporary: Option<TempDir>,
}

impl DataDir {
    /// Opens the data directory at `path`, and makes it where there is none.
    ///
    /// # Errors
    /// [`SqlError::DataDir`] when another process has it open, when it is of another format
    /// version, or when it holds files and is no data directory; [`SqlError::DataDirIo`] when it
    /// cannot be written.
    pub fn open(path: &Path) -> Result<Self, SqlError> {
        make_directory(path, sync_directory)
            .map_err(|source| io_error(path, "create it", source))?;
        // Looked at before the lock, so that a foreign directory is left without a trace.
        let format = read_format(path)?;
        if format.is_none() {
            refuse_foreign(path)?;
        }
        let lock = lock(path)?;
        match read_format(path)? {
            Some(format) => check_format(path, &format)?,
            None => write_format(path)?,
        }
        Ok(Self { path: path.to_owned(), _lock: lock, temporary: None })
    }

    /// Makes a data directory that is removed when the value is dropped.
    ///
    /// # Errors
    /// [`SqlError::DataDirIo`] when the system's directory for temporary files cannot be written.
    pub fn temporary() -> Result<Self, SqlError> {
        let temporary = tempfile::Builder::new().prefix("terrace-").tempdir();
        let temporary = temporary
            .map_err(|source| io_error(&std::env::temp_dir(), "make a directory in it", source))?;
        let mut directory = Self::open(temporary.path())?;
        directory.temporary = Some(temporary);
        Ok(directory)
    }

    /// The directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether the directory is removed when the value is dropped.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }

    /// The catalog's file.
    #[must_use]
    pub fn catalog(&self) -> PathBuf {
        self.path.join("catalog.redb")
    }

    /// The store's file, where no tier names another.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.path.join("store.terrace")
    }

    /// The name of the store that the database was made with. None before its first start came to
    /// its end: then there is no table yet.
    pub(crate) fn kept_store(&self) -> Result<Option<String>, SqlError> {
        let kept = read_file(&self.path.join(STORE_FILE))?;
        Ok(kept.filter(|name| !name.is_empty()))
    }

    /// Keeps the name of the store, which is there by now.
    pub(crate) fn keep_store(&self, name: &str) -> Result<(), SqlError> {
        let failed = |source| io_error(&self.path, "sync it", source);
        sync_directory(&self.path).map_err(failed)?;
        write_whole(&self.path, STORE_FILE, name)
    }
}

fn lock(path: &Path) -> Result<LockedFile, SqlError> {
    let file = path.join(LOCK_FILE);
    LockedFile::open(&file).map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => {
            let holder = fs::read_to_string(&file).unwrap_or_default();
            let holder = match holder.trim() {
                "" => "another process".to_owned(),
                pid => format!("process {pid}"),
            };
            let what = format!(
                "{holder} has it open, and one process at a time may; end that process or name \
                 another directory"
            );
            SqlError::DataDir { path: path.to_owned(), what }
        }
        _ => io_error(&file, "lock it", source),
    })
}

/// Makes the entries of a directory durable.
pub(crate) fn sync_directory(path: &Path) -> io::Result<()> {
    terrace_sys::file::sync_directory(path)?;
    #[cfg(test)]
    tests::note_synced(path);
    Ok(())
}

/// What `FORMAT` says, or `None` where there is no such file.
fn read_format(path: &Path) -> Result<Option<String>, SqlError> {
    read_file(&path.join(FORMAT_FILE))
}

/// The line that a file holds, or `None` where there is no such file.
fn read_file(file: &Path) -> Result<Option<String>, SqlError> {
    match fs::read(file) {
        Ok(bytes) => Ok(Some(String::from_utf8_lossy(&bytes).trim().to_owned())),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(source) => Err(io_error(file, "read it", source)),
    }
}

fn check_format(path: &Path, format: &str) -> Result<(), SqlError> {
    let version = match format.split_once(' ') {
        Some((FORMAT_NAME, version)) => version,
        _ => return Err(foreign(path, &format!("its FORMAT file says \"{format}\""))),
    };
    if version == FORMAT_VERSION.to_string() {
        return Ok(());
    }
    let what = format!(
        "it is of format version {version} and this program reads version {FORMAT_VERSION}; open \
         it with the version of Terrace that wrote it, or name another directory"
    );
    Err(SqlError::DataDir { path: path.to_owned(), what })
}

/// Refuses a directory that holds anything but what an interrupted first start leaves.
fn refuse_foreign(path: &Path) -> Result<(), SqlError> {
    let entries = fs::read_dir(path).map_err(|source| io_error(path, "list it", source))?;
    for entry in entries {
        let entry = entry.map_err(|source| io_error(path, "list it", source))?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != LOCK_FILE && name != unfinished(FORMAT_FILE) {
            return Err(foreign(path, &format!("it holds {name} and no FORMAT file")));
        }
    }
    Ok(())
}

fn foreign(path: &Path, why: &str) -> SqlError {
    let what = format!("it is no Terrace directory: {why}; name an empty or a new directory");
    SqlError::DataDir { path: path.to_owned(), what }
}

/// What a file is called until it is whole.
fn unfinished(name: &str) -> String {
    format!("{name}.new")
}

fn write_format(path: &Path) -> Result<(), SqlError> {
    write_whole(path, FORMAT_FILE, &format!("{FORMAT_NAME} {FORMAT_VERSION}"))
}

/// Writes a file of one line so that it is there in whole or not at all.
fn write_whole(path: &Path, name: &str, line: &str) -> Result<(), SqlError> {
    let unfinished = path.join(unfinished(name));
    let written = fs::File::create(&unfinished).and_then(|mut file| {
        writeln!(file, "{line}")?;
        file.sync_all()?;
        fs::rename(&unfinished, path.join(name))?;
        sync_directory(path)
    });
    written.map_err(|source| io_error(&unfinished, "write it", source))
}

fn io_error(path: &Path, action: &'static str, source: io::Error) -> SqlError {
    SqlError::DataDirIo { path: path.to_owned(), action, source }
}

#[cfg(test)]
mod tests {
    use std::cell::RefCell;

    use super::*;

    thread_local! {
        static SYNCED: RefCell<Vec<PathBuf>> = const { RefCell::new(Vec::new()) };
    }

    /// Remembers what this thread made durable: no test can take the power away.
    pub(super) fn note_synced(path: &Path) {
        let path = path.canonicalize().expect("it was just opened");
        SYNCED.with_borrow_mut(|synced| synced.push(path));
    }

    fn synced_by<T>(act: impl FnOnce() -> T) -> (T, Vec<PathBuf>) {
        SYNCED.take();
        let done = act();
        (done, SYNCED.take())
    }

    #[test]
    fn what_a_first_start_makes_is_there_to_stay() {
        let parent = tempfile::tempdir().expect("tempdir");
        let parent = parent.path().canonicalize().expect("canonical");
        let path = parent.join("deep/data");
        let (directory, synced) = synced_by(|| DataDir::open(&path).expect("a new directory"));
        // The entry of each new directory in the one above it, then the file in the innermost.
        for entries in [&parent, &parent.join("deep"), &path] {
            assert!(synced.contains(entries), "{} is not among {synced:?}", entries.display());
        }
        let (kept, synced) = synced_by(|| directory.keep_store("s"));
        kept.expect("keep the name");
        // The store's entry before the name that says it must be there, and the name after it.
        assert_eq!(synced, [path.clone(), path.clone()]);
        drop(directory);
        let (_again, synced) = synced_by(|| DataDir::open(&path).expect("open"));
        assert!(synced.is_empty(), "nothing is new: {synced:?}");
    }

    fn message(path: &Path) -> String {
        DataDir::open(path).expect_err("must be refused").to_string()
    }

    #[test]
    fn opens_twice_in_turn_and_not_at_once() {
        let parent = tempfile::tempdir().expect("tempdir");
        let path = parent.path().join("deep/data");
        let first = DataDir::open(&path).expect("a new directory");
        let format = fs::read_to_string(path.join("FORMAT")).expect("FORMAT");
        assert_eq!(format, format!("terrace {FORMAT_VERSION}\n"));
        let refusal = message(&path);
        assert!(refusal.contains(&format!("process {}", std::process::id())), "{refusal}");
        drop(first);
        DataDir::open(&path).expect("free again");
    }

    #[test]
    fn refuses_another_version_and_names_both() {
        let directory = tempfile::tempdir().expect("tempdir");
        fs::write(directory.path().join("FORMAT"), "terrace 7\n").expect("write");
        let refusal = message(directory.path());
        let own = format!("version {FORMAT_VERSION}");
        assert!(refusal.contains("version 7") && refusal.contains(&own), "{refusal}");
    }

    #[test]
    fn refuses_foreign_directories_and_leaves_no_trace() {
        let directory = tempfile::tempdir().expect("tempdir");
        fs::write(directory.path().join("photo.jpg"), "x").expect("write");
        assert!(message(directory.path()).contains("photo.jpg"));
        assert_eq!(fs::read_dir(directory.path()).expect("list").count(), 1);
        fs::write(directory.path().join("FORMAT"), "sqlite 3").expect("write");
        assert!(message(directory.path()).contains("sqlite 3"));
    }

    #[test]
    fn finishes_an_interrupted_first_start() {
        let directory = tempfile::tempdir().expect("tempdir");
        fs::write(directory.path().join("LOCK"), "1").expect("write");
        fs::write(directory.path().join("FORMAT.new"), "terr").expect("write");
        DataDir::open(directory.path()).expect("open");
    }

    #[test]
    fn names_what_cannot_be_written() {
        let directory = tempfile::tempdir().expect("tempdir");
        let file = directory.path().join("file");
        fs::write(&file, "").expect("write");
        assert!(message(&file.join("data")).contains("cannot create it"));
    }

    #[test]
    fn a_temporary_directory_goes_with_its_value() {
        let directory = DataDir::temporary().expect("temporary");
        let path = directory.path().to_owned();
        assert!(path.is_dir() && directory.is_temporary());
        drop(directory);
        assert!(!path.exists());
    }
}
