//! A consumer: whoever holds bytes of the budget.

use std::{fmt, sync::Arc as StdArc};

use crate::{Class, Denied, Ledger, account::Account, sync::Arc};

/// A named holder of bytes of one ledger. Dropping it gives everything back.
///
/// All operations take `&self` and may run on any thread.
pub struct Consumer {
    ledger: Ledger,
    account: Arc<Account>,
}

/// What one consumer looks like from outside; all sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerInfo {
    /// The name it was registered under.
    pub name: StdArc<str>,
    /// Its kind.
    pub class: Class,
    /// What it holds, debt included.
    pub held_bytes: u64,
    /// What of it no budget covers.
    pub debt_bytes: u64,
    /// The most it ever held.
    pub peak_bytes: u64,
    /// See [`Consumer::fair_share`].
    pub fair_share_bytes: u64,
}

impl Consumer {
    pub(crate) fn new(ledger: Ledger, account: Arc<Account>) -> Self {
        Self { ledger, account }
    }

    /// The name it was registered under.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.account.name
    }

    /// Its kind.
    #[must_use]
    pub fn class(&self) -> Class {
        self.account.class
    }

    /// The ledger it belongs to.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The bytes it holds: grown less shrunk, debt included.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.account.held()
    }

    /// The bytes of [`Consumer::held`] that no budget covers.
    #[must_use]
    pub fn debt(&self) -> u64 {
        self.account.owed().min(self.held())
    }

    /// The most bytes it ever held, debt included.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.account.peak()
    }

    /// The bytes it may count on beside the other consumers.
    ///
    /// Elastic consumers share equally what the others leave of the budget; one that is not
    /// elastic keeps what it holds. A fair share is advice for whoever must choose a victim or
    /// size a buffer: a grant may exceed it while there is room.
    #[must_use]
    pub fn fair_share(&self) -> u64 {
        self.ledger.fair_share(&self.account)
    }

    /// Everything about it at once.
    #[must_use]
    pub fn info(&self) -> ConsumerInfo {
        self.ledger.describe(&self.account)
    }

    /// Takes `bytes` of the budget: all of them or none. Lock-free; never waits.
    ///
    /// # Errors
    /// [`Denied`] if fewer than `bytes` are available, which is always so while there is debt.
    pub fn try_grow(&self, bytes: u64) -> Result<(), Denied> {
        self.ledger.try_grow(&self.account, bytes)
    }

    /// Takes `bytes` whether the budget covers them or not; what it does not cover is debt.
    ///
    /// For bytes that exist already and cannot be refused. Debt stops every new grant until
    /// enough was given back, by this consumer or any other.
    pub fn grow_or_owe(&self, bytes: u64) {
        self.ledger.grow_or_owe(&self.account, bytes);
    }

    /// Gives `bytes` back. They pay this consumer's debt first, then the debt of others.
    ///
    /// # Panics
    /// In debug builds, if more than [`Consumer::held`] is given back; in release builds the
    /// surplus is ignored.
    pub fn shrink(&self, bytes: u64) {
        let given = self.ledger.shrink(&self.account, bytes);
        debug_assert_eq!(given, bytes, "`{}` gave back more than it held", self.name());
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        self.ledger.unregister(&self.account);
    }
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Consumer").field(&self.info()).finish()
    }
}
