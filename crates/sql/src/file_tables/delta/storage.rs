//! The kernel's access to files: lists of the log, and whole files.

use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use datafusion::parquet::file::reader::ChunkReader as _;
use delta_kernel::{
    FileMeta, FileSlice, KernelError, KernelResult, KernelResultIteratorStatic, StorageHandler,
};
use terrace_sys::size::to_usize;
use terrace_sys::sync::lock;
use url::Url;

use super::log_files::LogFiles;
use crate::file_tables::parquet_file::FileChunks;

/// Bytes of the longest file that is read whole: hints, checksums and deletion vectors.
const WHOLE_BYTES_MAX: u64 = 1 << 30;

/// Reads files of a log.
pub(super) struct LogStorage {
    files: Arc<LogFiles>,
    /// The file that was read last: a file of deletion vectors has those of many data files, and
    /// is read for each.
    last: Mutex<Option<(Url, Bytes)>>,
}

impl LogStorage {
    /// Reads these files.
    pub(super) fn new(files: Arc<LogFiles>) -> Self {
        Self { files, last: Mutex::default() }
    }

    fn read(&self, url: &Url, range: Option<Range<u64>>) -> KernelResult<Bytes> {
        if let Some((_, bytes)) = lock(&self.last).as_ref().filter(|(last, _)| last == url)
            && range.is_none()
        {
            return Ok(bytes.clone());
        }
        let (file, _) = self.files.present(url)?;
        let is_whole = range.is_none();
        let range = range.unwrap_or(0..file.bytes);
        let (start, end) = (range.start.min(file.bytes), range.end.min(file.bytes));
        let length = end.saturating_sub(start);
        if length > WHOLE_BYTES_MAX {
            let name = file.name();
            return Err(KernelError::generic(format!(
                "{name} has {length} bytes; a file of a log of more than {WHOLE_BYTES_MAX} bytes \
                 is not read whole"
            )));
        }
        let failed =
            |error: String| KernelError::generic(format!("cannot read {}: {error}", file.name()));
        let chunks = FileChunks::open(&file).map_err(|error| failed(error.to_string()))?;
        let bytes = chunks.get_bytes(start, to_usize(length));
        let bytes = bytes.map_err(|error| failed(error.to_string()))?;
        if is_whole {
            *lock(&self.last) = Some((url.clone(), bytes.clone()));
        }
        Ok(bytes)
    }
}

/// The error for an operation that changes files.
fn refused<T>(what: &str, path: &Url) -> KernelResult<T> {
    Err(KernelError::generic(format!("cannot {what} {path}: delta_scan reads tables alone")))
}

impl StorageHandler for LogStorage {
    fn list_from(&self, path: &Url) -> KernelResult<KernelResultIteratorStatic<FileMeta>> {
        Ok(Box::new(self.files.list(path)?.into_iter().map(Ok)))
    }

    /// Errors of a file are items: the kernel looks there for a file that may be missing.
    fn read_files(&self, files: Vec<FileSlice>) -> KernelResult<KernelResultIteratorStatic<Bytes>> {
        let read = files.into_iter().map(|(url, range)| self.read(&url, range));
        Ok(Box::new(read.collect::<Vec<_>>().into_iter()))
    }

    fn copy_atomic(&self, _: &Url, target: &Url) -> KernelResult<()> {
        refused("write", target)
    }

    fn put(&self, path: &Url, _: Bytes, _: bool) -> KernelResult<()> {
        refused("write", path)
    }

    fn head(&self, path: &Url) -> KernelResult<FileMeta> {
        let (file, modified) = self.files.present(path)?;
        Ok(FileMeta::new(path.clone(), modified, file.bytes))
    }

    fn delete(&self, path: &Url) -> KernelResult<()> {
        refused("remove", path)
    }
}
