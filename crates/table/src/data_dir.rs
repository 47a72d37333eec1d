//! The data directory of a database: `FORMAT`, `LOCK`, `catalog.redb`, `store.terrace` unless a
//! tier names another file or a device, and `STORE`, which names the store in use and marks that
//! the first start was completed.

use std::any::Any;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use tempfile::TempDir;

use crate::error::SqlError;
use crate::files::{Files, SystemFiles};
use crate::temporary_files::TemporaryFiles;

/// Version of everything below a data directory. A program opens only its own version.
pub const FORMAT_VERSION: u32 = 2;

const FORMAT_FILE: &str = "FORMAT";
const FORMAT_NAME: &str = "terrace";
const LOCK_FILE: &str = "LOCK";
const STORE_FILE: &str = "STORE";

/// An open data directory, locked against every other process until it is dropped. A temporary one
/// is removed then.
#[derive(Debug)]
pub struct DataDir {
    path: PathBuf,
    files: Arc<dyn Files>,
    // Dropped before the directory that the lock file is in.
    _lock: Box<dyn Any + Send + Sync>,
    temporary: Option<TempDir>,
}

impl DataDir {
    /// Opens the data directory at `path`, and creates it if it does not exist.
    ///
    /// # Errors
    /// [`SqlError::DataDir`] if another process has it open, if it is of another format version, or
    /// if it holds files but is no data directory; [`SqlError::DataDirIo`] if it cannot be written.
    pub fn open(path: &Path) -> Result<Self, SqlError> {
        Self::open_in(Arc::new(SystemFiles), path)
    }

    /// Opens a data directory as [`DataDir::open`] does, in another file system.
    ///
    /// # Errors
    /// As [`DataDir::open`].
    pub fn open_in(files: Arc<dyn Files>, path: &Path) -> Result<Self, SqlError> {
        let made = files.make_directory(path);
        made.map_err(|source| io_error(path, "create it", source))?;
        // Checked before the lock is taken, so that a foreign directory is left without a trace.
        let format = read_file(&*files, &path.join(FORMAT_FILE))?;
        if format.is_none() {
            refuse_foreign(&*files, path)?;
        }
        let lock = lock_directory(&*files, path)?;
        match read_file(&*files, &path.join(FORMAT_FILE))? {
            Some(format) => check_format(path, &format)?,
            None => write_format(&*files, path)?,
        }
        Ok(Self { path: path.to_owned(), files, _lock: lock, temporary: None })
    }

    /// Creates a data directory that is removed when the value is dropped. Its changes are not
    /// synced: they are lost with the process anyway.
    ///
    /// # Errors
    /// [`SqlError::DataDirIo`] if the system's directory for temporary files cannot be written.
    pub fn temporary() -> Result<Self, SqlError> {
        let temporary = tempfile::Builder::new().prefix("terrace-").tempdir();
        let temporary = temporary
            .map_err(|source| io_error(&std::env::temp_dir(), "make a directory in it", source))?;
        let mut directory = Self::open_in(Arc::new(TemporaryFiles), temporary.path())?;
        directory.temporary = Some(temporary);
        Ok(directory)
    }

    /// Returns the path of the directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the file system of the directory.
    pub fn files(&self) -> &dyn Files {
        &*self.files
    }

    /// Returns true if the directory is removed when the value is dropped.
    #[must_use]
    pub fn is_temporary(&self) -> bool {
        self.temporary.is_some()
    }

    /// Returns the path of the catalog's file.
    #[must_use]
    pub fn catalog(&self) -> PathBuf {
        self.path.join("catalog.redb")
    }

    /// Returns the path of the store's file, used if no tier names another.
    #[must_use]
    pub fn store(&self) -> PathBuf {
        self.path.join("store.terrace")
    }

    /// Returns the name of the store that the database was created with; `None` before the first
    /// start was completed, when there is no table yet.
    pub fn kept_store(&self) -> Result<Option<String>, SqlError> {
        let kept = read_file(self.files(), &self.path.join(STORE_FILE))?;
        Ok(kept.filter(|name| !name.is_empty()))
    }

    /// Records the name of the store, which the caller has created, and makes it durable.
    pub fn keep_store(&self, name: &str) -> Result<(), SqlError> {
        let failed = |source| io_error(&self.path, "sync it", source);
        self.files.sync_directory(&self.path).map_err(failed)?;
        write_whole(self.files(), &self.path, STORE_FILE, name)
    }
}

