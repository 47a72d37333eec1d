//! Errors of tier specifications.

use terrace_store::StoreError;

/// One example of each form.
pub(crate) const EXAMPLES: &str = "dram:2GiB, node1:8GiB, cxl:16GiB, emu:8GiB@250ns, \
                                   file:/data/terrace:100GiB or dev:/dev/nvme1n1:1TiB@250MiB/s";

/// An error of a tier; the message names valid alternatives.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TierError {
    /// The text is not a valid tier specification.
    #[error("tier \"{text}\": {reason}; tiers look like {}", EXAMPLES)]
    Syntax {
        /// The invalid text.
        text: String,
        /// Description of the fault.
        reason: String,
    },
    /// The tier does not exist on this machine, or not in the requested size.
    #[error("tier \"{spec}\": {reason}")]
    Unavailable {
        /// Specification of the tier.
        spec: String,
        /// Description of what this machine lacks and of what it has.
        reason: String,
    },
    /// The store of the tier cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}
