//! Memory ledger and memory market: one budget, its consumers, and the grants of each.
//!
//! # The ledger
//!
//! Every holder of DRAM (pool frames, region blocks, heaps, objects, the reservations of queries)
//! is a [`Consumer`] of one [`Ledger`]. A consumer asks for memory before it uses it
//! ([`Consumer::try_grow`]) and gives back what it no longer needs ([`Consumer::shrink`]). The sum
//! of the grants never exceeds the budget, in any interleaving.
//!
//! Some bytes cannot be refused: an allocation that has already happened, a buffer that a library
//! grew on its own. They are taken with [`Consumer::grow_or_owe`]; the part that the budget cannot
//! cover is *debt*. Debt is reported, blocks new grants, and is paid by the next bytes given back.
//!
//! ```
//! use terrace_market::{Class, Ledger};
//!
//! let ledger = Ledger::new(1 << 20);
//! let pool = ledger.register("pages", Class::Pool);
//! pool.try_grow(1 << 19)?;
//! let query = ledger.register("query 1", Class::Query);
//! assert!(query.try_grow(1 << 20).is_err());
//! query.grow_or_owe(1 << 20);
//! assert_eq!(ledger.debt(), 1 << 19);
//! pool.shrink(1 << 19);
//! assert_eq!((ledger.debt(), ledger.granted()), (0, 1 << 20));
//! # Ok::<(), terrace_market::Denied>(())
//! ```
//!
//! # The market
//!
//! The ledger refuses memory when none is free; the market decides beforehand how much each
//! consumer should hold. Work is slower with less memory ([`curve`]), slowness has a penalty
//! ([`sla`]), and a [`mechanism`] moves memory to where it saves most. A [`Broker`] runs the
//! mechanism once per interval and publishes a [`Target`] for each consumer; [`simulate`] runs the
//! same broker over a recorded trace.
//!
//! # Cost
//! A grant is one compare-and-swap on a word that all consumers share, one addition to the
//! consumer's own counter and one maximum: expected 20 ns, a return 10 ns; measured 36 ns for the
//! two (`cargo test -p terrace-market --release --test stress -- --nocapture`, Zen 4, one thread).

#![forbid(unsafe_code)]

mod account;
pub mod broker;
mod class;
mod consumer;
pub mod curve;
mod damper;
mod error;
mod ledger;
pub mod mechanism;
mod number;
mod performance;
mod room;
pub mod simulate;
pub mod sla;
mod sync;

pub use broker::{Broker, BrokerConfig, MarketRow, Outcome, Standing, Target};
pub use class::Class;
pub use consumer::{Consumer, ConsumerInfo};
pub use curve::{
    Correction, Curve, CurveError, HashModel, Point, Sampler, Shards, SortModel, Spill, Touched,
};
pub use error::{Denied, MarketError};
pub use ledger::{Ledger, Totals};
pub use mechanism::{Kind, Mechanism};
pub use performance::{Performance, Run, Tail};
pub use sla::{Sla, SlaError};
