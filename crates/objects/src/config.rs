//! Configuration of a store.

use std::path::PathBuf;
use std::time::Duration;

use terrace_ledger::Ledger;

use terrace_region::Backing;

/// The longest object in bytes: 1 TiB.
pub const OBJECT_BYTES_MAX: usize = 1 << 40;

/// Configuration of a store of objects.
#[derive(Clone, Debug)]
pub struct ObjectConfig {
    /// Name of the store in errors, statistics and the ledger.
    pub name: String,
    /// Memory that holds the bytes of objects, at most 4 TiB. Objects of more than 2 MiB take whole
    /// slabs of 2 MiB. The table of groups is always in DRAM.
    pub memory: Backing,
    /// Node in the ids of the store's objects, which the program assigns; it is no NUMA node.
    pub node: u16,
    /// Budget that memory in use is charged to: the memory of objects, unless a region charges it
    /// itself, and that of the table.
    pub ledger: Option<Ledger>,
    /// True to request transparent huge pages.
    pub huge_pages: bool,
    /// True if an id never names a second object. Ids then have a generation in the upper 8 of
    /// their 48 bits, and an operation with the id of a removed object finds nothing, whatever
    /// object has its slot. It takes a byte per id.
    ///
    /// Such a store can run out of ids permanently. A slot serves 255 objects, one after the other,
    /// and is then retired ([`ObjectStats::retired`](crate::ObjectStats::retired)), which keeps 1.5
    /// bytes of the table. A store has as many slots as bytes of memory, 4 Mi at least and 2^40 at
    /// most, so that it can create 255 times as many objects in its life: 1.07e9 with 4 MiB, 2.7e11
    /// with 1 GiB, which last 7.6 hours at 10 million a second and 317 days at 10 thousand. After
    /// that `create` returns [`ObjectError::OutOfIds`](crate::ObjectError::OutOfIds) always, also
    /// in a store that is opened from its dump or log; existing objects stay.
    pub generations: bool,
    /// Longest wait of an operation for an object that another thread has locked.
    pub patience: Duration,
}

impl ObjectConfig {
    /// Returns a configuration with node 0, huge pages, no generations, ten seconds of patience and
    /// no ledger.
    #[must_use]
    pub fn new(name: impl Into<String>, memory: Backing) -> Self {
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

/// Configuration of the log, which makes the changes of a store survive its process.
#[derive(Clone, Debug)]
pub struct LogConfig {
    /// Directory of the logs and dumps; it is made if it does not exist. One process at a time can
    /// use it.
    pub dir: PathBuf,
    /// Durability that a change waits for.
    pub durability: Durability,
    /// True to open a damaged store without its damaged parts; false to fail with
    /// [`ObjectError::Corrupt`](crate::ObjectError::Corrupt).
    pub accepts_damage: bool,
}

impl LogConfig {
    /// Returns a configuration in which changes wait for the device, and a damaged store is not
    /// opened.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into(), durability: Durability::Synced, accepts_damage: false }
    }
}

/// Durability that a change waits for before it returns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// Synced to the device: the change survives a crash of the machine.
    Synced,
    /// Written to the kernel: the change survives a crash of the process, but not of the machine.
    Written,
    /// Not waited for, up to 1 MiB of changes: [`crate::ObjectStore::sync`] waits for the device,
    /// and a [`crate::Maintenance`] syncs now and then.
    Deferred,
}
