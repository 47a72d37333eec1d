//! Sequential reader of a remote file, as a stream of bytes.

use std::fmt;
use std::io::{self, Read};
use std::sync::mpsc::Receiver;

use bytes::Bytes;

use crate::clients::blocking;
use crate::error::CloudError;
use crate::file::CloudFile;
use crate::files::CloudFiles;

/// Readahead: bytes that are fetched at a time, while earlier ones are read.
const AHEAD_BYTES: u64 = 2 << 20;

type Fetched = Receiver<Result<Bytes, CloudError>>;

/// Sequential reader of a remote file, which fetches the next 2 MiB ahead.
pub struct CloudReader {
    files: CloudFiles,
    file: CloudFile,
    /// Fetched bytes that are not read yet.
    bytes: Bytes,
    /// The part after `bytes`, being fetched, and the offset of the file after it.
    ahead: Option<Fetched>,
    next: u64,
}

impl CloudReader {
    /// Opens a file at offset `start`.
    #[must_use]
    pub fn new(files: &CloudFiles, file: &CloudFile, start: u64) -> Self {
        let (files, file) = (files.clone(), file.clone());
        Self { files, file, bytes: Bytes::new(), ahead: None, next: start }
    }

    /// Starts to fetch the next part; nothing at the end of the file.
    fn start(&mut self) -> Result<(), CloudError> {
        let end = (self.next + AHEAD_BYTES).min(self.file.bytes);
        if self.next < end {
            self.ahead = Some(self.files.start(&self.file, self.next..end)?);
            self.next = end;
        }
        Ok(())
    }

    /// Waits for the next part. Returns false at the end of the file.
    fn advance(&mut self) -> Result<bool, CloudError> {
        if self.ahead.is_none() {
            self.start()?;
        }
        let Some(ahead) = self.ahead.take() else { return Ok(false) };
        let received = blocking(|| ahead.recv());
        let ended = |_| CloudError::Runtime("a read ended without its bytes".to_owned());
        self.bytes = received.map_err(ended)??;
        self.start()?;
        Ok(true)
    }
}

impl Read for CloudReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        while self.bytes.is_empty() {
            if !self.advance().map_err(io::Error::other)? {
                return Ok(0);
            }
        }
        let count = buffer.len().min(self.bytes.len());
        buffer[..count].copy_from_slice(&self.bytes.split_to(count));
        Ok(count)
    }
}

impl fmt::Debug for CloudReader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = &self.file.address.text;
        f.debug_struct("CloudReader").field("address", address).finish_non_exhaustive()
    }
}
