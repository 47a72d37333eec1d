//! Waiting in the middle of a poll.

use tokio::runtime::{Handle, RuntimeFlavor};

/// Runs what may wait, with other tasks of this thread moved to another where that is possible.
/// They may be the ones that are waited for.
pub(crate) fn aside<T>(wait: impl FnOnce() -> T) -> T {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    match flavor {
        Ok(RuntimeFlavor::MultiThread) => tokio::task::block_in_place(wait),
        _ => wait(),
    }
}
