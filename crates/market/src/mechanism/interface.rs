//! Interface of mechanisms: snapshots and terms in, grants and trades out.

use std::{fmt, sync::Arc};

use terrace_ledger::Class;

use super::kind::Kind;
use crate::{Curve, number::float};

/// Input of a mechanism: one consumer at the beginning of a round.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Id of the consumer, the same in every round.
    pub id: u64,
    /// Kind of the consumer.
    pub class: Class,
    /// Endowment in bytes: the last grant, or the bytes held if there was none.
    pub holding_bytes: u64,
    /// Floor in bytes: the least memory the consumer can work with.
    pub floor_bytes: u64,
    /// Bytes protected from other buyers because they were granted recently, as far as the budget
    /// allows.
    pub kept_bytes: u64,
    /// Upper bound of the grant in bytes.
    pub ceiling_bytes: u64,
    /// Demand in bytes: the most the consumer could use. Any grant beyond it counts as free memory.
    pub demand_bytes: u64,
    /// True if the consumer can give memory back. If not, its holding is its floor.
    pub can_shrink: bool,
    /// Penalty per interval as a function of bytes. Without a curve the consumer gets a fair share.
    pub curve: Option<Arc<Curve>>,
}

/// Parameters of a round that apply to all consumers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// Budget in bytes: the upper bound of the sum of the grants.
    pub budget_bytes: u64,
    /// Smallest trade in bytes.
    pub trade_bytes_min: u64,
    /// Penalty of giving up one byte, which may have to be written and read again.
    pub moving_penalty_per_byte: f64,
    /// Number of intervals for which a grant is expected to stand; moving memory must pay off
    /// within them.
    pub horizon_intervals: f64,
    /// Share of a trade's gain that must remain after loss and moving are paid, from 0 to 1.
    pub hysteresis: f64,
    /// Maximum number of trades in one round.
    pub trades_max: usize,
}

/// One transfer of memory between two consumers, or of free memory to one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trade {
    /// Id of the seller; `None` if the memory was free.
    pub from: Option<u64>,
    /// Id of the buyer.
    pub to: u64,
    /// Bytes traded.
    pub bytes: u64,
    /// Reduction of the sum of penalties per interval.
    pub gain: f64,
}

/// Result of a round: the decision of a mechanism.
#[derive(Clone, Debug, PartialEq)]
pub struct Allotment {
    /// Grants in bytes, in the order of the snapshots.
    pub grants: Vec<u64>,
    /// Trades that lead from the endowments to the grants.
    pub trades: Vec<Trade>,
    /// Price of a byte per interval, if the mechanism has one.
    pub price: Option<f64>,
}

/// A policy that divides one budget among consumers.
pub trait Mechanism: fmt::Debug + Send {
    /// Returns the kind of this mechanism.
    fn kind(&self) -> Kind;

    /// Returns the grants of the next interval and the trades that lead to them.
    fn allot(&mut self, terms: &Terms, snapshots: &[Snapshot]) -> Allotment;
}

impl Default for Terms {
    /// Terms with a budget of 0 bytes. [`crate::broker::BrokerConfig`] explains the other values.
    fn default() -> Self {
        Self {
            budget_bytes: 0,
            trade_bytes_min: 64 << 10,
            moving_penalty_per_byte: 1.0 / (1_u64 << 30) as f64,
            horizon_intervals: 10.0,
            hysteresis: 0.1,
            trades_max: 256,
        }
    }
}

impl Terms {
    /// Returns the penalty of giving up `bytes`.
    pub(super) fn moving(&self, bytes: u64) -> f64 {
        self.moving_penalty_per_byte.max(0.0) * float(bytes)
    }
}
