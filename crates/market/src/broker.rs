//! The broker: runs the market inside an engine.
//!
//! Once per interval the engine describes every consumer to the broker ([`Standing`]) and calls
//! [`Broker::round`]. The broker turns performance and SLA into penalty curves, lets its mechanism
//! decide, and publishes each decision in a [`Target`], which the consumer reads without a lock.
//! The broker neither takes nor gives memory itself: a consumer that holds more than its target
//! gives the excess back at its next opportunity, and every byte still needs a grant of the
//! `terrace_ledger::Ledger`.
//!
//! ```
//! use std::sync::Arc;
//! use terrace_ledger::Class;
//! use terrace_market::{
//!     Broker, BrokerConfig, Performance, Sla, SortModel, Spill, Standing, Tail,
//! };
//!
//! let mut broker = Broker::new(BrokerConfig::default());
//! let target = broker.target(1); // kept by the operator
//! assert_eq!(target.excess_bytes(1 << 30), 0, "no decision yet, no limit");
//!
//! let sort = SortModel { input_bytes: 1 << 28, page_bytes: 1 << 18, spill: Spill::Excess };
//! let standing = Standing {
//!     performance: Some(Performance {
//!         ios: sort.ios(),
//!         base_seconds: 0.5,
//!         seconds_per_io: 0.0005,
//!         tail: Tail::Certain,
//!     }),
//!     sla: Some(Arc::new("latency 1s penalty 1 per 1s".parse::<Sla>()?)),
//!     demand_bytes: 1 << 28,
//!     floor_bytes: sort.floor_bytes(),
//!     ..Standing::new(1, "query 1 sort", Class::Query)
//! };
//! broker.round(1 << 28, &[standing]);
//! assert_eq!(target.grant_bytes(), 1 << 28);
//! assert_eq!(target.excess_bytes(1 << 30), (1 << 30) - (1 << 28));
//! # Ok::<(), terrace_market::SlaError>(())
//! ```

mod row;
mod standing;

pub use row::MarketRow;
pub use standing::{Standing, Target};

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use crate::{
    Curve, Kind, Mechanism, Sla,
    damper::Damper,
    mechanism::{Allotment, Snapshot, Terms, Trade},
    number::portion,
};
use row::LastTrade;

/// Configuration of a broker. The defaults are those of the simulator's experiments.
#[derive(Clone, Debug, PartialEq)]
pub struct BrokerConfig {
    /// Mechanism that decides.
    pub mechanism: Kind,
    /// Interval between calls of [`Broker::round`]. Penalties are per interval.
    pub interval: Duration,
    /// Penalty of giving up one byte. The default is that of a device of 1 GiB/s, which takes 2^-30
    /// seconds to read a byte again, at a penalty of 1 per second.
    pub moving_penalty_per_byte: f64,
    /// Number of intervals over which moving memory must pay off.
    pub horizon_intervals: f64,
    /// Share of a trade's gain that must remain after loss and moving are paid.
    pub hysteresis: f64,
    /// Smallest trade in bytes.
    pub trade_bytes_min: u64,
    /// Initial patience: number of rounds for which a new grant is protected from other buyers.
    pub patience_rounds_min: u64,
    /// Maximum patience, for a consumer whose grant oscillates.
    pub patience_rounds_max: u64,
    /// Maximum number of points of a traded curve.
    pub points_max: usize,
    /// SLA of consumers that named none.
    pub default_sla: Sla,
}

impl Default for BrokerConfig {
    fn default() -> Self {
        Self {
            mechanism: Kind::Cooperative,
            interval: Duration::from_millis(100),
            moving_penalty_per_byte: 1.0 / (1_u64 << 30) as f64,
            horizon_intervals: 20.0,
            hysteresis: 0.2,
            trade_bytes_min: 256 << 10,
            patience_rounds_min: 1,
            patience_rounds_max: 64,
            points_max: 48,
            default_sla: Sla::per_second(),
        }
    }
}

/// Result of one round.
#[derive(Clone, Debug, PartialEq)]
pub struct Outcome {
    /// Grants in bytes, in the order of the standings; their sum is within the budget.
    pub grants: Vec<u64>,
    /// Trades that lead to the grants.
    pub trades: Vec<Trade>,
    /// Price of a byte per interval, if the mechanism has one.
    pub price: Option<f64>,
    /// Expected sum of penalties per interval with these grants.
    pub expected_penalty: f64,
    /// Bytes taken from consumers that had been granted them.
    pub moved_bytes: u64,
}

