//! Files of the log of a table: lists of them, and their bytes.

use std::collections::HashMap;
use std::fs::Metadata;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::sync::Mutex;
use std::time::UNIX_EPOCH;

use delta_kernel::{FileDataReadResultIterator, FileMeta, KernelError, KernelResult};
use terrace_cloud::{CloudFile, CloudFiles};
use terrace_sys::sync::lock;
use url::Url;

use super::errors::{of_cloud, of_file};
use super::location::{address_of, file_of};
use crate::file_tables::found::FoundFile;

/// Maximum number of files of a log behind its last checkpoint.
const LOG_FILES_MAX: usize = 1_000_000;

/// Files of a log.
pub(super) struct LogFiles {
    cloud: CloudFiles,
    /// The versions of listed files of other machines.
    listed: Mutex<HashMap<Url, CloudFile>>,
}

impl LogFiles {
    /// Files that are read by `cloud`, or are of this machine.
    pub(super) fn new(cloud: &CloudFiles) -> Self {
        Self { cloud: cloud.clone(), listed: Mutex::default() }
    }

    /// The files directly in the directory of `from` whose URLs follow it, in their order. A URL
    /// that ends with a slash is the directory itself.
    ///
    /// The kernel asks for files of subdirectories, too, and skips them: commits and checkpoints
    /// are not in one, and it reads the parts of a checkpoint by their paths.
    ///
    /// # Errors
    /// Errors of the directory, but for a missing one, which has no files.
    pub(super) fn list(&self, from: &Url) -> KernelResult<Vec<FileMeta>> {
        let directory = from.join(".")?;
        let mut files = match from.scheme() {
            "file" => list_local(&directory)?,
            _ => self.list_remote(&directory, from)?,
        };
        files.retain(|file| file.location.as_str() > from.as_str());
        files.sort_by(|a, b| a.location.as_str().cmp(b.location.as_str()));
        Ok(files)
    }

    fn list_remote(&self, directory: &Url, from: &Url) -> KernelResult<Vec<FileMeta>> {
        let address = |url: &Url| address_of(url).map_err(|error| of_file(&error));
        let after = match directory == from {
            true => String::new(),
            false => address(from)?.key,
        };
        let found = self.cloud.list_after(&address(directory)?, &after, LOG_FILES_MAX);
        let mut files = vec![];
        for file in found.map_err(|error| of_cloud(&error))? {
            let name = file.address.key.rsplit('/').next().unwrap_or_default();
            let mut location = directory.clone();
            let Ok(mut path) = location.path_segments_mut() else { continue };
            path.pop_if_empty().push(name);
            drop(path);
            let modified = file.modified.timestamp_millis();
            files.push(FileMeta::new(location.clone(), modified, file.bytes));
            lock(&self.listed).insert(location, file);
        }
        Ok(files)
    }

    /// A file as the log describes it.
    ///
    /// # Errors
    /// A URL that no client reads.
    pub(super) fn file(&self, meta: &FileMeta) -> KernelResult<FoundFile> {
        if let Some(file) = lock(&self.listed).get(&meta.location) {
            return Ok(FoundFile::remote(&self.cloud, file.clone()));
        }
        let file = file_of(&self.cloud, &meta.location, meta.size, meta.last_modified);
        file.map_err(|error| of_file(&error))
    }

    /// A file as it is at present, and the time of its last change in milliseconds.
    ///
    /// # Errors
    /// [`KernelError::FileNotFound`] for a missing file, and other errors of the file.
    pub(super) fn present(&self, url: &Url) -> KernelResult<(FoundFile, i64)> {
        if url.scheme() != "file" {
            let address = address_of(url).map_err(|error| of_file(&error))?;
            let file = self.cloud.present(&address).map_err(|error| of_cloud(&error))?;
            let modified = file.modified.timestamp_millis();
            return Ok((FoundFile::remote(&self.cloud, file), modified));
        }
        let path = path_of(url)?;
        let metadata = std::fs::metadata(&path).map_err(|error| match error.kind() {
            ErrorKind::NotFound => KernelError::file_not_found(path.display()),
            _ => KernelError::generic(format!("cannot read {}: {error}", path.display())),
        })?;
        let modified = modified_millis(&metadata);
        Ok((FoundFile::local(path, metadata.len()), modified))
    }
}

/// The path of a URL of this machine.
fn path_of(url: &Url) -> KernelResult<PathBuf> {
    url.to_file_path()
        .map_err(|()| KernelError::generic(format!("{url} is no path of this machine")))
}

/// The files of a directory of this machine.
fn list_local(directory: &Url) -> KernelResult<Vec<FileMeta>> {
    let path = path_of(directory)?;
    let failed = |error| KernelError::generic(format!("cannot list {}: {error}", path.display()));
    let entries = match std::fs::read_dir(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(vec![]),
        entries => entries.map_err(failed)?,
    };
    let mut files = vec![];
    for entry in entries {
        let entry = entry.map_err(failed)?.path();
        let metadata = match std::fs::metadata(&entry) {
            // A commit behind a checkpoint may be removed at any time.
            Err(error) if error.kind() == ErrorKind::NotFound => continue,
            metadata => metadata.map_err(failed)?,
        };
        if let (true, Ok(location)) = (metadata.is_file(), Url::from_file_path(entry)) {
            files.push(FileMeta::new(location, modified_millis(&metadata), metadata.len()));
        }
    }
    Ok(files)
}

/// The time of the last change, in milliseconds since 1970.
fn modified_millis(metadata: &Metadata) -> i64 {
    let modified = metadata.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    modified.and_then(|since| i64::try_from(since.as_millis()).ok()).unwrap_or_default()
}

/// The batches of files one after the other; a file is opened when those before it have ended.
pub(super) fn in_turn(
    files: &[FileMeta],
    open: impl Fn(&FileMeta) -> KernelResult<FileDataReadResultIterator> + Send + 'static,
) -> FileDataReadResultIterator {
    let files = files.to_vec();
    let batches = files.into_iter().flat_map(move |file| {
        open(&file).unwrap_or_else(|error| Box::new(std::iter::once(Err(error))))
    });
    Box::new(batches)
}
