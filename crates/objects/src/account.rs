//! What a store holds of its budget: slabs, unless a region counts them, and the table.

use terrace_market::{Class, Consumer, Denied, Ledger};

/// The account of a store, which may have no budget.
pub(crate) struct Account {
    consumer: Option<Consumer>,
    /// Whether slabs count, or somebody else counts what is in memory of them.
    slabs_count: bool,
}

impl Account {
    pub(crate) fn new(ledger: Option<&Ledger>, name: &str, slabs_count: bool) -> Self {
        let consumer = ledger.map(|ledger| ledger.register(name, Class::Objects));
        Self { consumer, slabs_count }
    }

    /// Takes bytes for slabs.
    pub(crate) fn pay_slabs(&self, bytes: u64) -> Result<(), Denied> {
        if self.slabs_count { self.pay_table(bytes) } else { Ok(()) }
    }

    /// Gives bytes of slabs back.
    pub(crate) fn give_slabs_back(&self, bytes: u64) {
        if self.slabs_count {
            self.give_back(bytes);
        }
    }

    /// Takes bytes for groups.
    pub(crate) fn pay_table(&self, bytes: u64) -> Result<(), Denied> {
        self.consumer.as_ref().map_or(Ok(()), |consumer| consumer.try_grow(bytes))
    }

    /// Gives bytes of groups back.
    pub(crate) fn give_back(&self, bytes: u64) {
        if let Some(consumer) = &self.consumer {
            consumer.shrink(bytes);
        }
    }

    /// Takes bytes for as long as what is returned lives.
    pub(crate) fn borrow(&self, bytes: u64) -> Result<Borrowed<'_>, Denied> {
        self.pay_table(bytes)?;
        Ok(Borrowed { account: self, bytes })
    }
}

/// Bytes of the budget for something that passes.
pub(crate) struct Borrowed<'a> {
    account: &'a Account,
    bytes: u64,
}

impl Drop for Borrowed<'_> {
    fn drop(&mut self) {
        self.account.give_back(self.bytes);
    }
}
