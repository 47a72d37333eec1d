//! Consumers: named holders of bytes of a ledger's budget.

use std::{fmt, sync::Arc as StdArc};

use crate::{Class, Denied, Ledger, account::Account, sync::Arc};

/// A named holder of bytes of one ledger. Dropping it gives all its bytes back.
///
/// All operations take `&self` and may run on any thread.
pub struct Consumer {
    ledger: Ledger,
    account: Arc<Account>,
}

/// Counters of one consumer at one moment, for monitoring; all sizes in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumerInfo {
    /// Name under which the consumer was registered.
    pub name: StdArc<str>,
    /// Kind of the consumer.
    pub class: Class,
    /// Bytes held, debt included.
    pub held_bytes: u64,
    /// Bytes of `held_bytes` that the budget does not cover.
    pub debt_bytes: u64,
    /// Maximum of `held_bytes` so far.
    pub peak_bytes: u64,
    /// Fair share; see [`Consumer::fair_share`].
    pub fair_share_bytes: u64,
}

impl Consumer {
    pub(crate) fn new(ledger: Ledger, account: Arc<Account>) -> Self {
        Self { ledger, account }
    }

    /// Returns the name under which the consumer was registered.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.account.name
    }

    /// Returns the kind of the consumer.
    #[must_use]
    pub fn class(&self) -> Class {
        self.account.class
    }

    /// Returns the ledger to which the consumer belongs.
    #[must_use]
    pub fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Returns the bytes held: those taken less those given back, debt included.
    #[must_use]
    pub fn held(&self) -> u64 {
        self.account.held()
    }

    /// Returns the bytes of [`Consumer::held`] that the budget does not cover.
    #[must_use]
    pub fn debt(&self) -> u64 {
        self.account.owed().min(self.held())
    }

    /// Returns the maximum of [`Consumer::held`] so far, debt included.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.account.peak()
    }

    /// Returns the bytes that this consumer may count on beside the other consumers.
    ///
    /// Elastic consumers share equally what the others leave of the budget; the share of a consumer
    /// that is not elastic is what it holds. A fair share is a hint for choosing a victim or sizing
    /// a buffer: a grant may exceed it while there are free bytes.
    #[must_use]
    pub fn fair_share(&self) -> u64 {
        self.ledger.fair_share(&self.account)
    }

    /// Returns all counters of the consumer.
    #[must_use]
    pub fn info(&self) -> ConsumerInfo {
        self.ledger.describe(&self.account)
    }

    /// Takes `bytes` from the budget: all of them or none. Lock-free; never waits.
    ///
    /// # Errors
    /// [`Denied`] if fewer than `bytes` are available, which is always so while there is debt.
    pub fn try_grow(&self, bytes: u64) -> Result<(), Denied> {
        self.ledger.try_grow(&self.account, bytes)
    }

    /// Takes `bytes` even if the budget does not cover them; the part that it does not cover is
    /// debt.
    ///
    /// For bytes that exist already and cannot be refused. Debt blocks every new grant until this
    /// consumer or any other has given enough bytes back.
    pub fn grow_or_owe(&self, bytes: u64) {
        self.ledger.grow_or_owe(&self.account, bytes);
    }

    /// Gives `bytes` back. They pay the debt of this consumer first, then the debt of others.
    ///
    /// # Panics
    /// In debug builds, if `bytes` is more than [`Consumer::held`]; in release builds the surplus
    /// is ignored.
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
