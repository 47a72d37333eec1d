//! Identity of a store in its files.

use super::blocks::{Head, VERSION, salt};
use crate::config::ObjectConfig;
use crate::error::ObjectError;

/// Properties of a store that the heads of its files record.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Identity {
    node: u16,
    /// True if ids have generations.
    generations: bool,
}

impl Identity {
    pub(crate) fn of(config: &ObjectConfig) -> Self {
        Self { node: config.node, generations: config.generations }
    }

    /// Returns the head of a file of this store.
    pub(crate) fn head(self, magic: [u8; 8], sequence: u64) -> Head {
        let Self { node, generations } = self;
        let (version, salt, boot, after) = (VERSION, salt(), 0, None);
        Head { magic, version, node, generations, sequence, salt, boot, after }
    }

    /// Checks that the ids of a file have generations if the store's do, and none otherwise.
    pub(crate) fn check(self, head: Head, name: &str) -> Result<(), ObjectError> {
        if head.generations == self.generations {
            return Ok(());
        }
        let has = if head.generations { "with" } else { "without" };
        Err(ObjectError::Config(format!("{name} is of a store {has} generations of ids")))
    }
}
