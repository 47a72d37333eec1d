//! Budgets shared by several regions, heaps and stores.

use crate::arguments::{place, shared, take_handle};
use crate::status::{Failure, Status, attempt, status};

/// A budget of DRAM that several regions, heaps and stores of objects share.
///
/// All functions may be called from any thread, except terrace_ledger_free during another call with
/// the same handle.
pub struct Ledger {
    pub(crate) ledger: terrace_ledger::Ledger,
}

/// Creates a ledger with a budget in bytes, and stores its handle in *out.
///
/// # Safety
/// out is NULL, or points to space for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_ledger_new(budget_bytes: u64, out: *mut *mut Ledger) -> Status {
    status(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { place(out, "out") }?;
        if budget_bytes == 0 {
            return Err(Failure::invalid("a ledger over nothing: its budget is 1 byte at least"));
        }
        out.put_handle(Ledger { ledger: terrace_ledger::Ledger::new(budget_bytes) });
        Ok(())
    })
}

/// Releases the handle; NULL is allowed. Everything that counts against the budget continues to do
/// so.
///
/// # Safety
/// The handle is NULL, or came from terrace_ledger_new and is not used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_ledger_free(ledger: *mut Ledger) {
    let _ = attempt(|| {
        // SAFETY: the caller's promise.
        drop(unsafe { take_handle(ledger) });
        Ok(())
    });
}

/// Returns the budget in bytes; 0 for NULL.
///
/// # Safety
/// The handle is NULL, or came from terrace_ledger_new and was not freed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_ledger_budget(ledger: *const Ledger) -> u64 {
    // SAFETY: the caller's promise.
    attempt(|| Ok(unsafe { shared(ledger, "ledger") }?.ledger.budget())).unwrap_or(0)
}

/// Returns the bytes that regions, heaps and stores hold of the budget; 0 for NULL.
///
/// # Safety
/// As for terrace_ledger_budget.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_ledger_granted(ledger: *const Ledger) -> u64 {
    // SAFETY: the caller's promise.
    attempt(|| Ok(unsafe { shared(ledger, "ledger") }?.ledger.granted())).unwrap_or(0)
}
