//! Results of a store's recovery when it was opened.

use std::ffi::c_char;

use crate::arguments::{place, shared};
use crate::status::{Status, attempt, status};
use crate::store::Objects;

/// Results of the recovery of a store with a log when it was opened; all zero without a log.
#[derive(Clone, Copy, Debug)]
#[repr(C)]
pub struct ObjectsRecovered {
    /// 1 if there was a dump, 0 otherwise.
    pub dump: u64,
    /// Number of logs that were read.
    pub logs: u64,
    /// Number of changes in these logs.
    pub changes: u64,
    /// Bytes at the end of the logs that were being written when the process stopped, or were not
    /// on the device when the machine did.
    pub torn_bytes: u64,
    /// Number of parts that were left out, with a text for each: changes that were not synced when
    /// the machine stopped, and were found behind others that are lost; and damage, with
    /// TERRACE_OBJECTS_ACCEPT_DAMAGE. The files are kept in the log's directory under names that
    /// begin with damaged-.
    pub damages: u64,
}

/// Stores the results of a store's recovery in *out.
///
/// # Safety
/// The handle is NULL, or came from terrace_objects_dram, terrace_objects_node or
/// terrace_objects_region and was not closed; out is NULL or points to space for the numbers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_get_recovered(
    objects: *const Objects,
    out: *mut ObjectsRecovered,
) -> Status {
    status(|| {
        // SAFETY: the caller's promise, for both.
        let (out, objects) = unsafe { (place(out, "out")?, shared(objects, "objects")?) };
        let (recovered, damage) = (objects.found.recovered(), objects.found.damage());
        out.put(ObjectsRecovered {
            dump: recovered.dump.into(),
            logs: recovered.logs,
            changes: recovered.changes,
            torn_bytes: recovered.torn_bytes,
            damages: terrace_sys::size::to_u64(damage.len()),
        });
        Ok(())
    })
}

/// Returns a sentence about a part that was left out when a store was opened: number n of
/// terrace_objects_recovered.damages, counted from 0. NULL if there are not as many, or for NULL.
/// The text is valid until the handle is closed.
///
/// # Safety
/// The handle is NULL, or a store's that was not closed.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn terrace_objects_damage(
    objects: *const Objects,
    n: usize,
) -> *const c_char {
    let text = attempt(|| {
        // SAFETY: the caller's promise.
        let objects = unsafe { shared(objects, "objects") }?;
        Ok(objects.found.damage().get(n).map(|text| text.as_ptr()))
    });
    text.ok().flatten().unwrap_or(std::ptr::null())
}
