//! Secondary index: from keys that may repeat to records of a tree.
//!
//! The key of an entry is the index key and the primary key; its value is a [`RecordHint`], a
//! reference to the leaf in which the record was last found. A look-up follows the hint to that
//! leaf and saves the descent in the primary tree; a wrong hint costs the descent, and is then
//! corrected in the entry.
//!
//! The two keys become one byte string that sorts as the pair: each zero byte of the key is
//! followed by 255, and two zero bytes end it.

use std::cell::Cell;
use std::ops::{Bound, ControlFlow};

use terrace_pool::{Pages, Space};

use crate::error::{IndexError, Result};
use crate::tree::{BTree, RecordHint, TreeConfig, TreeShape};

const ESCAPE: [u8; 2] = [0, 255];
const END: [u8; 2] = [0, 0];

thread_local! {
    /// Buffer for an entry, taken out while it is in use.
    static ENTRY: Cell<Vec<u8>> = const { Cell::new(Vec::new()) };
}

/// An index from keys, which may repeat, to primary keys of a [`BTree`], with hints to the leaves
/// of their records.
///
/// All methods may be called from any number of threads. Index and tree are separate: a caller that
/// changes a record must change its entry too, and a reader may find one newer than the other.
#[derive(Debug)]
pub struct SecondaryIndex<P: Pages = Space> {
    entries: BTree<P>,
}

/// Appends a key with its end mark: entries sort by it first, then by the bytes that follow.
fn append_key(key: &[u8], entry: &mut Vec<u8>) {
    append_part(key, entry);
    entry.extend_from_slice(&END);
}

/// Appends the first bytes of a key, without the end mark.
fn append_part(key: &[u8], entry: &mut Vec<u8>) {
    for byte in key {
        match byte {
            0 => entry.extend_from_slice(&ESCAPE),
            byte => entry.push(*byte),
        }
    }
}

/// Returns the offset of the primary key in an entry, or `None` if the bytes are no entry.
fn end_of_key(entry: &[u8]) -> Option<usize> {
    let mut at = 0;
    loop {
        match entry.get(at..)? {
            [0, 0, ..] => return Some(at + END.len()),
            [0, 255, ..] => at += ESCAPE.len(),
            [0, ..] | [] => return None,
            [_, ..] => at += 1,
        }
    }
}

/// Decodes the key of an entry into `key` and returns the primary key, or `None` if the bytes are
/// no entry.
fn parts<'e>(entry: &'e [u8], key: &mut Vec<u8>) -> Option<&'e [u8]> {
    let (escaped, primary_key) = entry.split_at(end_of_key(entry)?);
    key.clear();
    let mut escaped = escaped.strip_suffix(&END)?.iter();
    while let Some(byte) = escaped.next() {
        key.push(*byte);
        if *byte == 0 {
            escaped.next();
        }
    }
    Some(primary_key)
}

fn with_entry<T>(key: &[u8], primary_key: &[u8], run: impl FnOnce(&[u8]) -> T) -> T {
    let mut entry = ENTRY.take();
    entry.clear();
    append_key(key, &mut entry);
    entry.extend_from_slice(primary_key);
    let out = run(&entry);
    ENTRY.set(entry);
    out
}

fn hint_of(value: &[u8]) -> RecordHint {
    // Any other value is read as no hint.
    value
        .first_chunk()
        .map_or(RecordHint::none(), |bits| RecordHint::from_bits(u64::from_le_bytes(*bits)))
}

impl<P: Pages> SecondaryIndex<P> {
    /// Creates an empty index.
    ///
    /// # Errors
    /// As [`BTree::new`].
    pub fn new(pages: P, config: &TreeConfig) -> Result<Self> {
        Ok(Self { entries: BTree::new(pages, config)? })
    }

    /// Adds an entry with a hint to its record. Returns false, and changes nothing, if the entry
    /// exists.
    ///
    /// # Errors
    /// [`IndexError::TooLarge`] if both keys together, plus one byte for each zero in `key` plus
    /// two, are longer than [`BTree::key_limit`]; otherwise as [`BTree::insert`].
    pub fn insert(&self, key: &[u8], primary_key: &[u8], hint: RecordHint) -> Result<bool> {
        let value = hint.to_bits().to_le_bytes();
        with_entry(key, primary_key, |entry| self.entries.insert(entry, &value))
    }

