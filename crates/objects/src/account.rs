//! Budget account of a store: its slabs, unless a region charges for them, and its table.

use terrace_ledger::{Class, Consumer, Denied, Ledger};

/// Account of a store with the ledger; without a ledger, every charge succeeds.
pub(crate) struct Account {
    consumer: Option<Consumer>,
    /// True if slabs are charged here, and not by the region that holds them.
    slabs_count: bool,
}

impl Account {
    pub(crate) fn new(ledger: Option<&Ledger>, name: &str, slabs_count: bool) -> Self {
        let consumer = ledger.map(|ledger| ledger.register(name, Class::Objects));
        Self { consumer, slabs_count }
    }

    /// Charges bytes for slabs, unless their region charges for them.
    pub(crate) fn pay_slabs(&self, bytes: u64) -> Result<(), Denied> {
        if self.slabs_count { self.pay_table(bytes) } else { Ok(()) }
    }

    /// Returns bytes that [`Account::pay_slabs`] has charged.
    pub(crate) fn give_slabs_back(&self, bytes: u64) {
        if self.slabs_count {
            self.give_back(bytes);
        }
    }

    /// Charges bytes for the table, or for buffers; slabs are charged by [`Account::pay_slabs`].
    pub(crate) fn pay_table(&self, bytes: u64) -> Result<(), Denied> {
        self.consumer.as_ref().map_or(Ok(()), |consumer| consumer.try_grow(bytes))
    }

    /// Returns bytes to the budget that [`Account::pay_table`] has charged.
    pub(crate) fn give_back(&self, bytes: u64) {
        if let Some(consumer) = &self.consumer {
            consumer.shrink(bytes);
        }
    }

    /// Charges bytes to the budget until the returned value is dropped.
    pub(crate) fn borrow(&self, bytes: u64) -> Result<Borrowed<'_>, Denied> {
        self.pay_table(bytes)?;
        Ok(Borrowed { account: self, bytes })
    }
}

/// Bytes of the budget that are charged for a limited time.
pub(crate) struct Borrowed<'a> {
    account: &'a Account,
    bytes: u64,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.account.give_back(self.bytes);
    }
}
