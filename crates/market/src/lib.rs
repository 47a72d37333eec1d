//! The ledger of one memory budget and the consumers that share it.
//!
//! Everything that holds DRAM (pool frames, region blocks, heaps, objects, the reservations of
//! queries) is a [`Consumer`] of one [`Ledger`]. A consumer asks before it takes
//! ([`Consumer::try_grow`]) and gives back what it no longer needs ([`Consumer::shrink`]). The sum
//! of what was granted never exceeds the budget, whatever the interleaving.
//!
//! Some bytes cannot be refused: an allocation that has already happened, a buffer that a library
//! grew on its own. They are taken with [`Consumer::grow_or_owe`]; what the budget cannot cover is
//! *debt*. Debt is shown, blocks new grants and is paid by whatever is given back next.
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
//! # Cost
//! A grant is one compare-and-swap on a word that all consumers share, one addition to the
//! consumer's own counter and one maximum: expected 20 ns, a return 10 ns; measured 36 ns for the
//! two (`cargo test -p terrace-market --release --test stress -- --nocapture`, Zen 4, one thread).

#![forbid(unsafe_code)]

mod account;
mod class;
mod consumer;
mod error;
mod ledger;
mod room;
mod sync;

pub use class::Class;
pub use consumer::{Consumer, ConsumerInfo};
pub use error::{Denied, MarketError};
pub use ledger::{Ledger, Totals};
