//! Detects sequential access from the fault stream and picks the blocks to read ahead.
//!
//! ```text
//!     touched        previous window         last window         not requested
//!  |............|=======================|====================|.............
//!               ^                       ^                    ^
//!               start - window          start                end
//! ```
//!
//! A touch inside of the last window requests the next one, so that the device reads it while the
//! reader works on the last.

use std::ops::Range;

/// Number of streams that are followed at a time, and of candidates for one. A new one replaces the
/// least recently touched.
const STREAMS: usize = 8;
/// Touches in sequence that turn a candidate into a stream.
const TOUCHES: u32 = 3;
/// Maximum distance in blocks between the touches of a candidate.
const STEP_MAX: usize = 2;
/// Blocks of the first window; each later window is twice as large, up to the limit of the region.
const WINDOW_FIRST: usize = 2;

/// Candidate for a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Begun {
    last: usize,
    /// Touches in sequence; 0 in an empty slot.
    touches: u32,
    used: u64,
}

/// Sequential stream that is read ahead.
#[derive(Clone, Copy, Debug, Default)]
struct Stream {
    /// First block of the last window, and the block after its end.
    start: usize,
    end: usize,
    /// Blocks of the last window; 0 in an empty slot.
    window: usize,
    used: u64,
}

impl Stream {
    /// True if a touch of `block` belongs to this stream.
    fn is_near(&self, block: usize) -> bool {
        let window = self.window;
        window > 0 && block + window >= self.start && block < self.end + window
    }

    /// Opens the next window at `first`, of twice as many blocks as the last and at most `most`.
    fn ask(&mut self, first: usize, most: usize) -> Range<usize> {
        self.window = (2 * self.window).max(WINDOW_FIRST).min(most);
        (self.start, self.end) = (first, first + self.window);
        self.start..self.end
    }
}

/// Sequential streams that a pager follows.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    streams: [Stream; STREAMS],
    begun: [Begun; STREAMS],
    clock: u64,
}

impl Streams {
    /// Records a touch of a block. Returns the blocks to read ahead, at most `most`, which is not
    /// zero.
    pub(crate) fn touch(&mut self, block: usize, most: usize) -> Option<Range<usize>> {
        self.clock += 1;
        let near = self.streams.iter_mut().filter(|stream| stream.is_near(block));
        if let Some(stream) = near.max_by_key(|stream| stream.used) {
            stream.used = self.clock;
            let first = stream.end.max(block + 1);
            return (block >= stream.start).then(|| stream.ask(first, most));
        }
        if !self.makes_order(block) {
            return None;
        }
        let mut stream = Stream { used: self.clock, ..Stream::default() };
        let requested = stream.ask(block + 1, most);
        *self.oldest() = stream;
        Some(requested)
    }

    /// Records a touch in the candidates; true if the touch turns one of them into a stream.
    fn makes_order(&mut self, block: usize) -> bool {
        let used = self.clock;
        let is_next = |begun: &&mut Begun| {
            begun.touches > 0 && (begun.last + 1..=begun.last + STEP_MAX).contains(&block)
        };
        if let Some(begun) = self.begun.iter_mut().find(is_next) {
            *begun = Begun { last: block, touches: begun.touches + 1, used };
            let is_order = begun.touches == TOUCHES;
            if is_order {
                *begun = Begun::default();
            }
            return is_order;
        }
        if let Some(oldest) = self.begun.iter_mut().min_by_key(|begun| begun.used) {
            *oldest = Begun { last: block, touches: 1, used };
        }
        false
    }

    /// Takes over a stream from another pager, with `requested` as its last window.
    pub(crate) fn adopt(&mut self, requested: &Range<usize>) {
        self.clock += 1;
        let (start, end, used) = (requested.start, requested.end, self.clock);
        *self.oldest() = Stream { start, end, window: requested.len(), used };
    }

    /// Drops the stream whose last window begins at `start`; another pager takes it over.
    pub(crate) fn leave(&mut self, start: usize) {
        let left = self.streams.iter_mut().filter(|stream| stream.start == start);
        left.for_each(|stream| *stream = Stream::default());
    }

    /// True if a block is in the last window of a stream, whose reader has yet to touch it.
    pub(crate) fn awaits(&self, block: usize) -> bool {
        self.streams.iter().any(|stream| (stream.start..stream.end).contains(&block))
    }

    fn oldest(&mut self) -> &mut Stream {
        let numbers = 0..self.streams.len();
        let oldest = numbers.min_by_key(|number| self.streams[*number].used);
        &mut self.streams[oldest.unwrap_or(0)]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn windows_grow_while_an_order_goes_on() {
        let mut streams = Streams::default();
        assert_eq!([10, 11].map(|block| streams.touch(block, 8)), [None, None]);
        assert_eq!(streams.touch(12, 8), Some(13..15));
        assert!(streams.awaits(13) && streams.awaits(14) && !streams.awaits(15));
        assert_eq!(streams.touch(13, 8), Some(15..19));
        assert_eq!(streams.touch(14, 8), None, "of the window before");
        assert_eq!(streams.touch(15, 8), Some(19..27));
        assert_eq!(streams.touch(20, 8), Some(27..35), "from the middle of a window on, too");
        assert_eq!(streams.touch(37, 8), Some(38..46), "blocks that were in place told nothing");
        assert_eq!(streams.touch(38, 1), Some(46..47), "no more than is allowed now");
    }

    #[test]
    fn each_of_many_readers_has_its_window() {
        let mut streams = Streams::default();
        for readers in 1..=STREAMS {
            let requested = (0..40 * readers).filter_map(|touch| {
                let (reader, block) = (touch % readers, touch / readers);
                streams.touch(100_000 * readers + 1000 * reader + block, 4)
            });
            let blocks: usize = requested.map(|requested| requested.len()).sum();
            assert!(blocks >= 36 * readers, "{readers} readers: {blocks} blocks ahead");
        }
    }

    #[test]
    fn an_order_is_followed_beside_touches_in_no_order() {
        let mut streams = Streams::default();
        let (mut next, mut requested) = (3_000_000, 0);
        for touch in 0..2000 {
            assert_eq!(streams.touch(touch * 7919 % 1_000_003, 8), None);
            let is_order = requested > 0;
            if touch % if is_order { 100 } else { 2 } == 0 {
                requested += streams.touch(next, 8).map_or(0, |requested| requested.len());
                next += 1;
            }
        }
        assert!(requested > 20, "{requested}");
    }

    #[test]
    fn an_order_moves_to_another_pager() {
        let (mut one, mut other) = (Streams::default(), Streams::default());
        let requested = (0..9).filter_map(|block| one.touch(block, 4)).last();
        let requested = requested.expect("an order");
        one.leave(requested.start);
        assert!(!one.awaits(requested.start));
        other.adopt(&requested);
        assert_eq!(other.touch(requested.start, 4), Some(requested.end..requested.end + 4));
    }
}
