//! Names of the mechanisms that share memory.

use std::fmt;
use std::str::FromStr;

use terrace_market::Kind;

use crate::error::GovernorError;

/// Mechanism that decides how much memory a query may have under contention: `SET terrace.market`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MarketKind {
    /// No market: dynamic thresholds keep the shares fair.
    Fair,
    /// Equal parts for all, whatever their use. A baseline for comparison.
    Static,
    /// Queries get what they ask for, in the order they came. A baseline for comparison.
    Demand,
    /// Consumers trade whenever the sum of penalties falls.
    Exchange,
    /// A broker posts a price.
    Price,
    /// The budget is sold to the highest bids.
    #[default]
    Auction,
}

impl MarketKind {
    /// All kinds.
    pub const ALL: [Self; 6] =
        [Self::Fair, Self::Static, Self::Demand, Self::Exchange, Self::Price, Self::Auction];

    /// Returns its name as users type it.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Fair => "fair",
            Self::Static => "static",
            Self::Demand => "demand",
            Self::Exchange => "exchange",
            Self::Price => "price",
            Self::Auction => "auction",
        }
    }

    /// Returns the mechanism; `None` if there is no market.
    pub(super) const fn mechanism(self) -> Option<Kind> {
        match self {
            Self::Fair => None,
            Self::Static => Some(Kind::Static),
            Self::Demand => Some(Kind::Demand),
            Self::Exchange => Some(Kind::Cooperative),
            Self::Price => Some(Kind::Price),
            Self::Auction => Some(Kind::Auction),
        }
    }
}

impl fmt::Display for MarketKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for MarketKind {
    type Err = GovernorError;

    fn from_str(name: &str) -> Result<Self, GovernorError> {
        let known = Self::ALL.into_iter().find(|kind| kind.as_str().eq_ignore_ascii_case(name));
        known.ok_or_else(|| GovernorError::Refused {
            what: format!("the market {name}"),
            instead: "there are fair, static, demand, exchange, price and auction".to_owned(),
        })
    }
}
