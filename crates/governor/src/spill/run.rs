//! Runs: the pages and messages of one spill file.
//!
//! Messages of up to 128 KiB share pages, which grow from 16 KiB to 256 KiB so that a small file
//! stays small. A larger message has a page of its own, shared with any message that fits after it.
//! A message above 16 MiB, the maximum page size, continues on further pages and is joined by a
//! copy when it is read; a batch of 8,192 rows is rarely that large.
//!
//! A page is fixed while bytes are copied into it and not between two writes, so that the pool may
//! evict any part of the run at any time.
//!
//! A file may be read while it is written. A reader pins pages for as long as its batches live, and
//! a writer that waited for them could wait forever; so once there is a reader, every message
//! begins a page of its own, and a page that is being filled at that moment is not returned to the
//! reader.

use std::sync::{Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

use terrace_pool::{PageRef, PoolError, Space};
use terrace_sys::size::{PAGE_BYTES, to_u64};
use terrace_sys::sync::lock;

/// Maximum size of a page of the pool.
const PAGE_BYTES_MAX: usize = 16 << 20;
/// Maximum size of a message that shares a page.
const SHARED_MESSAGE_BYTES: usize = 128 << 10;
/// Initial and maximum size of shared pages.
const SHARED_PAGE_BYTES: (usize, usize) = (16 << 10, 256 << 10);
/// Alignment of messages in their page, as Arrow's buffers need it.
const ALIGNMENT: usize = 64;

/// Location of a message: `len_bytes` from `offset` of page `page` on, continued at the start of
/// the following pages.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Message {
    pub(super) page: usize,
    pub(super) offset: usize,
    pub(super) len_bytes: usize,
}

/// One page of a run.
#[derive(Copy, Clone, Debug)]
struct RunPage {
    page: PageRef,
    len_bytes: usize,
    used_bytes: usize,
    /// True if its reader has consumed it and no other reader can need it.
    freed: bool,
}

#[derive(Debug, Default)]
struct Contents {
    pages: Vec<RunPage>,
    messages: Vec<Message>,
    len_bytes: u64,
    closed: bool,
    /// True once there is a reader: pages with complete messages may be pinned and are not written
    /// any more.
    read: bool,
    /// Index of the page that the writer is filling.
    filling: Option<usize>,
    waiting: Vec<Waker>,
}

/// Contents of a spill file, shared by its writer and its readers.
#[derive(Debug)]
pub(super) struct Run {
    space: Space,
    contents: Mutex<Contents>,
}

impl Run {
    pub(super) fn new(space: Space) -> Self {
        Self { space, contents: Mutex::default() }
    }

    pub(super) fn space(&self) -> &Space {
        &self.space
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        lock(&self.contents)
    }

    /// Returns the bytes of all complete messages.
    pub(super) fn len_bytes(&self) -> u64 {
        self.contents().len_bytes
    }

    /// Allocates room for a message of `len_bytes`. Called only by the single writer.
    pub(super) fn place(&self, len_bytes: usize) -> Result<Message, PoolError> {
        let (first, before, read) = {
            let mut contents = self.contents();
            if let Some(message) = contents.extend_last(len_bytes) {
                return Ok(message);
            }
            let before = contents.pages.last().map_or(0, |last| last.len_bytes);
            (contents.pages.len(), before, contents.read)
        };
        let mut left = len_bytes;
        while left > 0 {
            let part = left.min(PAGE_BYTES_MAX);
            let page_bytes = match read {
                true => part.next_multiple_of(PAGE_BYTES),
                false => page_bytes_for(part, before),
            };
            self.append_page(page_bytes, part)?;
            left -= part;
        }
        self.contents().filling = Some(first);
        Ok(Message { page: first, offset: 0, len_bytes })
    }

    /// Registers a reader: from now on every message begins a page of its own.
    pub(super) fn begin_reading(&self) {
        self.contents().read = true;
    }

    fn append_page(&self, len_bytes: usize, used_bytes: usize) -> Result<(), PoolError> {
        let (page, guard) = self.space.allocate(len_bytes)?;
        drop(guard);
        self.contents().pages.push(RunPage { page, len_bytes, used_bytes, freed: false });
        Ok(())
    }

    /// Copies bytes of a placed message, from `at` on, into its pages.
    pub(super) fn fill(&self, message: Message, at: usize, bytes: &[u8]) -> Result<(), PoolError> {
        let (mut at, mut bytes) = (message.offset + at, bytes);
        let mut index = message.page;
        while !bytes.is_empty() {
            let RunPage { mut page, used_bytes, .. } = self.contents().pages[index];
            if at < used_bytes {
                let part = bytes.len().min(used_bytes - at);
                self.space.write(&mut page)?[at..at + part].copy_from_slice(&bytes[..part]);
                self.contents().pages[index].page = page;
                bytes = &bytes[part..];
                at += part;
            }
            at -= used_bytes.min(at);
            index += 1;
        }
        Ok(())
    }

