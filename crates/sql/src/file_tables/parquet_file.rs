//! A Parquet file: its bytes, its footer, and its place in a store of DataFusion.

use std::fs::File;
use std::io::Read;

use bytes::Bytes;
use chrono::{DateTime, Utc};
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use datafusion::parquet::errors::{ParquetError, Result as ParquetResult};
use datafusion::parquet::file::reader::{ChunkReader, Length};
use object_store::ObjectMeta;
use object_store::path::Path as StorePath;
use terrace_cloud::CloudReader;
use terrace_sys::size::to_u64;

use super::found::{FoundFile, RemoteFile};

/// The bytes of a file, as readers of Parquet ask for them.
pub(super) enum FileChunks {
    /// A file of this machine.
    Local(File),
    /// A file of another machine.
    Remote(RemoteFile),
}

impl FileChunks {
    /// Opens a file.
    ///
    /// # Errors
    /// Errors of a file of this machine.
    pub(super) fn open(file: &FoundFile) -> std::io::Result<Self> {
        Ok(match &file.remote {
            Some(remote) => Self::Remote(remote.clone()),
            None => Self::Local(File::open(&file.path)?),
        })
    }
}

impl Length for FileChunks {
    fn len(&self) -> u64 {
        match self {
            Self::Local(file) => Length::len(file),
            Self::Remote(remote) => remote.file.bytes,
        }
    }
}

impl ChunkReader for FileChunks {
    type T = Box<dyn Read + Send>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        Ok(match self {
            Self::Local(file) => Box::new(file.get_read(start)?),
            Self::Remote(remote) => Box::new(CloudReader::new(&remote.files, &remote.file, start)),
        })
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        let remote = match self {
            Self::Local(file) => return file.get_bytes(start, length),
            Self::Remote(remote) => remote,
        };
        let end = start.saturating_add(to_u64(length));
        let read = remote.files.read(&remote.file, start..end);
        let bytes = read.map_err(|error| ParquetError::External(Box::new(error)))?;
        if bytes.len() != length {
            return Err(ParquetError::EOF(format!("{length} bytes at {start}, beyond the end")));
        }
        Ok(bytes)
    }
}

/// Reads the footer of a file.
///
/// # Errors
/// Errors of the file, such as another format.
pub(super) fn footer(file: &FoundFile) -> Result<ArrowReaderMetadata> {
    let failed = |error: String| exec_datafusion_err!("cannot read {}: {error}", file.name());
    let chunks = FileChunks::open(file).map_err(|error| failed(error.to_string()))?;
    let loaded = ArrowReaderMetadata::load(&chunks, ArrowReaderOptions::new());
    loaded.map_err(|error| failed(error.to_string()))
}

/// The file as an object of DataFusion's store of local files, or of the store of remote ones.
///
/// # Errors
/// A missing file of this machine, and a path that no store can have.
pub(super) fn object(file: &FoundFile) -> Result<ObjectMeta> {
    if let Some(remote) = &file.remote {
        return Ok(remote.file.object());
    }
    let failed = |error: String| exec_datafusion_err!("cannot read {}: {error}", file.name());
    let path = std::path::absolute(&file.path).map_err(|error| failed(error.to_string()))?;
    let location =
        StorePath::from_absolute_path(path).map_err(|error| failed(error.to_string()))?;
    let metadata = std::fs::metadata(&file.path).map_err(|error| failed(error.to_string()))?;
    let modified = metadata.modified();
    let last_modified: DateTime<Utc> = modified.map_or(DateTime::UNIX_EPOCH, DateTime::from);
    Ok(ObjectMeta { location, last_modified, size: file.bytes, e_tag: None, version: None })
}