    /// Removes an entry. Returns false if it did not exist.
    ///
    /// # Errors
    /// As [`BTree::remove`].
    pub fn remove(&self, key: &[u8], primary_key: &[u8]) -> Result<bool> {
        with_entry(key, primary_key, |entry| self.entries.remove(entry))
    }

    /// Calls `see` with the primary key and the record of each entry of a key, in ascending order
    /// of primary keys, until it breaks. An entry whose record is not in `primary` is skipped.
    ///
    /// Concurrent changes are seen as in [`BTree::scan`], and `see` may use the index and the tree.
    ///
    /// # Errors
    /// As [`BTree::get`], of either.
    pub fn get_with(
        &self,
        primary: &BTree<P>,
        key: &[u8],
        mut see: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut begin = Vec::with_capacity(key.len() + END.len());
        append_key(key, &mut begin);
        self.follow(primary, &begin, |entry, record| see(&entry[begin.len()..], record))
    }

    /// Calls `see` with the key, the primary key and the record of each entry whose key begins with
    /// `prefix`, in ascending order of keys, until it breaks. Otherwise as
    /// [`SecondaryIndex::get_with`].
    ///
    /// # Errors
    /// As [`SecondaryIndex::get_with`].
    pub fn scan_prefix(
        &self,
        primary: &BTree<P>,
        prefix: &[u8],
        mut see: impl FnMut(&[u8], &[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let (mut begin, mut key) = (Vec::with_capacity(prefix.len()), Vec::new());
        append_part(prefix, &mut begin);
        self.follow(primary, &begin, |entry, record| match parts(entry, &mut key) {
            Some(primary_key) => see(&key, primary_key, record),
            None => ControlFlow::Continue(()),
        })
    }

    /// Calls `see` with each whole entry that begins with `begin`, and its record.
    fn follow(
        &self,
        primary: &BTree<P>,
        begin: &[u8],
        mut see: impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<()> {
        let mut failed: Option<IndexError> = None;
        self.entries.scan(Bound::Included(begin), |entry, value| {
            if !entry.starts_with(begin) {
                return ControlFlow::Break(());
            }
            match self.follow_one(primary, entry, hint_of(value), &mut see) {
                Ok(flow) => flow,
                Err(error) => {
                    failed = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        failed.map_or(Ok(()), Err)
    }

    fn follow_one(
        &self,
        primary: &BTree<P>,
        entry: &[u8],
        known: RecordHint,
        see: &mut impl FnMut(&[u8], &[u8]) -> ControlFlow<()>,
    ) -> Result<ControlFlow<()>> {
        let Some(end) = end_of_key(entry) else { return Ok(ControlFlow::Continue(())) };
        let mut hint = known;
        let flow = primary.get_hinted(&entry[end..], &mut hint, |record| see(entry, record))?;
        if hint != known {
            self.entries.mend_hint(entry, known, hint)?;
        }
        Ok(flow.unwrap_or(ControlFlow::Continue(())))
    }

    /// Number of entries; see [`BTree::len`].
    pub fn len(&self) -> u64 {
        self.entries.len()
    }

    /// True if the index has no entries.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Checks every page; see [`BTree::verify`].
    ///
    /// # Errors
    /// As [`BTree::verify`].
    pub fn verify(&self) -> Result<TreeShape> {
        self.entries.verify()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_sort_as_pairs_and_come_apart() {
        let keys: [&[u8]; 9] =
            [&[], &[0], &[0, 0], &[0, 1], &[0, 255], &[1], &[1, 0], &[1, 0, 255], &[255]];
        let mut pairs: Vec<_> =
            keys.iter().flat_map(|key| keys.iter().map(move |primary| (*key, *primary))).collect();
        pairs.sort_unstable();
        let entries: Vec<_> =
            pairs.iter().map(|(key, primary)| with_entry(key, primary, <[u8]>::to_vec)).collect();
        assert!(entries.is_sorted_by(|a, b| a < b));
        for ((key, primary), entry) in pairs.iter().zip(&entries) {
            let mut read = Vec::new();
            assert_eq!(parts(entry, &mut read), Some(*primary));
            assert_eq!(read, *key);
        }
        assert_eq!(parts(&[1, 0, 7], &mut Vec::new()), None);
        assert_eq!(parts(&[1], &mut Vec::new()), None);
    }
}
