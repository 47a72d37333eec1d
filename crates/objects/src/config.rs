//! How a store is set up.

use std::path::PathBuf;
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
    /// Whether an id names one object ever: ids have a generation in the upper 8 of their 48 bits
    /// then, and an operation with the id of an object that was removed finds nothing, whatever has
    /// its place. It takes a byte for each id.
    ///
    /// Such a store ends. A place serves 255 objects, one after the other, and is retired then
    /// ([`ObjectStats::retired`](crate::ObjectStats::retired)), which keeps 1.5 bytes of the table.
    /// A store has as many places as bytes of memory, 4 Mi at least and 2^40 at most, so that it
    /// creates 255 times as many objects in its life: 1.07e9 with 4 MiB, 2.7e11 with 1 GiB, which
    /// last 7.6 hours at 10 million a second and 317 days at 10 thousand. After that `create`
    /// answers [`ObjectError::OutOfIds`](crate::ObjectError::OutOfIds) for good, as does a store
    /// of its dump or log; objects that are there stay.
    pub generations: bool,
    /// How long an operation waits for an object that somebody else has locked.
    pub patience: Duration,
}

impl ObjectConfig {
    /// Node 0, huge pages, no generations, ten seconds of patience, no ledger.
    #[must_use]
    pub fn new(name: impl Into<String>, memory: ObjectMemory) -> Self {
        Self {
            name: name.into(),
            memory,
            node: 0,
            ledger: None,
            huge_pages: true,
            generations: false,
            patience: Duration::from_secs(10),
        }
    }
}

/// Where the changes of a store go, so that they survive its process.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// The directory of the logs and dumps; it is made if it is not there. One process has it at a
    /// time.
    pub dir: PathBuf,
    /// What a change waits for.
    pub durability: Durability,
    /// Whether to open a store without what is damaged of it.
    pub accepts_damage: bool,
}

impl LogConfig {
    /// Changes wait for the device, and what is damaged is not opened.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), durability: Durability::Synced, accepts_damage: false }
    }
}

/// What a change waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The device: it survives the machine.
    Synced,
    /// The kernel: it survives the process, and not the machine.
    Written,
    /// Nothing, up to 1 MiB of changes: [`crate::ObjectStore::sync`] waits for the device, and a
    /// [`crate::Keeper`] does now and then.
    Deferred,
}
