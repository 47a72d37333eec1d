//! Record of the trades of past rounds.

use std::collections::{BTreeMap, VecDeque};
use std::time::SystemTime;

use terrace_market::mechanism::Trade;
use terrace_sys::size::KIB;

use super::report::TradeReport;

/// Maximum number of trades that are kept.
const KEPT_MAX: usize = 32;
/// Minimum bytes of a trade that is kept: rounds move some bytes merely by rounding shares.
const KEPT_BYTES_MIN: u64 = 64 * KIB;

/// The last trades, and totals of all trades.
#[derive(Debug, Default)]
pub(super) struct Trades {
    count: u64,
    bytes: u64,
    last: VecDeque<TradeReport>,
}

impl Trades {
    /// Adds the trades of a round, whose interval is given in seconds.
    pub(super) fn add(&mut self, trades: &[Trade], names: &BTreeMap<u64, String>, interval: f64) {
        let at = SystemTime::now();
        for trade in trades {
            self.count += 1;
            self.bytes = self.bytes.saturating_add(trade.bytes);
            let to = names.get(&trade.to).filter(|_| trade.bytes >= KEPT_BYTES_MIN);
            let Some(to) = to.cloned() else { continue };
            if self.last.len() >= KEPT_MAX {
                self.last.pop_front();
            }
            let from = trade.from.and_then(|id| names.get(&id).cloned());
            let gain = trade.gain / interval;
            self.last.push_back(TradeReport { at, from, to, bytes: trade.bytes, gain });
        }
    }

    /// Returns the number of trades so far.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the bytes of all trades.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Returns the last trades, oldest first.
    pub(super) fn last(&self) -> Vec<TradeReport> {
        self.last.iter().cloned().collect()
    }
}
