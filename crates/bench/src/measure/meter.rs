//! Measurement of the peak memory and of the bytes read from each tier during a piece of work.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde::Serialize;
use terrace_ledger::Ledger;
use terrace_sql::Engine;
use terrace_sql::system::TierReport;

/// Interval between two samples of the ledger. A shorter peak may be missed.
const INTERVAL: Duration = Duration::from_millis(2);

/// Bytes read from one tier.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TierBytes {
    /// Name of the tier.
    pub tier: String,
    /// `memory` or `store`.
    pub kind: &'static str,
    /// Bytes of pages fixed in the tier, or of extents read from it.
    pub read_bytes: u64,
}

/// Result of a measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Reading {
    /// Peak of the bytes that the ledger had granted.
    pub peak_dram_bytes: u64,
    /// Bytes read from each tier, fastest first.
    pub tiers: Vec<TierBytes>,
}

/// A running measurement, which [`Meter::read`] ends.
pub struct Meter {
    engine: Engine,
    before: Vec<TierBytes>,
    peak: Peak,
}

impl Meter {
    /// Starts a measurement.
    pub fn start(engine: &Engine) -> Meter {
        let peak = Peak::watch(engine.ledger().clone());
        Meter { engine: engine.clone(), before: tier_bytes(engine), peak }
    }

    /// Ends the measurement. Returns the bytes read since the start, and the peak.
    pub fn read(self) -> Reading {
        let mut tiers = tier_bytes(&self.engine);
        for tier in &mut tiers {
            let before = self.before.iter().find(|before| before.tier == tier.tier);
            tier.read_bytes -= before.map_or(0, |before| before.read_bytes.min(tier.read_bytes));
        }
        Reading { peak_dram_bytes: self.peak.stop(), tiers }
    }
}

fn tier_bytes(engine: &Engine) -> Vec<TierBytes> {
    let report = engine.tiers().into_iter();
    let bytes = |tier: TierReport| TierBytes {
        tier: tier.name,
        kind: tier.kind,
        read_bytes: tier.read_bytes,
    };
    report.map(bytes).collect()
}

/// A thread that samples a ledger and keeps the maximum.
struct Peak {
    ledger: Ledger,
    seen: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Peak {
    fn watch(ledger: Ledger) -> Peak {
        let seen = Arc::new(AtomicU64::new(ledger.granted()));
        let stop = Arc::new(AtomicBool::new(false));
        let thread = std::thread::spawn({
            let (ledger, seen, stop) = (ledger.clone(), Arc::clone(&seen), Arc::clone(&stop));
            move || {
                while !stop.load(Ordering::Relaxed) {
                    seen.fetch_max(ledger.granted(), Ordering::Relaxed);
                    std::thread::park_timeout(INTERVAL);
                }
            }
        });
        Peak { ledger, seen, stop, thread: Some(thread) }
    }

    fn stop(mut self) -> u64 {
        self.end();
        self.seen.fetch_max(self.ledger.granted(), Ordering::Relaxed).max(self.ledger.granted())
    }

    fn end(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            // The thread reads two counters; it has no way to fail.
            let _ = thread.join();
        }
    }
}

impl Drop for Peak {
    fn drop(&mut self) {
        self.end();
    }
}

#[cfg(test)]
mod tests {
    use terrace_ledger::Class;

    use super::*;

    #[test]
    fn the_peak_is_seen_after_it_is_gone() {
        let ledger = Ledger::new(1 << 20);
        let consumer = ledger.register("test", Class::Other);
        let peak = Peak::watch(ledger.clone());
        consumer.try_grow(1 << 19).expect("granted");
        std::thread::sleep(INTERVAL * 50);
        consumer.shrink(1 << 19);
        assert_eq!(peak.stop(), 1 << 19);
    }
}
