//! How a store is set up.

use std::time::Duration;

use terrace_market::Ledger;

use crate::memory::ObjectMemory;

/// How a store of objects is set up.
#[derive(Clone, Debug)]
pub struct ObjectConfig {
    /// Its name in errors, statistics and the ledger.
    pub name: String,
    /// Where the bytes of objects live.
    pub memory: ObjectMemory,
    /// The node that its ids name.
    pub node: u16,
    /// The budget that memory in use counts against: that of objects, unless a region counts it by
    /// itself, and that of the table.
    pub ledger: Option<Ledger>,
    /// Whether to ask for transparent huge pages.
    pub huge_pages: bool,
    /// How long an operation waits for an object that somebody else has locked.
    pub patience: Duration,
}

impl ObjectConfig {
    /// Node 0, huge pages, ten seconds of patience, no ledger.
    #[must_use]
    pub fn new(name: impl Into<String>, memory: ObjectMemory) -> Self {
        Self {
            name: name.into(),
            memory,
            node: 0,
            ledger: None,
            huge_pages: true,
            patience: Duration::from_secs(10),
        }
    }
}
