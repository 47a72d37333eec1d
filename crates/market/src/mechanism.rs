//! Mechanisms that divide one budget among its consumers.
//!
//! A [`Mechanism`] takes a [`Snapshot`] of each consumer and returns the grants of the next
//! interval. It is pure arithmetic: the same snapshots give the same grants. [`Exchange`],
//! [`Price`] and [`Auction`] are the economic mechanisms of Otaki et al. (CIDR 2025, section 2.1,
//! figure 3). [`StaticSplit`] and [`DemandDriven`] are baselines: the policies of systems without a
//! market.
//!
//! Every mechanism keeps two promises: the sum of the grants never exceeds the budget, and no grant
//! is below its floor unless the floors themselves exceed the budget.
//!
//! Penalty curves need not be convex. A sort gains nothing from one more page until it saves a
//! whole pass, so a mechanism that trades page by page would stop in front of every cliff. Here a
//! trade is as large as the next useful size of the buyer's curve, and several sellers may supply
//! one trade.

mod auction;
mod baseline;
mod book;
mod exchange;
mod fill;
mod price;
mod supply;

use std::{fmt, str::FromStr, sync::Arc};

pub use auction::Auction;
pub use baseline::{DemandDriven, StaticSplit};
pub use exchange::Exchange;
pub use price::Price;

pub(crate) use book::Book;
pub(crate) use supply::{worth_of_less, worth_of_more};

use terrace_ledger::Class;

use crate::Curve;

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

/// Available mechanisms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`Exchange::cooperative`].
    Cooperative,
    /// [`Exchange::selfish`].
    Selfish,
    /// [`Price`].
    Price,
    /// [`Auction`]: the mechanism with the lowest penalty in the simulator.
    #[default]
    Auction,
    /// [`StaticSplit`].
    Static,
    /// [`DemandDriven`].
    Demand,
}

impl Kind {
    /// All mechanisms.
    pub const ALL: [Self; 6] =
        [Self::Cooperative, Self::Selfish, Self::Price, Self::Auction, Self::Static, Self::Demand];

    /// Returns the name as users write it in a setting.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Cooperative => "cooperative",
            Self::Selfish => "selfish",
            Self::Price => "price",
            Self::Auction => "auction",
            Self::Static => "static",
            Self::Demand => "demand",
        }
    }

    /// True if the mechanism decides by penalties; the others are baselines for comparison.
    #[must_use]
    pub const fn is_market(self) -> bool {
        match self {
            Self::Cooperative | Self::Selfish | Self::Price | Self::Auction => true,
            Self::Static | Self::Demand => false,
        }
    }

    /// Returns a new mechanism of this kind.
    #[must_use]
    pub fn mechanism(self) -> Box<dyn Mechanism> {
        match self {
            Self::Cooperative => Box::new(Exchange::cooperative()),
            Self::Selfish => Box::new(Exchange::selfish()),
            Self::Price => Box::new(Price::new()),
            Self::Auction => Box::new(Auction),
            Self::Static => Box::new(StaticSplit),
            Self::Demand => Box::new(DemandDriven),
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// Error of parsing a name that no mechanism has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "there is no market mechanism \"{0}\"; there are cooperative, selfish, price, auction, static \
     and demand"
)]
pub struct UnknownKind(pub String);

impl FromStr for Kind {
    type Err = UnknownKind;

    fn from_str(name: &str) -> Result<Self, UnknownKind> {
        let known = Self::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(name));
        known.ok_or_else(|| UnknownKind(name.to_string()))
    }
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
