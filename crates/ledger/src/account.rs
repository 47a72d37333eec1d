//! Counters of one consumer.

use std::sync::Arc;

use crate::{
    Class,
    sync::{AtomicU64, Ordering},
};

/// Bytes held and owed by one consumer, and the maximum of the bytes held.
///
/// `held` follows the ledger's room word: it grows after the word was charged and shrinks before
/// the word is credited, so the sum over all accounts never exceeds what was taken from the budget.
#[derive(Debug)]
pub(crate) struct Account {
    pub(crate) id: u64,
    pub(crate) name: Arc<str>,
    pub(crate) class: Class,
    held: AtomicU64,
    owed: AtomicU64,
    peak: AtomicU64,
}

impl Account {
    pub(crate) fn new(id: u64, name: Arc<str>, class: Class) -> Self {
        let zero = || AtomicU64::new(0);
        Self { id, name, class, held: zero(), owed: zero(), peak: zero() }
    }

    /// Returns the bytes held, debt included.
    pub(crate) fn held(&self) -> u64 {
        self.held.load(Ordering::Acquire)
    }

    /// Returns the bytes of debt: those that the budget does not cover.
    pub(crate) fn owed(&self) -> u64 {
        self.owed.load(Ordering::Acquire)
    }

    /// Returns the maximum number of bytes held so far.
    pub(crate) fn peak(&self) -> u64 {
        self.peak.load(Ordering::Acquire)
    }

    /// Adds bytes that were taken from the budget.
    pub(crate) fn add(&self, bytes: u64) {
        let held = self.held.fetch_add(bytes, Ordering::AcqRel).saturating_add(bytes);
        self.peak.fetch_max(held, Ordering::AcqRel);
    }

    /// Subtracts at most `bytes` and returns how many of them were held.
    pub(crate) fn remove(&self, bytes: u64) -> u64 {
        let mut held = self.held.load(Ordering::Relaxed);
        loop {
            let gone = held.min(bytes);
            match self.held.compare_exchange_weak(
                held,
                held - gone,
                Ordering::AcqRel,
                Ordering::Relaxed,
            ) {
                Ok(_) => return gone,
                Err(now) => held = now,
            }
        }
    }

    /// Adds to the debt. The caller holds the ledger's lock.
    pub(crate) fn owe(&self, bytes: u64) {
        self.owed.fetch_add(bytes, Ordering::AcqRel);
    }

    /// Reduces the debt by at most `bytes` and returns the part of `bytes` that no debt is left
    /// for. The caller holds the ledger's lock.
    pub(crate) fn pay(&self, bytes: u64) -> u64 {
        let paid = self.owed().min(bytes);
        self.owed.fetch_sub(paid, Ordering::AcqRel);
        bytes - paid
    }
}
