//! What is wrong with a tier.

use crate::store::StoreError;

/// An error about a tier; the message says what would be right.
#[derive(Clone, Debug, thiserror::Error)]
pub enum TierError {
    /// The text is not the name of a tier.
    #[error("tier \"{text}\": {reason}; tiers look like {}", crate::spec::EXAMPLES)]
    Syntax {
        /// What was typed.
        text: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The tier does not exist on this machine, or not as large.
    #[error("tier \"{spec}\": {reason}")]
    Unavailable {
        /// The tier.
        spec: String,
        /// What this machine lacks, and what it has.
        reason: String,
    },
    /// The store of the tier cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
}
