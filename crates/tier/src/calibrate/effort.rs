//! Amount of work of a calibration.

use std::time::Duration;

use terrace_sys::size::MIB;

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
