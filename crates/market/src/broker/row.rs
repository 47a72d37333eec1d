//! A row of `terrace.market`.

use std::sync::Arc;

use super::Standing;
use crate::{
    Class, Sla,
    mechanism::{Snapshot, Trade, worth_of_less, worth_of_more},
    number::float,
};

/// What the market knows of one consumer after a round.
#[derive(Clone, Debug, PartialEq)]
pub struct MarketRow {
    /// Its number.
    pub id: u64,
    /// Its name.
    pub name: Arc<str>,
    /// Its kind.
    pub class: Class,
    /// Its SLA as people type it.
    pub sla: String,
    /// What it held when the round began, in bytes.
    pub held_bytes: u64,
    /// What it cannot do without, in bytes.
    pub floor_bytes: u64,
    /// What it was granted, in bytes.
    pub grant_bytes: u64,
    /// What it may hold, in bytes: the grant, and what is lent to it because nobody else needs it.
    pub limit_bytes: u64,
    /// Its expected penalty an interval with its grant; none without a curve.
    pub penalty: Option<f64>,
    /// The most that a MiB more would save it an interval, on average up to some larger size.
    pub gain_per_mib: Option<f64>,
    /// The least that a MiB less would cost it an interval; none at its floor.
    pub loss_per_mib: Option<f64>,
    /// Its last trades: bytes got less bytes given in the last round in which it traded.
    pub last_traded_bytes: i64,
    /// By how much those trades lowered the sum of penalties an interval.
    pub last_gain: f64,
    /// With whom it traded last; nobody when the memory was free.
    pub last_partner: Option<u64>,
    /// In which round that was; 0 if it never traded.
    pub last_round: u64,
}

/// What the last trades of a consumer came to.
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
