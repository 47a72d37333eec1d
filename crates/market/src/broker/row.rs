//! Rows of the system table `terrace.market`.

use std::sync::Arc;

use terrace_ledger::Class;

use super::Standing;
use crate::{
    Sla,
    mechanism::{Snapshot, Trade, worth_of_less, worth_of_more},
    number::float,
};

/// State of one consumer in the market after a round.
#[derive(Clone, Debug, PartialEq)]
pub struct MarketRow {
    /// Id of the consumer.
    pub id: u64,
    /// Name of the consumer.
    pub name: Arc<str>,
    /// Kind of the consumer.
    pub class: Class,
    /// SLA as users write it.
    pub sla: String,
    /// Bytes held when the round began.
    pub held_bytes: u64,
    /// Floor in bytes: the least memory the consumer can work with.
    pub floor_bytes: u64,
    /// Grant in bytes.
    pub grant_bytes: u64,
    /// Limit in bytes: the grant and the memory lent on top of it, which no grant covers.
    pub limit_bytes: u64,
    /// Expected penalty per interval with the grant; `None` without a curve.
    pub penalty: Option<f64>,
    /// Highest saving per interval and MiB of a larger grant: the saving of a size over the present
    /// grant, divided by the MiB between them, for the size where that is highest.
    pub gain_per_mib: Option<f64>,
    /// Lowest cost per interval of one MiB less; `None` at the floor or without a curve.
    pub loss_per_mib: Option<f64>,
    /// Bytes bought less bytes sold in the last round in which the consumer traded.
    pub last_traded_bytes: i64,
    /// Reduction of the sum of penalties per interval by those trades.
    pub last_gain: f64,
    /// Last trading partner of that round; `None` if all the memory was free.
    pub last_partner: Option<u64>,
    /// Number of that round; 0 if the consumer never traded.
    pub last_round: u64,
}

/// Sums over the last round in which a consumer traded.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct LastTrade {
    round: u64,
    bytes: i64,
    gain: f64,
    partner: Option<u64>,
}

impl LastTrade {
    pub(super) fn got(&mut self, round: u64, trade: &Trade) {
        self.note(round, signed(trade.bytes), trade.gain, trade.from);
    }

    pub(super) fn gave(&mut self, round: u64, trade: &Trade) {
        self.note(round, -signed(trade.bytes), trade.gain, Some(trade.to));
    }

    fn note(&mut self, round: u64, bytes: i64, gain: f64, partner: Option<u64>) {
        if self.round != round {
            *self = Self { round, ..Self::default() };
        }
        self.bytes = self.bytes.saturating_add(bytes);
        self.gain += gain;
        self.partner = partner.or(self.partner);
    }
}

fn signed(bytes: u64) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}

impl MarketRow {
    pub(super) fn of(
        standing: &Standing,
        snapshot: &Snapshot,
        sla: &Sla,
        (grant_bytes, limit_bytes): (u64, u64),
        last: LastTrade,
    ) -> Self {
        let mib = float(1 << 20);
        let curve = snapshot.curve.as_deref();
        let less = curve.map(|curve| worth_of_less(curve, grant_bytes, standing.floor_bytes) * mib);
        Self {
            id: standing.id,
            name: Arc::clone(&standing.name),
            class: standing.class,
            sla: sla.to_string(),
            held_bytes: standing.held_bytes,
            floor_bytes: standing.floor_bytes,
            grant_bytes,
            limit_bytes,
            penalty: curve.map(|curve| curve.at(grant_bytes)),
            gain_per_mib: curve.map(|curve| worth_of_more(curve, grant_bytes) * mib),
            loss_per_mib: less.filter(|loss| loss.is_finite()),
            last_traded_bytes: last.bytes,
            last_gain: last.gain,
            last_partner: last.partner,
            last_round: last.round,
        }
    }
}
