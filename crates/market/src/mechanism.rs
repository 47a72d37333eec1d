//! Mechanisms: who is granted how much.
//!
//! A [`Mechanism`] looks at [`Snapshot`]s of all consumers and says what each may hold for the next
//! interval. It is arithmetic: the same snapshots give the same grants. There are the economic
//! ones of Otaki et al. (CIDR 2025, section 2.1, figure 3) - [`Exchange`], [`Price`], [`Auction`] -
//! and what systems do without a market, to compare with: [`StaticSplit`] and [`DemandDriven`].
//!
//! All keep two promises: the grants' sum never exceeds the budget, and no grant is below its
//! floor unless the floors themselves exceed the budget.
//!
//! Penalty curves need not be convex. A sort gains nothing from a page more until it saves a whole
//! pass, so a step of a page at a time stops in front of every cliff. Here a trade is as large as
//! the curve's next useful size, and it may be fed by several givers at once.

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

use crate::{Class, Curve};

/// One consumer as a mechanism sees it.
#[derive(Clone, Debug)]
pub struct Snapshot {
    /// Its number, the same in every round.
    pub id: u64,
    /// Its kind.
    pub class: Class,
    /// What it is endowed with: its last grant, or what it holds if it had none, in bytes.
    pub holding_bytes: u64,
    /// What it cannot do without, in bytes.
    pub floor_bytes: u64,
    /// What it keeps where the budget allows, because it was just given it. In bytes.
    pub kept_bytes: u64,
    /// What it may have at most, in bytes.
    pub ceiling_bytes: u64,
    /// What it would take if nobody said no, in bytes. What it has beyond that is free.
    pub demand_bytes: u64,
    /// Whether it can give back; if not, its holding is its floor.
    pub can_shrink: bool,
    /// Its penalty an interval as a function of bytes. Without one it gets a fair share.
    pub curve: Option<Arc<Curve>>,
}

/// What all mechanisms go by.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Terms {
    /// What may be granted altogether, in bytes.
    pub budget_bytes: u64,
    /// The smallest trade, in bytes.
    pub trade_bytes_min: u64,
    /// What it costs that a byte is given up: it may have to be written, and read again.
    pub moving_penalty_per_byte: f64,
    /// The intervals for which a grant is expected to stand; moving pays off over them.
    pub horizon_intervals: f64,
    /// The share of a trade's gain that must be left when loss and moving are paid, from 0 to 1.
    pub hysteresis: f64,
    /// The most trades of one round.
    pub trades_max: usize,
}

/// Memory that changed hands.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Trade {
    /// Who gave; nobody if it was free.
    pub from: Option<u64>,
    /// Who got.
    pub to: u64,
    /// How much.
    pub bytes: u64,
    /// By how much the sum of penalties falls an interval.
    pub gain: f64,
}

/// What a mechanism decided.
#[derive(Clone, Debug, PartialEq)]
pub struct Allotment {
    /// Grants in bytes, in the order of the snapshots.
    pub grants: Vec<u64>,
    /// The trades that led there.
    pub trades: Vec<Trade>,
    /// What a byte costs an interval, where there is a price.
    pub price: Option<f64>,
}

/// A way to share one budget.
pub trait Mechanism: fmt::Debug + Send {
    /// Which one it is.
    fn kind(&self) -> Kind;

    /// The grants of the next interval.
    fn allot(&mut self, terms: &Terms, snapshots: &[Snapshot]) -> Allotment;
}

/// The mechanisms there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`Exchange::cooperative`].
    Cooperative,
    /// [`Exchange::selfish`].
    Selfish,
    /// [`Price`].
    Price,
    /// [`Auction`]: the one that costs least in the simulator.
    #[default]
    Auction,
    /// [`StaticSplit`].
    Static,
    /// [`DemandDriven`].
    Demand,
}

impl Kind {
    /// Every mechanism.
    pub const ALL: [Self; 6] =
        [Self::Cooperative, Self::Selfish, Self::Price, Self::Auction, Self::Static, Self::Demand];

    /// Its name as people type it.
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

    /// Whether it goes by penalties; the others are what it is compared with.
    #[must_use]
    pub const fn is_market(self) -> bool {
        match self {
            Self::Cooperative | Self::Selfish | Self::Price | Self::Auction => true,
            Self::Static | Self::Demand => false,
        }
    }

    /// A new mechanism of this kind.
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

/// A name that no mechanism has.
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
    /// No budget yet; see [`crate::broker::BrokerConfig`] for where the numbers come from.
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