    /// Publishes a completely written message to the readers.
    pub(super) fn publish(&self, message: Message) {
        let mut contents = self.contents();
        contents.messages.push(message);
        contents.filling = None;
        contents.len_bytes += to_u64(message.len_bytes);
        contents.wake();
    }

    /// Marks the run as complete.
    pub(super) fn close(&self) {
        let mut contents = self.contents();
        contents.closed = true;
        contents.filling = None;
        contents.wake();
    }

    /// Polls for the message with this index; `None` if the run ends before it.
    pub(super) fn poll_message(&self, number: usize, cx: &Context<'_>) -> Poll<Option<Message>> {
        let mut contents = self.contents();
        let message = contents.messages.get(number).copied();
        let ready = message.is_some_and(|message| contents.filling != Some(message.page));
        if ready || contents.closed {
            return Poll::Ready(message);
        }
        contents.waiting.retain(|waker| !waker.will_wake(cx.waker()));
        contents.waiting.push(cx.waker().clone());
        Poll::Pending
    }

    /// Returns the pages of a message, and the page after them for read-ahead. `None` if a page of
    /// the message has been freed.
    pub(super) fn pages(&self, message: Message) -> Option<(Vec<PageRef>, Option<PageRef>)> {
        let contents = self.contents();
        let mut left = message.len_bytes + message.offset;
        let mut pages = Vec::with_capacity(1);
        let mut rest = contents.pages[message.page..].iter();
        while left > 0 {
            let page = rest.next().filter(|page| !page.freed)?;
            pages.push(page.page);
            left -= left.min(page.used_bytes);
        }
        Some((pages, rest.next().map(|page| page.page)))
    }

    /// Frees the pages before `page`, which will not be read again.
    pub(super) fn free_before(&self, page: usize) {
        let dead: Vec<PageRef> = {
            let mut contents = self.contents();
            let end = page.min(contents.pages.len());
            let live = contents.pages[..end].iter_mut().rev().take_while(|page| !page.freed);
            live.map(|page| {
                page.freed = true;
                page.page
            })
            .collect()
        };
        for page in dead {
            let freed = self.space.free(page);
            debug_assert!(freed.is_ok(), "a page of this space: {freed:?}");
        }
    }

    /// Returns the number of pages so far.
    pub(super) fn page_count(&self) -> usize {
        self.contents().pages.len()
    }

    /// Returns true if the run is complete and has no message after the first `number`.
    pub(super) fn ends_at(&self, number: usize) -> bool {
        let contents = self.contents();
        contents.closed && contents.messages.len() <= number
    }
}

impl Contents {
    /// Places a message after the last one if it fits there and there is no reader.
    fn extend_last(&mut self, len_bytes: usize) -> Option<Message> {
        let page = self.pages.len().checked_sub(1)?;
        let last = self.pages.last_mut().filter(|_| !self.read)?;
        let offset = last.used_bytes.next_multiple_of(ALIGNMENT);
        if offset + len_bytes > last.len_bytes {
            return None;
        }
        last.used_bytes = offset + len_bytes;
        self.filling = Some(page);
        Some(Message { page, offset, len_bytes })
    }

    fn wake(&mut self) {
        self.waiting.drain(..).for_each(Waker::wake);
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        self.free_before(usize::MAX);
    }
}

/// Returns the size of a new page for a part of a message, after a page of `before` bytes.
fn page_bytes_for(part: usize, before: usize) -> usize {
    if part > SHARED_MESSAGE_BYTES {
        return part.next_multiple_of(PAGE_BYTES);
    }
    let (first, last) = SHARED_PAGE_BYTES;
    (2 * before).clamp(first, last).max(part.next_power_of_two())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_grow_with_the_file_and_fit_large_messages() {
        assert_eq!(page_bytes_for(500, 0), 16 << 10);
        assert_eq!(page_bytes_for(500, 16 << 10), 32 << 10);
        assert_eq!(page_bytes_for(500, 8 << 20), 256 << 10);
        assert_eq!(page_bytes_for(100 << 10, 0), 128 << 10);
        assert_eq!(page_bytes_for((128 << 10) + 1, 0), (128 << 10) + 4096);
        assert_eq!(page_bytes_for(PAGE_BYTES_MAX, 0), PAGE_BYTES_MAX);
    }
}
