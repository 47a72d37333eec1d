//! Synchronisation types of the modules that loom tests.
//!
//! Under `--cfg loom` they are loom's, else the standard library's.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

use std::sync::PoisonError;

/// Locks a mutex, ignoring poison: a panic cannot leave its data inconsistent.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Pauses between two attempts on a contended word (`spin_loop`).
pub(crate) fn relax() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}

/// Fence for the total order of sequentially consistent accesses, which loom models only for
/// fences. Without loom it does nothing, since the accesses themselves are so ordered.
pub(crate) fn total_order() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}
