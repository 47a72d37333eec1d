//! Precedence of waiting writers over new readers, and its limits.
//!
//! A writer has precedence once it has waited for [`PRECEDENCE_AFTER`]; with precedence from the
//! start, a latch with many writers would keep its readers asleep half of the time. A reader yields
//! to the writer for [`YIELD_MAX`], which is longer than usual holds, and then acquires its hold
//! ahead of the writer, which may be waiting for another hold of the reader's thread.
//!
//! A thread that has yielded in vain, that is, while the writer still waits, yields only in the
//! first half of every [`PERIOD`] from then on, until it yields and the writer has acquired the
//! latch. So a thread that holds a page and fixes it repeatedly spends at most half of its time
//! waiting for writers. The periods are the same for all threads: holds shorter than half a period
//! end in the same halves, in which no thread begins a new hold.

#[cfg(not(loom))]
pub(crate) use clock::Yield;
#[cfg(loom)]
pub(crate) use model::Yield;

use std::time::Duration;

/// Wait of a writer before it has precedence over new readers. Zero under loom, which has no clock.
pub(crate) const PRECEDENCE_AFTER: Duration =
    if cfg!(loom) { Duration::ZERO } else { Duration::from_micros(100) };

/// Maximum time that a reader yields: a time slice of the scheduler, since the thread that holds
/// the latch may be preempted.
#[cfg(not(loom))]
const YIELD_MAX: Duration = Duration::from_millis(4);
/// Period of the threads that have yielded in vain; all of them yield in the first half of each.
#[cfg(not(loom))]
const PERIOD: Duration = Duration::from_millis(32);

#[cfg(not(loom))]
mod clock {
    use std::cell::Cell;
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    use super::{PERIOD, YIELD_MAX};
    use crate::park::{Look, ParkingLot};

    /// Start of the first period, common to all threads.
    static ORIGIN: LazyLock<Instant> = LazyLock::new(Instant::now);

    thread_local!(static YIELDED_IN_VAIN: Cell<bool> = const { Cell::new(false) });

    /// Returns the rest of the first half of the current period, in which threads that have yielded
    /// in vain yield; `None` in the second half.
    fn left_of_half(now: Instant) -> Option<Duration> {
        let past = now.saturating_duration_since(*ORIGIN).as_nanos() % PERIOD.as_nanos();
        let left = (PERIOD / 2).as_nanos().checked_sub(past).filter(|left| *left > 0)?;
        u64::try_from(left).ok().map(Duration::from_nanos)
    }

    /// Wait of one reader for writers with precedence.
    pub(crate) struct Yield {
        deadline: Option<Instant>,
        /// End of the wait, once it has begun.
        end: Option<Instant>,
    }

    impl Yield {
        /// Creates a wait that has not begun. It ends at `deadline` at the latest.
        pub(crate) fn new(_lot: &ParkingLot, deadline: Option<Instant>) -> Self {
            Self { deadline, end: None }
        }

        /// True if the reader may acquire its hold ahead of a writer.
        pub(crate) fn is_over(&self) -> bool {
            let now = Instant::now();
            let is_over = match self.end {
                Some(end) => now >= end,
                None => YIELDED_IN_VAIN.get() && left_of_half(now).is_none(),
            };
            is_over || self.deadline.is_some_and(|end| now >= end)
        }

        /// Begins the wait if it has not begun. Returns that the thread sleeps until its end.
        pub(crate) fn sleep<T>(&mut self) -> Look<T> {
            Look::SleepUntil(*self.end.get_or_insert_with(|| {
                let now = Instant::now();
                let left = left_of_half(now).filter(|_| YIELDED_IN_VAIN.get());
                now + left.unwrap_or(YIELD_MAX)
            }))
        }

        /// Ends the wait after the hold was acquired. Remembers for the thread if it yielded in
        /// vain, that is, if the writer still waits.
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

    /// Wait of one reader for writers with precedence. Without a clock it is either unlimited or
    /// over at once; loom explores both.
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
