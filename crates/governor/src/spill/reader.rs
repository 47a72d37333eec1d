//! Reader of a spill file, one `Bytes` per message.

use std::ops::Range;
use std::pin::Pin;
use std::sync::{Arc, Weak};
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use datafusion::arrow::buffer::{Buffer, MutableBuffer};
use datafusion::common::{Result, internal_datafusion_err};
use datafusion::execution::SpillFile;
use futures::{FutureExt, Stream};
use terrace_pool::{Fetch, Pinned};
use terrace_sys::size::to_u64;

use super::run::{Message, Run};
use crate::error::pool_error;
use crate::pins::{CountedPin, PagePins};

/// A stream of the messages of a run. At its end it waits for a writer that is still active.
pub(super) struct RunReader {
    run: Arc<Run>,
    owners: Owners,
    pins: Arc<PagePins>,
    next: usize,
    state: State,
}

enum State {
    /// Nothing is pinned or requested.
    Idle,
    /// The pages of this message are being fetched.
    Fetching(Message, Fetch),
    /// The page with this index is pinned and may hold the next message too.
    Pinned(usize, Pinned),
}

/// Count of the references to a spill file, by which a reader detects that no other can follow.
///
/// DataFusion's reader holds the file for as long as it reads. If that reference is the only one,
/// consumed data is dead and its pages can be freed at once instead of being evicted later.
pub(super) struct Owners(pub(super) Weak<dyn SpillFile>);

impl Owners {
    fn only_the_reader(&self) -> bool {
        self.0.strong_count() <= 1
    }
}

impl RunReader {
    pub(super) fn new(run: Arc<Run>, owners: Owners, pins: Arc<PagePins>) -> Self {
        run.begin_reading();
        Self { run, owners, pins, next: 0, state: State::Idle }
    }

    /// Fetches the pages of `message`, and prefetches the page after them.
    fn fetch(&self, message: Message) -> Result<Fetch> {
        let Some((pages, ahead)) = self.run.pages(message) else {
            return Err(internal_datafusion_err!(
                "a spill file was read again after its only reader had consumed it"
            ));
        };
        let fetch = self.run.space().fetch(&pages);
        if let Some(ahead) = ahead {
            self.run.space().prefetch(&[ahead]);
        }
        Ok(fetch)
    }

    /// Returns the bytes of `message` and keeps its last page pinned for the messages that follow.
    fn deliver(&mut self, message: Message, mut pinned: Vec<Pinned>) -> Bytes {
        self.next += 1;
        let last_page = message.page + pinned.len().saturating_sub(1);
        let bytes = match pinned.as_slice() {
            [page] => match self.pins.reserve(to_u64(page.len())) {
                Some(mut room) => slice(room.pin(page.clone()), message),
                None => join(&pinned, message),
            },
            pages => join(pages, message),
        };
        if let Some(last) = pinned.pop() {
            self.state = State::Pinned(last_page, last);
        }
        self.let_go(last_page);
        bytes
    }

    /// Unpins consumed pages and, if no other reader can need them, frees them.
    fn let_go(&mut self, page: usize) {
        let at_end = self.run.ends_at(self.next);
        if at_end {
            self.state = State::Idle;
        }
        if self.owners.only_the_reader() {
            self.run.free_before(if at_end { self.run.page_count() } else { page });
        }
    }
}

impl Stream for RunReader {
    type Item = Result<Bytes>;

    fn poll_next(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        loop {
            match &mut this.state {
                State::Fetching(message, fetch) => {
                    let message = *message;
                    let pinned = ready!(fetch.poll_unpin(cx));
                    this.state = State::Idle;
                    let pinned = pinned.map_err(pool_error)?;
                    return Poll::Ready(Some(Ok(this.deliver(message, pinned))));
                }
                State::Idle | State::Pinned(..) => {
                    let Some(message) = ready!(this.run.poll_message(this.next, cx)) else {
                        this.state = State::Idle;
                        return Poll::Ready(None);
                    };
                    match std::mem::replace(&mut this.state, State::Idle) {
                        State::Pinned(page, pinned) if page == message.page => {
                            return Poll::Ready(Some(Ok(this.deliver(message, vec![pinned]))));
                        }
                        _ => this.state = State::Fetching(message, this.fetch(message)?),
                    }
                }
            }
        }
    }
}

/// Returns a message inside one page, as bytes that keep the page pinned.
fn slice(page: CountedPin, message: Message) -> Bytes {
    let range = message.offset..message.offset + message.len_bytes;
    Bytes::from_owner(Slice { page, range })
}

struct Slice {
    page: CountedPin,
    range: Range<usize>,
}

impl AsRef<[u8]> for Slice {
    fn as_ref(&self) -> &[u8] {
        &self.page.as_ref()[self.range.clone()]
    }
}

/// Copies a message, aligned for Arrow, and joins its parts if it continues over pages.
fn join(pages: &[Pinned], message: Message) -> Bytes {
    let mut joined = MutableBuffer::new(message.len_bytes);
    for (number, page) in pages.iter().enumerate() {
        let from = if number == 0 { message.offset } else { 0 };
        let part = (message.len_bytes - joined.len()).min(page.len() - from);
        joined.extend_from_slice(&page[from..from + part]);
    }
    Bytes::from_owner(Joined(joined.into()))
}

struct Joined(Buffer);

impl AsRef<[u8]> for Joined {
    fn as_ref(&self) -> &[u8] {
        &self.0
    }
}
