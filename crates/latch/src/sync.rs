//! The synchronisation types of the modules that loom explores.
//!
//! Under `--cfg loom` they are loom's, elsewhere the standard library's.

#[cfg(loom)]
pub(crate) use loom::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(loom)]
pub(crate) use loom::sync::{Condvar, Mutex, MutexGuard};
#[cfg(not(loom))]
pub(crate) use std::sync::atomic::{AtomicU64, Ordering, fence};
#[cfg(not(loom))]
pub(crate) use std::sync::{Condvar, Mutex, MutexGuard};

use std::sync::PoisonError;

/// Locks a mutex whose data no panic can leave half changed.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Gives way for a moment between two looks at a contended word.
pub(crate) fn relax() {
    #[cfg(loom)]
    loom::thread::yield_now();
    #[cfg(not(loom))]
    std::hint::spin_loop();
}

/// Stands for the total order of sequentially consistent accesses, which loom does not model but
/// by fences; elsewhere the accesses have it by themselves.
pub(crate) fn total_order() {
    #[cfg(loom)]
    fence(Ordering::SeqCst);
}
