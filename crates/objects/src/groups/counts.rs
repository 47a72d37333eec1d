//! Counters of a store's objects and ids, in sets for groups of threads.

use std::sync::atomic::{AtomicI64, Ordering};

use crate::threads::place;

/// Counters of a group of threads, on a cache line of their own.
#[repr(align(64))]
#[derive(Debug, Default)]
struct Counters {
    objects: AtomicI64,
    reserved: AtomicI64,
    retired: AtomicI64,
    bytes: AtomicI64,
}

/// Counters of a store, one set for each group of threads, so that few threads write to the same
/// cache line. A thread changes the set of its group; readers add up all sets.
pub(crate) struct Counts {
    all: Vec<Counters>,
}

impl Counts {
    /// Creates zero counters for each of `places` groups of threads.
    pub(crate) fn new(places: usize) -> Self {
        Self { all: (0..places).map(|_| Counters::default()).collect() }
    }

    #[inline]
    fn own(&self) -> &Counters {
        &self.all[place() % self.all.len()]
    }

    /// Counts an object that was created.
    #[inline]
    pub(crate) fn add(&self, len: usize) {
        let own = self.own();
        own.objects.fetch_add(1, Ordering::Relaxed);
        own.bytes.fetch_add(signed(len), Ordering::Relaxed);
    }

    /// Counts an object that was removed.
    #[inline]
    pub(crate) fn remove(&self, len: usize) {
        let own = self.own();
        own.objects.fetch_sub(1, Ordering::Relaxed);
        own.bytes.fetch_sub(signed(len), Ordering::Relaxed);
    }

    /// Counts the change of an object's length.
    #[inline]
    pub(crate) fn resize(&self, from: usize, to: usize) {
        self.own().bytes.fetch_add(signed(to) - signed(from), Ordering::Relaxed);
    }

    /// Counts ids as reserved.
    pub(crate) fn reserve(&self, ids: usize) {
        self.own().reserved.fetch_add(signed(ids), Ordering::Relaxed);
    }

    /// Counts an id as no longer reserved.
    pub(crate) fn unreserve(&self) {
        self.own().reserved.fetch_sub(1, Ordering::Relaxed);
    }

    /// Counts a slot as retired.
    pub(crate) fn retire(&self) {
        self.own().retired.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a slot as no longer retired.
    pub(crate) fn unretire(&self) {
        self.own().retired.fetch_sub(1, Ordering::Relaxed);
    }

    /// Number of objects.
    pub(crate) fn objects(&self) -> i64 {
        self.sum(|it| &it.objects)
    }

    /// Number of reserved ids.
    pub(crate) fn reserved(&self) -> i64 {
        self.sum(|it| &it.reserved)
    }

    /// Number of retired slots.
    pub(crate) fn retired(&self) -> i64 {
        self.sum(|it| &it.retired)
    }

    /// Bytes of all objects.
    pub(crate) fn bytes(&self) -> i64 {
        self.sum(|it| &it.bytes)
    }

    fn sum(&self, of: fn(&Counters) -> &AtomicI64) -> i64 {
        self.all.iter().map(|it| of(it).load(Ordering::Relaxed)).sum()
    }
}

#[inline]
fn signed(bytes: usize) -> i64 {
    i64::try_from(bytes).unwrap_or(i64::MAX)
}
