//! Temporary directory next to the target of a COPY; its files are renamed to the target when all
//! of them are complete.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::common::{DataFusionError, Result, exec_datafusion_err, plan_err};
use datafusion::datasource::listing::ListingTableUrl;
use datafusion::datasource::physical_plan::FileSinkConfig;

/// Number of stagings so far, which makes their names unique.
static STAGINGS: AtomicU64 = AtomicU64::new(0);

/// Temporary directory in which a COPY writes its files, and the target that they move to.
#[derive(Clone, Debug)]
pub(super) struct Directory {
    directory: PathBuf,
    target: PathBuf,
    /// The file in the directory that becomes the target; `None` if all files go into the target.
    single: Option<PathBuf>,
}

impl Directory {
    /// Redirects a sink to a directory beside its target.
    ///
    /// # Errors
    /// A target that cannot be a file or a directory.
    pub(super) fn of(config: &mut FileSinkConfig, is_single: bool) -> Result<Self> {
        let given = &config.original_url;
        let path = given.strip_prefix("file://").unwrap_or(given);
        let failed = |error| exec_datafusion_err!("cannot write '{given}': {error}");
        let target = std::path::absolute(path).map_err(failed)?;
        let (Some(parent), Some(name)) = (target.parent(), target.file_name()) else {
            return plan_err!("'{given}' is no name of a file to write");
        };
        if is_single && (path.ends_with('/') || target.is_dir()) {
            return plan_err!("'{given}' is a directory; name a file, or say PARTITION_BY");
        }
        let number = STAGINGS.fetch_add(1, Ordering::Relaxed);
        let name = format!(".{}.{}-{number}.tmp", name.display(), std::process::id());
        let directory = parent.join(name);
        // Renamed to the target later, so that an extension for the compression is not needed.
        let single = is_single.then(|| directory.join(format!("file.{}", config.file_extension)));
        let written = match &single {
            Some(file) => url_of(file, "")?,
            None => url_of(&directory, "/")?,
        };
        config.table_paths = vec![written];
        Ok(Self { directory, target, single })
    }

    /// The path of the target.
    pub(super) fn target(&self) -> &Path {
        &self.target
    }

    /// Creates the directory.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn begin(&self) -> Result<()> {
        fs::create_dir_all(&self.directory).map_err(|error| self.failed(&error))
    }

    /// Moves the complete files to their target.
    ///
    /// # Errors
    /// Those of the file system.
    pub(super) fn publish(&self) -> Result<()> {
        let moved = match &self.single {
            Some(file) => fs::rename(file, &self.target),
            None => move_into(&self.directory, &self.target),
        };
        moved.map_err(|error| self.failed(&error))?;
        self.remove();
        Ok(())
    }

    fn failed(&self, error: &io::Error) -> DataFusionError {
        exec_datafusion_err!("cannot write '{}': {error}", self.target.display())
    }

    /// Removes the directory with its files.
    pub(super) fn remove(&self) {
        if let Err(error) = fs::remove_dir_all(&self.directory)
            && error.kind() != io::ErrorKind::NotFound
        {
            tracing::warn!(%error, directory = %self.directory.display(), "files are left over");
        }
    }
}

/// Moves the files of a directory, and of those below, into another one.
fn move_into(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        match entry.file_type()?.is_dir() {
            true => move_into(&entry.path(), &target)?,
            false => fs::rename(entry.path(), target)?,
        }
    }
    Ok(())
}

/// The `file://` URL of a path with special characters escaped, and `end` appended.
fn url_of(path: &Path, end: &str) -> Result<ListingTableUrl> {
    let mut url = "file://".to_owned();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'/' | b'.' | b'_' | b'-' => {
                url.push(char::from(*byte));
            }
            byte => url.push_str(&format!("%{byte:02X}")),
        }
    }
    ListingTableUrl::parse(url + end)
}
