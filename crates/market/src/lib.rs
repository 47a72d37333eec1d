//! Memory market: decides how much of one budget each consumer should hold.
//!
//! The ledger (`terrace-ledger`) refuses memory when none is free; the market decides beforehand.
//! Work is slower with less memory ([`curve`]), slowness has a penalty ([`sla`]), and a
//! [`mechanism`] moves memory to where it saves most. A [`Broker`] runs the mechanism once per
//! interval and publishes a [`Target`] for each consumer.

#![forbid(unsafe_code)]

pub mod broker;
pub mod curve;
mod damper;
pub mod mechanism;
mod number;
mod performance;
pub mod sla;

pub use broker::{Broker, BrokerConfig, MarketRow, Outcome, Standing, Target};
pub use curve::{
    Correction, Curve, CurveError, HashModel, Point, Sampler, Shards, SortModel, Spill, Touched,
};
pub use mechanism::{Kind, Mechanism};
pub use performance::{Performance, Run, Tail};
pub use sla::{Sla, SlaError};
