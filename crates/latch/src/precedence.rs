//! Precedence of waiting writers over new readers, and its limits.
//!
//! A writer has precedence once it has waited for [`PRECEDENCE_AFTER`]: a latch that many write to
//! would otherwise keep its readers asleep half of the time. A reader yields to it for
//! [`YIELD_MAX`], which is longer than holds are, and then takes its hold past the writer, which
//! may be waiting for another hold of the same thread.
//!
//! A thread that has yielded in vain yields only in the first half of every [`PERIOD`] from then
//! on, until a writer got in. So a thread that holds a page and fixes it again and again spends at
//! most half of its time on writers. The periods are the same for all threads: their holds, if they
//! are shorter than half a period, end in the same halves, which no thread begins a new one in.

#[cfg(not(loom))]
pub(crate) use clock::Yield;
#[cfg(loom)]
pub(crate) use model::Yield;

use std::time::Duration;

/// What a writer waits for before new readers wait for it. At once under loom, which has no clock.
pub(crate) const PRECEDENCE_AFTER: Duration =
    if cfg!(loom) { Duration::ZERO } else { Duration::from_micros(100) };

/// How long a reader yields: a time slice of the scheduler, since the thread that holds the latch
/// may have lost its processor.
#[cfg(not(loom))]
const YIELD_MAX: Duration = Duration::from_millis(4);
/// How often all threads yield at once that have yielded in vain, each time for half of it.
#[cfg(not(loom))]
const PERIOD: Duration = Duration::from_millis(32);

#[cfg(not(loom))]
mod clock {
    use std::cell::Cell;
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    use super::{PERIOD, YIELD_MAX};
    use crate::park::{Look, ParkingLot};

    /// Where the periods of all threads begin.
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

    thread_local!(static YIELDED_IN_VAIN: Cell<bool> = const { Cell::new(false) });

    /// What is left of the half of a period in which threads yield that have yielded in vain.
    fn left_of_half(now: Instant) -> Option<Duration> {
        let past = now.saturating_duration_since(*ORIGIN).as_nanos() % PERIOD.as_nanos();
        let left = (PERIOD / 2).as_nanos().checked_sub(past).filter(|left| *left > 0)?;
        u64::try_from(left).ok().map(Duration::from_nanos)
    }

    /// One reader's wait for writers that go first.
    pub(crate) struct Yield {
        deadline: Option<Instant>,
        /// When it ends, once it has begun.
        end: Option<Instant>,
    }

    impl Yield {
        /// A wait that has not begun. It ends at `deadline` at the latest.
        pub(crate) fn new(_lot: &ParkingLot, deadline: Option<Instant>) -> Self {
            Self { deadline, end: None }
        }

        /// Whether the reader may take its hold past a writer.
        pub(crate) fn is_over(&self) -> bool {
            let now = Instant::now();
            let is_over = match self.end {
                Some(end) => now >= end,
                None => YIELDED_IN_VAIN.get() && left_of_half(now).is_none(),
            };
            is_over || self.deadline.is_some_and(|end| now >= end)
        }

        /// Sleeps until it is over.
        pub(crate) fn sleep<T>(&mut self) -> Look<T> {
            Look::SleepUntil(*self.end.get_or_insert_with(|| {
                let now = Instant::now();
                let left = left_of_half(now).filter(|_| YIELDED_IN_VAIN.get());
                now + left.unwrap_or(YIELD_MAX)
            }))
        }

        /// Notes that the hold was taken: past a writer that still waits, or after it.
        pub(crate) fn end(&self, in_vain: bool) {
            if self.end.is_some() {
                YIELDED_IN_VAIN.set(in_vain);
            }
        }
    }
}

#[cfg(loom)]
mod model {
    use std::time::Instant;

    use crate::park::{Look, ParkingLot};

    /// One reader's wait for writers that go first: without an end, or over before it has begun.
    pub(crate) struct Yield {
        is_over: bool,
    }

    impl Yield {
        pub(crate) fn new(lot: &ParkingLot, _deadline: Option<Instant>) -> Self {
            Self { is_over: lot.readers_pass() }
        }

        pub(crate) fn is_over(&self) -> bool {
            self.is_over
        }

        pub(crate) fn sleep<T>(&mut self) -> Look<T> {
            Look::Sleep
        }

        pub(crate) fn end(&self, _in_vain: bool) {}
    }
}
