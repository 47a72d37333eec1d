//! Calibration: measures latency and bandwidth of memory and stores, and the cost of page
//! operations, on this machine.
//!
//! Everything is measured in scratch memory and scratch extents, which are released at the end, and
//! limited by [`Effort`]: calibration of a machine takes about a second.

use std::time::{Duration, Instant};

mod memory;
mod pages;
mod store;

pub use memory::{MemoryFigures, memory};
pub(crate) use pages::scattered;
pub use pages::{PageCosts, checksum_gib_per_s, page_costs};
pub use store::{StoreFigures, device, store};

use terrace_sys::size::{GIB, MIB};

/// Amount of work of a calibration.
#[derive(Copy, Clone, Debug)]
pub struct Effort {
    /// Bytes of memory for latency and bandwidth; figures are meaningful only at several times the
    /// size of the caches.
    pub memory_bytes: u64,
    /// Bytes of memory that are touched, copied and decommitted for each page size.
    pub page_bytes: u64,
    /// Bytes of a store that are written and read.
    pub store_bytes: u64,
    /// Time limit of a single measurement.
    pub time_max: Duration,
}

impl Effort {
    /// Returns an effort whose figures repeat within some 20 %.
    #[must_use]
    pub fn full() -> Effort {
        Effort {
            memory_bytes: 128 * MIB,
            page_bytes: 16 * MIB,
            store_bytes: 64 * MIB,
            time_max: Duration::from_millis(100),
        }
    }

    /// Returns an effort just large enough to see that everything works.
    #[must_use]
    pub fn brief() -> Effort {
        Effort {
            memory_bytes: 4 * MIB,
            page_bytes: 2 * MIB,
            store_bytes: 4 * MIB,
            time_max: Duration::from_millis(10),
        }
    }
}

/// Returns the seconds that `work` takes.
fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64().max(1e-9)
}

/// Returns the throughput in GiB/s of `bytes` in `seconds`.
#[expect(clippy::cast_precision_loss, reason = "figures have three digits")]
fn gib_per_s(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / GIB as f64 / seconds
}

/// Returns the microseconds per item for `count` items in `seconds`.
#[expect(clippy::cast_precision_loss, reason = "figures have three digits")]
pub(crate) fn us_each(count: usize, seconds: f64) -> f64 {
    seconds * 1e6 / count.max(1) as f64
}

/// Returns the median of the figures, or 0 if there are none.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}
