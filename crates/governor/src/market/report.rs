//! Reports of the market: its consumers and their trades.

use std::time::SystemTime;

use super::claim::Claim;
use super::kind::MarketKind;

/// A row of `terrace.market`.
#[derive(Clone, Debug)]
pub struct Row {
    /// Name of the consumer.
    pub consumer: String,
    /// `cache` or `query`.
    pub class: &'static str,
    /// Tenant and SLA that it is charged to.
    pub claim: Claim,
    /// Bytes that it holds.
    pub held_bytes: u64,
    /// Bytes that it may hold; `None` without a limit.
    pub target_bytes: Option<u64>,
    /// Maximum average reduction of the penalties per second, per additional MiB.
    pub gain_per_mib: Option<f64>,
    /// Cost in penalties per second of one MiB less.
    pub loss_per_mib: Option<f64>,
    /// Its last trade.
    pub last_trade: Option<LastTrade>,
    /// Bytes that it has spilled; `None` for a cache.
    pub spilled_bytes: Option<u64>,
}

/// The last trade of a consumer.
#[derive(Clone, Debug)]
pub struct LastTrade {
    /// Bytes received, or given if negative.
    pub bytes: i64,
    /// The other party; `None` if the memory was unused.
    pub with: Option<String>,
    /// Time of the trade.
    pub at: SystemTime,
}

/// State of the market at one moment.
#[derive(Clone, Debug)]
pub struct MarketReport {
    /// The mechanism in use.
    pub kind: MarketKind,
    /// Every consumer: the caches, then the running queries.
    pub rows: Vec<Row>,
    /// Number of trades since the engine was opened.
    pub trades: u64,
    /// Bytes of those trades.
    pub traded_bytes: u64,
    /// The last trades of at least 64 KiB, oldest first.
    pub last_trades: Vec<TradeReport>,
}

/// A trade of memory.
#[derive(Clone, Debug)]
pub struct TradeReport {
    /// Time of the trade.
    pub at: SystemTime,
    /// Consumer that gave memory; `None` if no consumer held it.
    pub from: Option<String>,
    /// Consumer that received it.
    pub to: String,
    /// Bytes traded.
    pub bytes: u64,
    /// Expected reduction of the penalties per second.
    pub gain: f64,
}