fn lock_directory(files: &dyn Files, path: &Path) -> Result<Box<dyn Any + Send + Sync>, SqlError> {
    let file = path.join(LOCK_FILE);
    files.lock(&file).map_err(|source| match source.kind() {
        io::ErrorKind::WouldBlock => {
            let holder = files.read(&file).unwrap_or_default();
            let holder = match String::from_utf8_lossy(&holder).trim() {
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

/// Reads a file of one line; returns `None` if there is no such file.
fn read_file(files: &dyn Files, file: &Path) -> Result<Option<String>, SqlError> {
    match files.read(file) {
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

/// Refuses a directory that holds anything other than the remains of an interrupted first start.
fn refuse_foreign(files: &dyn Files, path: &Path) -> Result<(), SqlError> {
    let names = files.names(path).map_err(|source| io_error(path, "list it", source))?;
    for name in names {
        if name != LOCK_FILE && Path::new(&name) != unfinished(Path::new(FORMAT_FILE)) {
            return Err(foreign(path, &format!("it holds {name} and no FORMAT file")));
        }
    }
    Ok(())
}

fn foreign(path: &Path, why: &str) -> SqlError {
    let what = format!("it is no Terrace directory: {why}; name an empty or a new directory");
    SqlError::DataDir { path: path.to_owned(), what }
}

/// Returns the name of a file while it is not completely written.
pub(crate) fn unfinished(file: &Path) -> PathBuf {
    let mut name = file.as_os_str().to_owned();
    name.push(".new");
    PathBuf::from(name)
}

fn write_format(files: &dyn Files, path: &Path) -> Result<(), SqlError> {
    write_whole(files, path, FORMAT_FILE, &format!("{FORMAT_NAME} {FORMAT_VERSION}"))
}

/// Writes a file of one line atomically.
fn write_whole(files: &dyn Files, path: &Path, name: &str, line: &str) -> Result<(), SqlError> {
    let file = path.join(name);
    let unfinished = unfinished(&file);
    let written = files.write(&unfinished, format!("{line}\n").as_bytes()).and_then(|()| {
        files.rename(&unfinished, &file)?;
        files.sync_directory(path)
    });
    written.map_err(|source| io_error(&unfinished, "write it", source))
}

fn io_error(path: &Path, action: &'static str, source: io::Error) -> SqlError {
    SqlError::DataDirIo { path: path.to_owned(), action, source }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::sync::Mutex;

    use redb::{Builder, Database, DatabaseError};
    use terrace_store::{Store, StoreError};
    use terrace_sys::sync::lock;

    use super::*;

    /// The machine's file system, with a record of the directories that were made durable.
    #[derive(Debug, Default)]
    struct Noting {
        synced: Mutex<Vec<PathBuf>>,
    }

    impl Noting {
        fn take(&self) -> Vec<PathBuf> {
            std::mem::take(&mut *lock(&self.synced))
        }
    }

    impl Files for Noting {
        fn make_directory(&self, path: &Path) -> io::Result<()> {
            terrace_sys::file::make_directory(path, |above| self.sync_directory(above))
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
            SystemFiles.write(path, bytes)
        }

        fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
            SystemFiles.rename(from, to)
        }

        fn remove(&self, path: &Path) -> io::Result<()> {
            SystemFiles.remove(path)
        }

        fn sync_directory(&self, path: &Path) -> io::Result<()> {
            SystemFiles.sync_directory(path)?;
            let path = path.canonicalize()?;
            lock(&self.synced).push(path);
            Ok(())
        }

        fn open_catalog(&self, path: &Path, builder: &Builder) -> Result<Database, DatabaseError> {
            SystemFiles.open_catalog(path, builder)
        }

        fn open_store(&self, path: &Path, create: bool) -> Result<Store, StoreError> {
            SystemFiles.open_store(path, create)
        }
    }

    #[test]
    fn what_a_first_start_makes_is_there_to_stay() {
        let parent = tempfile::tempdir().expect("tempdir");
        let parent = parent.path().canonicalize().expect("canonical");
        let path = parent.join("deep/data");
        let files = Arc::new(Noting::default());
        let directory = DataDir::open_in(files.clone(), &path).expect("a new directory");
        let synced = files.take();
        // The entry of each new directory in its parent, then the file in the innermost.
        for entries in [&parent, &parent.join("deep"), &path] {
            assert!(synced.contains(entries), "{} is not among {synced:?}", entries.display());
        }
        directory.keep_store("s").expect("keep the name");
        // The store's entry before the name that promises its existence, and the name after it.
        assert_eq!(files.take(), [path.clone(), path.clone()]);
        drop(directory);
        let _again = DataDir::open_in(files.clone(), &path).expect("open");
        assert_eq!(files.take(), Vec::<PathBuf>::new(), "nothing is new");
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
