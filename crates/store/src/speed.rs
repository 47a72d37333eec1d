//! Throughput of a device, estimated from its batches.

use std::sync::{Mutex, MutexGuard};
use std::time::{Duration, Instant};

use terrace_sys::sync::lock;

/// Bytes of one measurement window; a smaller window says little about the device.
const WINDOW_BYTES: u64 = 8 << 20;
/// Weight of a new window in the moving average.
const WEIGHT: f64 = 0.3;

/// Throughput of a device in bytes per second, over the time in which batches are in flight.
#[derive(Debug, Default)]
pub(super) struct Speed(Mutex<Seen>);

#[derive(Debug, Default)]
struct Seen {
    /// Batches in flight, and the time up to which `busy` has been accumulated.
    batches: usize,
    until: Option<Instant>,
    /// Current window: the time with a batch in flight, and the bytes of completed batches.
    busy: Duration,
    bytes: u64,
    bytes_per_second: Option<f64>,
}

/// Minimum size of a measured batch. The duration of a shorter one is dominated by the device's
/// latency, and measuring it would take a shared lock for every page.
const BATCH_MIN_BYTES: u64 = 128 << 10;

/// Guard of a measured batch in flight; ends the batch on drop.
pub(super) struct UnderWay<'a> {
    speed: &'a Speed,
    bytes: u64,
}

impl Speed {
    /// Begins a batch of this many bytes; `None` if it is too short to be measured.
    pub(super) fn begin(&self, bytes: u64) -> Option<UnderWay<'_>> {
        if bytes < BATCH_MIN_BYTES {
            return None;
        }
        self.seen().begin(Instant::now());
        Some(UnderWay { speed: self, bytes })
    }

    /// Returns the throughput in bytes per second; `None` before the first window is complete.
    pub(super) fn bytes_per_second(&self) -> Option<f64> {
        self.seen().bytes_per_second
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        lock(&self.0)
    }
}

impl Seen {
    fn begin(&mut self, now: Instant) {
        self.batches += 1;
        self.until.get_or_insert(now);
    }

    fn end(&mut self, now: Instant, bytes: u64) {
        let since = self.until.map(|until| now.saturating_duration_since(until));
        self.busy += since.unwrap_or_default();
        self.bytes += bytes;
        self.batches -= 1;
        self.until = (self.batches > 0).then_some(now);
        if self.bytes < WINDOW_BYTES || self.busy.is_zero() {
            return;
        }
        // The bytes of a window stay far below 2^52, so the conversion is exact.
        let rate = self.bytes as f64 / self.busy.as_secs_f64();
        let before = self.bytes_per_second.unwrap_or(rate);
        self.bytes_per_second = Some(before + WEIGHT * (rate - before));
        (self.busy, self.bytes) = (Duration::ZERO, 0);
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.speed.seen().end(Instant::now(), self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn batches_side_by_side_share_the_time_and_idle_time_is_left_out() {
        let (mut seen, mut now) = (Seen::default(), Instant::now());
        for _ in 0..30 {
            // Two batches of 8 MiB, 64 ms together: 250 MiB/s.
            seen.begin(now);
            seen.begin(now);
            seen.end(now + 32 * MS, WINDOW_BYTES);
            seen.end(now + 64 * MS, WINDOW_BYTES);
            now += 1000 * MS;
        }
        let rate = seen.bytes_per_second.expect("enough");
        assert!((rate / (250.0 * 1024.0 * 1024.0) - 1.0).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn pages_and_a_few_bytes_say_nothing() {
        let speed = Speed::default();
        assert!(speed.begin(4096).is_none());
        drop(speed.begin(BATCH_MIN_BYTES));
        assert_eq!(speed.bytes_per_second(), None);
    }
}
