//! Locks without poison.
//!
//! A lock of the standard library is poisoned when a thread panics while it holds it. State behind
//! these locks is changed in one step, so that it is consistent even after a panic, and other
//! threads may continue to use it.

use std::sync::{Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

/// Locks a mutex.
pub fn lock<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a value for reading.
pub fn read<T: ?Sized>(value: &RwLock<T>) -> RwLockReadGuard<'_, T> {
    value.read().unwrap_or_else(PoisonError::into_inner)
}

/// Locks a value for writing.
pub fn write<T: ?Sized>(value: &RwLock<T>) -> RwLockWriteGuard<'_, T> {
    value.write().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_leaves_locks_usable() {
        let (mutex, value) = (Mutex::new(1), RwLock::new(2));
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let _held = (lock(&mutex), write(&value));
                panic!("while both are held");
            });
            thread.join().expect_err("it panicked");
        });
        *lock(&mutex) += 1;
        let doubled = 2 * *read(&value);
        *write(&value) = doubled;
        assert_eq!((*lock(&mutex), *read(&value)), (2, 4));
    }
}
