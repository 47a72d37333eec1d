//! Synchronisation types of the state word, which loom explores, and locking of mutexes.
//!
//! Under `--cfg loom` the atomics are loom's, elsewhere the standard library's.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering};

#[cfg(not(loom))]
pub(crate) use locked::lock;

#[cfg(not(loom))]
mod locked {
    use std::sync::{Mutex, MutexGuard, PoisonError};

    /// Locks a mutex whose data no panic can leave half changed.
    pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
        mutex.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
