//! Multi-statement transactions, under snapshot isolation.
//!
//! A transaction reads the catalog as of its first statement, with its own changes
//! ([`crate::catalog::Draft`]). Its commit makes all of them durable and visible atomically. Two
//! transactions conflict if both change the same names, or both delete or update rows of the same
//! table: the second waits for the end of the first and then fails with [`SqlError::Conflict`],
//! unless the statement that waited is its first one, which then reads the result of the first
//! transaction. Transactions that only add rows conflict only with a drop of the table. A wait for
//! the lock of a table is limited by the [`LockTimeout`] of its statement.
//!
//! [`SqlError::Conflict`]: crate::SqlError::Conflict

mod lock_timeout;
mod open;
mod scope;
mod several;

pub use lock_timeout::LockTimeout;
pub use open::TransactionStatus;
pub use open::{OpenTransaction, Transaction};
pub use scope::{Rewrite, Scope};
pub use several::Rewrites;
