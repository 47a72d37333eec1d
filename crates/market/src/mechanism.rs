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
mod interface;
mod kind;
mod price;
mod seat;
mod supply;

pub use auction::Auction;
pub use baseline::{DemandDriven, StaticSplit};
pub use exchange::Exchange;
pub use interface::{Allotment, Mechanism, Snapshot, Terms, Trade};
pub use kind::{Kind, UnknownKind};
pub use price::Price;

pub(crate) use supply::{worth_of_less, worth_of_more};

impl Kind {
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
