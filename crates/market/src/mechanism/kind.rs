//! Kinds of mechanisms, and their names.

use std::{fmt, str::FromStr};

/// Available mechanisms.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Kind {
    /// [`Exchange::cooperative`](super::Exchange::cooperative).
    Cooperative,
    /// [`Exchange::selfish`](super::Exchange::selfish).
    Selfish,
    /// [`Price`](super::Price).
    Price,
    /// [`Auction`](super::Auction): the mechanism with the lowest penalty in the simulator.
    #[default]
    Auction,
    /// [`StaticSplit`](super::StaticSplit).
    Static,
    /// [`DemandDriven`](super::DemandDriven).
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
