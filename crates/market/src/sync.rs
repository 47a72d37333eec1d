//! The atomics and the lock of the ledger: the standard library's, or loom's under the model
//! checker.

#[cfg(loom)]
pub(crate) use loom::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicI64, AtomicU64, Ordering},
};
#[cfg(not(loom))]
pub(crate) use std::sync::{
    Arc, Mutex, MutexGuard,
    atomic::{AtomicI64, AtomicU64, Ordering},
};
