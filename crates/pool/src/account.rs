//! Accounting of a memory tier: the bytes that its frames hold of the tier's ledger.

use std::sync::Mutex;

use terrace_ledger::{Class, Consumer, Ledger};

use crate::sync::lock;

/// The pool's account with one ledger: at least `floor` bytes, more as frames need them.
#[derive(Debug)]
pub(crate) struct Account {
    consumer: Consumer,
    floor: u64,
    used: Mutex<u64>,
}

impl Account {
    /// Registers `name` with `ledger` and takes the floor, or returns the ledger's denial.
    pub(crate) fn open(
        ledger: &Ledger,
        name: &str,
        floor: u64,
    ) -> Result<Self, terrace_ledger::Denied> {
        let consumer = ledger.register(name, Class::Pool);
        consumer.try_grow(floor)?;
        Ok(Self { consumer, floor, used: Mutex::new(0) })
    }

    /// Takes `bytes` more for a frame. False if the ledger has no room.
    pub(crate) fn take(&self, bytes: u64) -> bool {
        let mut used = lock(&self.used);
        let more = (*used + bytes).max(self.floor) - (*used).max(self.floor);
        if more > 0 && self.consumer.try_grow(more).is_err() {
            return false;
        }
        *used += bytes;
        true
    }

    /// Takes `bytes` more for a frame, as a debt if the ledger has no room. False if the ledger's
    /// debt would exceed `limit`.
    pub(crate) fn owe(&self, bytes: u64, limit: u64) -> bool {
        let mut used = lock(&self.used);
        let more = (*used + bytes).max(self.floor) - (*used).max(self.floor);
        if self.debt() + more > limit {
            return false;
        }
        self.consumer.grow_or_owe(more);
        *used += bytes;
        true
    }

    /// Bytes of debt for frames of this tier.
    pub(crate) fn owed(&self) -> u64 {
        self.consumer.debt()
    }

    /// Bytes of debt of the whole ledger.
    pub(crate) fn debt(&self) -> u64 {
        self.consumer.ledger().debt()
    }

    /// Gives back `bytes` of frames. Returns the bytes that went back to the ledger, those above
    /// the floor.
    pub(crate) fn give(&self, bytes: u64) -> u64 {
        let mut used = lock(&self.used);
        debug_assert!(*used >= bytes, "more bytes given back than taken");
        let left = used.saturating_sub(bytes);
        let less = (*used).max(self.floor) - left.max(self.floor);
        *used = left;
        self.consumer.shrink(less);
        less
    }

    /// Bytes of frames in use or warm.
    pub(crate) fn used(&self) -> u64 {
        *lock(&self.used)
    }

    /// Bytes available to a frame at this moment.
    pub(crate) fn room(&self) -> u64 {
        let used = *lock(&self.used);
        self.consumer.ledger().available() + self.floor.saturating_sub(used)
    }

    /// Unused bytes of the ledger, available to any consumer.
    pub(crate) fn available(&self) -> u64 {
        self.consumer.ledger().available()
    }

    /// Bytes above the floor, which can go back to the ledger.
    pub(crate) fn surplus(&self) -> u64 {
        lock(&self.used).saturating_sub(self.floor)
    }

    /// Bytes held by the other consumers of the ledger, with their names.
    pub(crate) fn others(&self) -> impl Iterator<Item = (String, u64)> {
        let others = self.consumer.ledger().consumers().into_iter();
        let others =
            others.filter(|it| it.class != Class::Pool || *it.name != *self.consumer.name());
        others.map(|other| (other.name.to_string(), other.held_bytes))
    }

    pub(crate) fn budget(&self) -> u64 {
        self.consumer.ledger().budget()
    }

    /// Changes the budget of the ledger. False while more than that is held.
    pub(crate) fn set_budget(&self, bytes: u64) -> bool {
        self.consumer.ledger().set_budget(bytes).is_ok()
    }

    /// Bytes that the account takes when it is opened and holds until the pool ends, used by frames
    /// or not.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }
}
