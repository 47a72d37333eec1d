//! Requirements of tests on the kernel, and visible skips of tests that lack them.
//!
//! Tests run everywhere. Each test checks its requirements here; without them it passes, and
//! reports on standard error that it was skipped, and why.

use std::fs::{File, OpenOptions};
use std::io::Write as _;

use terrace_sys::map::Mapping;
use terrace_sys::migrate::node_of;
use terrace_sys::size::PAGE_BYTES;
use terrace_sys::userfault::{Userfault, UserfaultFeatures};

/// True if regions can be created: userfaultfd with poison and write protection.
#[must_use]
pub fn regions() -> bool {
    or_skip("a region", paging()).is_some()
}

/// True if regions can move their blocks (`UFFDIO_MOVE`).
#[must_use]
pub fn moves() -> bool {
    let moving = paging().and_then(|features| match features.moves {
        true => Ok(()),
        false => Err("userfaultfd cannot move pages (Linux 6.8)".to_owned()),
    });
    or_skip("a region that moves its blocks", moving).is_some()
}

/// True if memory can be bound to a NUMA node and the node of a page can be queried.
#[must_use]
pub fn nodes() -> bool {
    or_skip("memory of a node", placed()).is_some()
}

/// Opens the file that makes the kernel compact memory, moving pages of any process to other
/// frames, whenever `1` is written at its beginning.
#[must_use]
pub fn compaction() -> Option<File> {
    const PATH: &str = "/proc/sys/vm/compact_memory";
    let opened = OpenOptions::new().write(true).open(PATH);
    or_skip("compaction of memory", opened.map_err(|error| format!("{PATH}: {error}")))
}

fn placed() -> Result<(), String> {
    let mapping = Mapping::reserve(PAGE_BYTES).map_err(|error| error.to_string())?;
    mapping.bind(0).map_err(|error| format!("mbind: {error}"))?;
    node_of(mapping.as_ptr()).map_err(|error| format!("move_pages: {error}"))?;
    Ok(())
}

fn paging() -> Result<UserfaultFeatures, String> {
    let fault = Userfault::open().map_err(|error| format!("userfaultfd: {error}"))?;
    let features = fault.features();
    if !features.poisons || !features.protects {
        return Err("userfaultfd cannot poison and protect pages (Linux 6.6)".to_owned());
    }
    Ok(features)
}

/// Returns the resource `made`. If it could not be made, reports that the test is skipped for lack
/// of `what`, with the reason, and returns `None`.
pub fn or_skip<T>(what: &str, made: Result<T, String>) -> Option<T> {
    made.map_err(|reason| skip(&format!("{what} cannot be made here: {reason}"))).ok()
}

/// Reports that this test, or a part of it, is skipped.
pub fn skip(reason: &str) {
    // The harness names a thread after its test.
    let thread = std::thread::current();
    report(&format!("SKIPPED {}: {reason}", thread.name().unwrap_or("a thread")));
}

/// Prints a message past the test harness's capture of output, so that it shows in every run.
pub(crate) fn report(message: &str) {
    // An error of standard error itself cannot be reported.
    drop(writeln!(std::io::stderr(), "{message}"));
}
