//! Current version of each table of a catalog.

use std::sync::{Arc, RwLock};

use rpds::RedBlackTreeMapSync;
use terrace_sys::sync::{read, write};

use crate::table::TableVersion;

/// Current version of each table of the catalog, by table id.
///
/// Locking order: the catalog's names, then this lock.
#[derive(Default)]
pub(crate) struct Versions {
    current: RwLock<VersionMap>,
}

pub(super) type VersionMap = RedBlackTreeMapSync<u64, Arc<TableVersion>>;

impl Versions {
    /// Makes `version` the current version of a table.
    pub fn put(&self, table: u64, version: Arc<TableVersion>) {
        // The previous version is dropped outside the lock: its chunks may free their space.
        let before = self.change(|versions| versions.insert_mut(table, version));
        drop(before);
    }

    /// Removes a table that has been dropped.
    pub fn remove(&self, table: u64) {
        let before = self.change(|versions| {
            versions.remove_mut(&table);
        });
        drop(before);
    }

    /// Removes all tables, when the catalog is closed.
    pub(super) fn clear(&self) {
        let before = self.change(|versions| *versions = VersionMap::default());
        drop(before);
    }

    /// Changes the map and returns it as it was before.
    fn change(&self, change: impl FnOnce(&mut VersionMap)) -> VersionMap {
        let mut current = write(&self.current);
        let before = current.clone();
        change(&mut current);
        before
    }

    pub(super) fn snapshot(&self) -> VersionMap {
        read(&self.current).clone()
    }
}
