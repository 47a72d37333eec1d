//! Duration of I/Os, from the measured throughput of the store.

use std::fmt;
use std::sync::Arc;

use terrace_store::Store;

/// Assumed seconds of an I/O without its bytes, and bytes per second before any were measured:
/// those of the devices that Terrace was measured on.
const IO_SECONDS: f64 = 150e-6;
const BYTES_PER_SECOND: f64 = (1_u64 << 30) as f64;

/// Minimum and maximum plausible throughput, in bytes per second.
const RATES: (f64, f64) = (1e6, 1e11);

/// The store below the budget.
pub(super) struct Device(Option<Arc<Store>>);

impl Device {
    pub(super) fn new(store: Option<Arc<Store>>) -> Self {
        Self(store)
    }

    /// Returns the bytes that it transfers in a second in which it is busy.
    pub(super) fn bytes_per_second(&self) -> f64 {
        let seen = self.0.as_ref().and_then(|store| store.bytes_per_second());
        seen.unwrap_or(BYTES_PER_SECOND).clamp(RATES.0, RATES.1)
    }

    /// Returns the seconds of an I/O of `bytes`.
    pub(super) fn io_seconds(&self, bytes: f64) -> f64 {
        IO_SECONDS + bytes / self.bytes_per_second()
    }
}

impl fmt::Debug for Device {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let rate = self.bytes_per_second();
        f.debug_struct("Device").field("bytes_per_second", &rate).finish()
    }
}

#[cfg(test)]
mod tests {
    use terrace_store::{MemoryBlocks, Write};
    use terrace_sys::buffer::AlignedBuffer;
    use terrace_sys::size::MIB;

    use super::*;

    #[test]
    fn io_takes_longer_on_a_slow_store() {
        let store = Store::open(Arc::new(MemoryBlocks::new(32 * MIB)), "slow", 32 * MIB);
        let store = Arc::new(store.expect("a store").with_rate(100 * MIB));
        let device = Device::new(Some(Arc::clone(&store)));
        let before = device.io_seconds(1e6);
        assert!(before < 0.002, "{before}: of a device that is not known");
        let data = AlignedBuffer::zeroed(1 << 20);
        for _ in 0..10 {
            let extent = store.allocate(MIB).expect("room");
            let written = store.write_batch(&[Write { extent, data: &data }]);
            assert!(written[0].is_ok(), "{written:?}");
        }
        let rate = device.bytes_per_second() / MIB as f64;
        assert!((50.0..101.0).contains(&rate), "{rate} MiB/s");
        assert!(device.io_seconds(1e6) > 0.008, "{device:?}");
    }
}
