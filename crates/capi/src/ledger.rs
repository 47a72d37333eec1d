//! Budgets shared by several regions, heaps and stores.

use crate::arguments::{place, shared, take_handle};
use crate::status::{Failure, Status, attempt, status};

/// One budget of DRAM that several regions, heaps and stores of objects count against.
///
/// All functions may be called from any thread, except terrace_ledger_free beside another call
/// with the same handle.
pub struct Ledger {
    pub(crate) ledger: terrace_market::Ledger,
}

/// Makes a ledger over a budget in bytes, and gives it to *out.
///
/// # Safety
/// out is NULL, or leads to room for a pointer.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_ledger_new(budget_bytes: u64, out: *mut *mut Ledger) -> Status {
    status(|| {
        // SAFETY: the caller's promise.
        let out = unsafe { place(out, "out") }?;
        if budget_bytes == 0 {
            return Err(Failure::invalid("a ledger over nothing: its budget is 1 byte at least"));
        }
        out.put_handle(Ledger { ledger: terrace_market::Ledger::new(budget_bytes) });
        Ok(())
    })
}

/// Gives the handle back; NULL is allowed. Whatever counts against the budget goes on doing so.
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

/// The budget in bytes; 0 for NULL.
///
/// # Safety
/// The handle is NULL, or came from terrace_ledger_new and was not given back.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_ledger_budget(ledger: *const Ledger) -> u64 {
    // SAFETY: the caller's promise.
    attempt(|| Ok(unsafe { shared(ledger, "ledger") }?.ledger.budget())).unwrap_or(0)
}

/// Bytes that regions, heaps and stores hold of the budget; 0 for NULL.
///
/// # Safety
/// As for terrace_ledger_budget.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_ledger_granted(ledger: *const Ledger) -> u64 {
    // SAFETY: the caller's promise.
    attempt(|| Ok(unsafe { shared(ledger, "ledger") }?.ledger.granted())).unwrap_or(0)
}
