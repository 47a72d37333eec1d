//! Limits that several parts of a pager share.

use std::time::Duration;

/// Least and greatest number of frames kept aside or in write-back.
pub(super) const ASIDE: (usize, usize) = (1, 64);
/// Frames that a pager never gives back.
pub(super) const FRAMES_MIN: usize = 2;
/// Maximum time spent on other work before pending faults are handled again.
pub(super) const AT_ONCE: Duration = Duration::from_micros(500);
/// Interval at which a pager checks again for blocks or frames that it waits for.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(5);
