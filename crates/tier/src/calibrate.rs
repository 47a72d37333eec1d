//! What tiers cost here: latency and bandwidth of memory and stores, and of handling pages.
//!
//! Everything is measured in scratch memory and scratch extents, given back at the end, and cut
//! short by [`Effort`]: a machine is calibrated in about a second.

use std::time::{Duration, Instant};

mod memory;
mod pages;
mod store;

pub use memory::{MemoryFigures, memory};
pub(crate) use pages::scattered;
pub use pages::{PageCosts, checksum_gib_per_s, page_costs};
pub use store::{StoreFigures, device, store};

use terrace_sys::size::{GIB, MIB};

/// How much to measure.
#[derive(Copy, Clone, Debug)]
pub struct Effort {
    /// Memory that is chased through and summed; several times the caches' size to mean anything.
    pub memory_bytes: u64,
    /// Memory that is touched, copied and decommitted for each page size.
    pub page_bytes: u64,
    /// Space of a store that is written and read.
    pub store_bytes: u64,
    /// When a single measurement is cut short.
    pub time_max: Duration,
}

impl Effort {
    /// Enough for figures that repeat within some 20 %.
    #[must_use]
    pub fn full() -> Effort {
        Effort {
            memory_bytes: 128 * MIB,
            page_bytes: 16 * MIB,
            store_bytes: 64 * MIB,
            time_max: Duration::from_millis(100),
        }
    }

    /// Enough to see that everything works.
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

/// Seconds that `work` takes.
fn seconds(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    start.elapsed().as_secs_f64().max(1e-9)
}

/// GiB a second, for `bytes` in `seconds`.
#[expect(clippy::cast_precision_loss, reason = "figures have three digits")]
fn gib_per_s(bytes: u64, seconds: f64) -> f64 {
    bytes as f64 / GIB as f64 / seconds
}

/// Microseconds of each of `count` in `seconds`.
#[expect(clippy::cast_precision_loss, reason = "figures have three digits")]
pub(crate) fn us_each(count: usize, seconds: f64) -> f64 {
    seconds * 1e6 / count.max(1) as f64
}

/// The middle of some figures; 0 of none.
fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or(0.0)
}