/// The market of one budget. See the documentation of the module.
#[derive(Debug)]
pub struct Broker {
    config: BrokerConfig,
    mechanism: Box<dyn Mechanism>,
    damper: Damper,
    round: u64,
    entries: BTreeMap<u64, Entry>,
}

/// State of one consumer across rounds.
#[derive(Debug, Default)]
struct Entry {
    target: Target,
    /// Last grant; `None` before the first round.
    grant: Option<u64>,
    last: LastTrade,
    row: Option<MarketRow>,
}

impl Broker {
    /// Returns a broker that has decided nothing yet.
    #[must_use]
    pub fn new(config: BrokerConfig) -> Self {
        let mechanism = config.mechanism.mechanism();
        let damper = Damper::new(config.patience_rounds_min, config.patience_rounds_max);
        Self { config, mechanism, damper, round: 0, entries: BTreeMap::new() }
    }

    /// Returns the configuration.
    #[must_use]
    pub fn config(&self) -> &BrokerConfig {
        &self.config
    }

    /// Changes the mechanism from the next round on; the grants stay until then.
    pub fn set_mechanism(&mut self, kind: Kind) {
        if kind != self.config.mechanism {
            self.config.mechanism = kind;
            self.mechanism = kind.mechanism();
        }
    }

    /// Sets [`BrokerConfig::moving_penalty_per_byte`] to the observed speed of the device.
    pub fn set_moving_penalty(&mut self, per_byte: f64) {
        self.config.moving_penalty_per_byte = per_byte;
    }

    /// Returns the target of a consumer. It has no limit until the first round with the consumer.
    pub fn target(&mut self, id: u64) -> Target {
        self.entries.entry(id).or_default().target.clone()
    }

    /// Removes a consumer; its target has no limit from then on.
    pub fn remove(&mut self, id: u64) {
        if let Some(entry) = self.entries.remove(&id) {
            entry.target.set(u64::MAX);
        }
    }

    /// Decides the grants of the next interval. Consumers that had a grant and are not among the
    /// `standings` are removed.
    pub fn round(&mut self, budget_bytes: u64, standings: &[Standing]) -> Outcome {
        self.round += 1;
        self.forget(standings);
        let curves: Vec<Option<Arc<Curve>>> = standings.iter().map(|it| self.penalty(it)).collect();
        let snapshots: Vec<Snapshot> =
            standings.iter().zip(&curves).map(|(it, curve)| self.snapshot(it, curve)).collect();
        let terms = self.terms(budget_bytes);
        let allotment = self.mechanism.allot(&terms, &snapshots);
        let moved_bytes = self.learn(&snapshots, &allotment);
        self.publish(budget_bytes, standings, &allotment.grants);
        self.write_rows(standings, &snapshots, &allotment);
        let expected = curves.iter().zip(&allotment.grants);
        let expected = expected.filter_map(|(curve, grant)| Some(curve.as_ref()?.at(*grant)));
        Outcome {
            expected_penalty: expected.sum(),
            grants: allotment.grants,
            trades: allotment.trades,
            price: allotment.price,
            moved_bytes,
        }
    }

    /// Returns the rows of `terrace.market`: one for each consumer of the last round, by id.
    pub fn rows(&self) -> impl Iterator<Item = &MarketRow> {
        self.entries.values().filter_map(|entry| entry.row.as_ref())
    }

    /// Returns the number of rounds so far.
    #[must_use]
    pub fn rounds(&self) -> u64 {
        self.round
    }

    fn forget(&mut self, standings: &[Standing]) {
        let mut ids: Vec<u64> = standings.iter().map(|standing| standing.id).collect();
        ids.sort_unstable();
        let is_there = |id: u64| ids.binary_search(&id).is_ok();
        let gone: Vec<u64> = self
            .entries
            .iter()
            .filter(|(id, entry)| entry.grant.is_some() && !is_there(**id))
            .map(|(id, _)| *id)
            .collect();
        gone.into_iter().for_each(|id| self.remove(id));
        self.damper.keep(is_there);
    }

