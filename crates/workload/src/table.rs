//! A tree of fixed-length rows, with a name for errors.

use std::ops::{Bound, ControlFlow};

use terrace_index::{BTree, IndexError, TreeConfig};
use terrace_pool::{Pool, Space};

use crate::error::{Hex, Result, WorkloadError};

/// Fixed-length rows by key. A row that is missing or of another length is an error that names the
/// table and the key: code that reads a row may index it up to [`Table::row_bytes`].
pub(crate) struct Table {
    name: &'static str,
    row_bytes: usize,
    tree: BTree<Space>,
}

impl Table {
    /// Creates an empty table with rows of this many bytes, in a space of its own.
    pub(crate) fn new(
        pool: &Pool,
        name: &'static str,
        row_bytes: usize,
        page_bytes: usize,
    ) -> Result<Self> {
        let tree = BTree::new(pool.create_space(name, None)?, &TreeConfig { page_bytes });
        Ok(Self { name, row_bytes, tree: tree.map_err(|source| in_table(name, source))? })
    }

    /// Creates a table from rows sorted by key.
    pub(crate) fn bulk_load(
        pool: &Pool,
        name: &'static str,
        row_bytes: usize,
        page_bytes: usize,
        sorted: impl IntoIterator<Item = (impl AsRef<[u8]>, impl AsRef<[u8]>)>,
    ) -> Result<Self> {
        let space = pool.create_space(name, None)?;
        let tree = BTree::bulk_load(space, &TreeConfig { page_bytes }, sorted);
        Ok(Self { name, row_bytes, tree: tree.map_err(|source| in_table(name, source))? })
    }

    /// Returns the size of a row in bytes.
    pub(crate) fn row_bytes(&self) -> usize {
        self.row_bytes
    }

    /// Reads a row that must exist.
    pub(crate) fn read<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<T> {
        self.find(key, read)?.ok_or_else(|| self.missing(key))
    }

    /// Reads a row if it exists.
    pub(crate) fn find<T>(&self, key: &[u8], read: impl FnOnce(&[u8]) -> T) -> Result<Option<T>> {
        let sound = |row: &[u8]| (row.len() == self.row_bytes).then(|| read(row));
        self.sound(key, self.tree.get_with(key, sound))
    }

    /// Updates a row that must exist in place, with exclusive access to it.
    pub(crate) fn update<T>(&self, key: &[u8], change: impl FnOnce(&mut [u8]) -> T) -> Result<T> {
        let sound = |row: &mut [u8]| (row.len() == self.row_bytes).then(|| change(row));
        self.sound(key, self.tree.update(key, sound))?.ok_or_else(|| self.missing(key))
    }

    /// Reads a batch of rows that must all exist. Pages that are not in memory are read together.
    pub(crate) fn read_batch<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut see: impl FnMut(usize, &[u8]),
    ) -> Result<()> {
        let mut lost = None;
        self.find_batch(keys, |at, row| match row {
            Some(row) => see(at, row),
            None => lost = Some(at),
        })?;
        lost.map_or(Ok(()), |at| Err(self.missing(keys[at].as_ref())))
    }

    /// As [`Table::read_batch`], for rows that may be missing.
    pub(crate) fn find_batch<K: AsRef<[u8]>>(
        &self,
        keys: &[K],
        mut see: impl FnMut(usize, Option<&[u8]>),
    ) -> Result<()> {
        let mut odd = None;
        let result = self.tree.get_batch(keys, |at, row| match row {
            Some(row) if row.len() != self.row_bytes => odd = Some(at),
            row => see(at, row),
        });
        self.named(result)?;
        odd.map_or(Ok(()), |at| Err(self.damaged(keys[at].as_ref(), "its length")))
    }

    /// Inserts a row that must not exist yet.
    pub(crate) fn insert(&self, key: &[u8], row: &[u8]) -> Result<()> {
        debug_assert_eq!(row.len(), self.row_bytes, "{}", self.name);
        if self.named(self.tree.insert(key, row))? {
            return Ok(());
        }
        Err(WorkloadError::Exists { table: self.name, key: Hex(key.to_vec()) })
    }

    /// Removes a row. Returns true if it existed.
    pub(crate) fn remove(&self, key: &[u8]) -> Result<bool> {
        self.named(self.tree.remove(key))
    }

    /// Calls `see` with the rows in key order, from `from` on, while their keys begin with `prefix`
    /// and `see` continues. A row of another length is an error.
    pub(crate) fn scan(
        &self,
        from: &[u8],
        prefix: &[u8],
        mut see: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut odd = None;
        let result = self.tree.scan(Bound::Included(from), |key, row| {
            self.show(prefix, key, row, &mut see, &mut odd)
        });
        self.named(result)?;
        odd.map_or(Ok(()), Err)
    }

    /// As [`Table::scan`], backwards from the last row whose key begins with `prefix`.
    pub(crate) fn scan_back(
        &self,
        prefix: &[u8],
        mut see: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut odd = None;
        let from = KeyEnd::of(prefix);
        let result = self.tree.scan_back(Bound::Included(from.bytes()), |key, row| {
            self.show(prefix, key, row, &mut see, &mut odd)
        });
        self.named(result)?;
        odd.map_or(Ok(()), Err)
    }

    fn show(
        &self,
        prefix: &[u8],
        key: &[u8],
        row: &[u8],
        see: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
        odd: &mut Option<WorkloadError>,
    ) -> ControlFlow<()> {
        if !key.starts_with(prefix) {
            return ControlFlow::Break(());
        }
        if row.len() != self.row_bytes {
            *odd = Some(self.damaged(key, "its length"));
            return ControlFlow::Break(());
        }
        see(key, row)
    }

    /// Returns the error for a damaged row.
    pub(crate) fn damaged(&self, key: &[u8], what: &'static str) -> WorkloadError {
        WorkloadError::Damaged { table: self.name, key: Hex(key.to_vec()), what }
    }

    /// Returns the error for a missing row.
    pub(crate) fn missing(&self, key: &[u8]) -> WorkloadError {
        WorkloadError::Missing { table: self.name, key: Hex(key.to_vec()) }
    }

    /// Returns the result of reading a row, if the row exists and has the right length.
    fn sound<T>(
        &self,
        key: &[u8],
        found: Result<Option<Option<T>>, IndexError>,
    ) -> Result<Option<T>> {
        match self.named(found)? {
            Some(None) => Err(self.damaged(key, "its length")),
            found => Ok(found.flatten()),
        }
    }

    fn named<T>(&self, result: Result<T, IndexError>) -> Result<T> {
        result.map_err(|source| in_table(self.name, source))
    }
}

fn in_table(table: &'static str, source: IndexError) -> WorkloadError {
    WorkloadError::Index { table, source: Box::new(source) }
}

/// Upper bound of all keys of a table that begin with a prefix.
struct KeyEnd {
    bytes: [u8; KEY_BYTES_MAX],
    len: usize,
}

/// Maximum length of a key of any table in bytes.
const KEY_BYTES_MAX: usize = 48;

impl KeyEnd {
    /// Pads the prefix with 0xff bytes: keys have at most 32 bytes more than the prefix of a scan,
    /// and none of them is all ones.
    fn of(prefix: &[u8]) -> Self {
        let mut bytes = [0xff; KEY_BYTES_MAX];
        bytes[..prefix.len()].copy_from_slice(prefix);
        Self { bytes, len: KEY_BYTES_MAX }
    }

    fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}
