//! Reader of a log: its head, its batches, and a search for heads of batches at any offset.

use std::cell::RefCell;
use std::io;
use std::path::{Path, PathBuf};

use terrace_sys::size::{to_u64, to_usize};

use crate::durable::blocks::{BlockError, BlockPosition, HEAD_BYTES, Head, VERSION};
use crate::durable::files::{Files, StoredFile, Stream};
use crate::durable::log::{self, BATCH_HEAD_BYTES, BatchHead};
use crate::error::ObjectError;

/// Bytes of the log that are read at a time.
const WINDOW: usize = 1 << 20;

/// A log being read.
pub(super) struct LogReader {
    file: Box<dyn StoredFile>,
    pub(super) path: PathBuf,
    pub(super) len: u64,
    /// Offset and bytes of the part of the file that was read last.
    window: RefCell<(u64, Vec<u8>)>,
}

impl LogReader {
    pub(super) fn open(files: &dyn Files, path: &Path) -> io::Result<Self> {
        let file = files.open(path)?;
        let len = file.len()?;
        Ok(Self { file, path: path.to_owned(), len, window: RefCell::default() })
    }

    fn failed(&self, source: io::Error) -> ObjectError {
        ObjectError::file("read", &self.path, source)
    }

    pub(super) fn head(&self, files: &dyn Files) -> Result<Head, ObjectError> {
        let file = files.open(&self.path).map_err(|source| self.failed(source))?;
        Head::read(&mut Stream::new(file), log::MAGIC).map_err(|error| match error {
            BlockError::Io(source) => self.failed(source),
            BlockError::Damaged(reason) => ObjectError::damaged(&self.path, 0, &reason),
            BlockError::Version(has) => self.version(has),
        })
    }

    pub(super) fn version(&self, has: u32) -> ObjectError {
        ObjectError::Version { path: self.path.display().to_string(), has, reads: VERSION }
    }

    /// Bytes behind the head of the file.
    pub(super) fn content_bytes(&self) -> u64 {
        self.len.saturating_sub(to_u64(HEAD_BYTES))
    }

    /// Syncs the file: its contents may have been read from the page cache and not be on the device
    /// yet.
    pub(super) fn sync(&self) -> Result<(), ObjectError> {
        self.file.sync().map_err(|source| ObjectError::file("sync", &self.path, source))
    }

    /// Returns the batch at a position, and its changes; `None` if there is none or it is
    /// incomplete.
    pub(super) fn batch(
        &self,
        place: BlockPosition,
    ) -> Result<Option<(BatchHead, Vec<u8>)>, ObjectError> {
        let begin = place.offset + to_u64(BATCH_HEAD_BYTES);
        let head = self.head_at(place)?.filter(|head| head.len <= self.len - begin);
        let Some(head) = head else { return Ok(None) };
        let mut changes = Vec::new();
        let room = changes.try_reserve_exact(to_usize(head.len)).map_err(io::Error::other);
        room.map_err(|source| self.failed(source))?;
        changes.resize(to_usize(head.len), 0);
        self.read(&mut changes, begin).map_err(|source| self.failed(source))?;
        Ok(head.is_of(place, &changes).then_some((head, changes)))
    }

    /// Returns the head of a batch at a position, even if its changes are incomplete.
    pub(super) fn head_at(&self, place: BlockPosition) -> Result<Option<BatchHead>, ObjectError> {
        let end = place.offset.checked_add(to_u64(BATCH_HEAD_BYTES));
        if end.is_none_or(|end| end > self.len) {
            return Ok(None);
        }
        let mut head = [0; BATCH_HEAD_BYTES];
        self.read(&mut head, place.offset).map_err(|source| self.failed(source))?;
        Ok(BatchHead::from_bytes(&head, place))
    }

    /// Reads bytes at an offset, mostly from the window that was read before.
    fn read(&self, to: &mut [u8], at: u64) -> io::Result<()> {
        if to.len() > WINDOW {
            return read_all(&*self.file, to, at);
        }
        let mut window = self.window.borrow_mut();
        let (start, bytes) = &mut *window;
        let inside = at.checked_sub(*start).map(to_usize);
        let found = inside.and_then(|offset| bytes.get(offset..)?.get(..to.len()));
        if let Some(found) = found {
            to.copy_from_slice(found);
            return Ok(());
        }
        let most = usize::try_from(self.len - at).unwrap_or(usize::MAX).min(WINDOW);
        bytes.resize(most, 0);
        *start = at;
        read_all(&*self.file, bytes, at)?;
        let short = || io::Error::from(io::ErrorKind::UnexpectedEof);
        to.copy_from_slice(bytes.get(..to.len()).ok_or_else(short)?);
        Ok(())
    }

    /// Calls `each` with all heads of batches from a position on, in one pass over the file,
    /// whatever its bytes are: no changes are read, and each candidate is checked once.
    pub(super) fn heads(
        &self,
        from: BlockPosition,
        mut each: impl FnMut(BatchHead),
    ) -> Result<(), ObjectError> {
        let overlap = BATCH_HEAD_BYTES - 1;
        let (salt, mut window) = (from.salt.to_le_bytes(), vec![0; WINDOW + overlap]);
        for start in (from.offset..self.len).step_by(WINDOW) {
            let most = usize::try_from(self.len - start).unwrap_or(usize::MAX);
            let window = &mut window[..most.min(WINDOW + overlap)];
            read_all(&*self.file, window, start).map_err(|source| self.failed(source))?;
            for (offset, bytes) in window.windows(BATCH_HEAD_BYTES).enumerate() {
                if bytes[..8] != salt {
                    continue;
                }
                let mut head = [0; BATCH_HEAD_BYTES];
                head.copy_from_slice(bytes);
                let place = BlockPosition { offset: start + to_u64(offset), ..from };
                BatchHead::from_bytes(&head, place).into_iter().for_each(&mut each);
            }
        }
        Ok(())
    }
}

fn read_all(file: &dyn StoredFile, to: &mut [u8], at: u64) -> io::Result<()> {
    let mut done = 0;
    while done < to.len() {
        match file.read_at(&mut to[done..], at + to_u64(done))? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            some => done += some,
        }
    }
    Ok(())
}