    fn penalty(&self, standing: &Standing) -> Option<Arc<Curve>> {
        let performance = standing.performance.as_ref()?;
        let sla = standing.sla.as_deref().unwrap_or(&self.config.default_sla);
        let curve = sla.curve(performance, standing.requests);
        Some(Arc::new(curve.simplified(self.config.points_max)))
    }

    /// Builds the snapshot of a consumer, with the bytes that its patience protects.
    fn snapshot(&self, standing: &Standing, curve: &Option<Arc<Curve>>) -> Snapshot {
        let known = self.entries.get(&standing.id).and_then(|entry| entry.grant);
        let holding = known.unwrap_or(standing.held_bytes);
        let damped = known.is_some() && self.mechanism.kind().is_market();
        let kept = if damped { self.damper.kept(standing.id, self.round) } else { 0 };
        Snapshot {
            id: standing.id,
            class: standing.class,
            holding_bytes: holding,
            floor_bytes: standing.floor_bytes,
            kept_bytes: kept.min(holding).min(standing.demand_bytes),
            ceiling_bytes: u64::MAX,
            demand_bytes: standing.demand_bytes,
            can_shrink: standing.can_shrink,
            curve: curve.clone(),
        }
    }

    fn terms(&self, budget_bytes: u64) -> Terms {
        Terms {
            budget_bytes,
            trade_bytes_min: self.config.trade_bytes_min,
            moving_penalty_per_byte: self.config.moving_penalty_per_byte,
            horizon_intervals: self.config.horizon_intervals,
            hysteresis: self.config.hysteresis,
            ..Terms::default()
        }
    }

    /// Stores the grants and trades, and returns the bytes that were taken away.
    fn learn(&mut self, snapshots: &[Snapshot], allotment: &Allotment) -> u64 {
        let mut moved = 0;
        for (snapshot, &grant) in snapshots.iter().zip(&allotment.grants) {
            let entry = self.entries.entry(snapshot.id).or_default();
            if let Some(before) = entry.grant.filter(|before| *before != grant) {
                match grant.checked_sub(before) {
                    Some(gained) => self.damper.grew(snapshot.id, self.round, gained),
                    None => self.damper.shrank(snapshot.id),
                }
                moved += before.min(snapshot.demand_bytes).saturating_sub(grant);
            }
            entry.grant = Some(grant);
        }
        for trade in &allotment.trades {
            if let Some(entry) = self.entries.get_mut(&trade.to) {
                entry.last.got(self.round, trade);
            }
            if let Some(entry) = trade.from.and_then(|id| self.entries.get_mut(&id)) {
                entry.last.gave(self.round, trade);
            }
        }
        moved
    }

    /// Publishes the grants as targets and lends the free bytes of the budget, which no curve has a
    /// use for: they raise the targets of consumers whose demand exceeds their grant, in proportion
    /// to the difference, until a curve needs them.
    fn publish(&self, budget_bytes: u64, standings: &[Standing], grants: &[u64]) {
        let granted = grants.iter().fold(0_u64, |sum, grant| sum.saturating_add(*grant));
        let free = budget_bytes.saturating_sub(granted);
        let wants: Vec<u64> = standings
            .iter()
            .zip(grants)
            .map(|(it, grant)| it.demand_bytes.min(budget_bytes).saturating_sub(*grant) >> 16)
            .collect();
        let sum = wants.iter().fold(0_u64, |sum, want| sum.saturating_add(*want));
        for ((standing, grant), want) in standings.iter().zip(grants).zip(wants) {
            let lent = if sum == 0 { 0 } else { portion(free, want, sum).min(want << 16) };
            if let Some(entry) = self.entries.get(&standing.id) {
                entry.target.set(grant + lent);
            }
        }
    }

    fn write_rows(&mut self, standings: &[Standing], snapshots: &[Snapshot], made: &Allotment) {
        for ((standing, snapshot), &grant) in standings.iter().zip(snapshots).zip(&made.grants) {
            let sla = standing.sla.as_deref().unwrap_or(&self.config.default_sla);
            if let Some(entry) = self.entries.get_mut(&standing.id) {
                let limit = entry.target.grant_bytes();
                entry.row =
                    Some(MarketRow::of(standing, snapshot, sla, (grant, limit), entry.last));
            }
        }
    }
}
