//! The label: the first page of a store, which identifies the owner of its extents.
//!
//! Extents that an owner does not claim are free, so an owner that opened the store of another one,
//! or a file that is no store at all, would treat all of it as free space. A label is an ordinary
//! extent that holds the owner's id, by which the owner recognizes its store.
//!
//! ```text
//!  0  magic "terrace store 1\n"    24  number of the owner: u128
//! 16  lifetime: u8                 40  CRC-32C of the bytes before it: u32
//! 17  zero                         44  zero
//! ```

use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::size::{PAGE_BYTES, format_bytes, to_u64};

use super::error::StoreError;
use super::extent::{Extent, Write};
use super::store::Store;

/// Size of a label in bytes.
pub const LABEL_BYTES: u64 = to_u64(PAGE_BYTES);

const MAGIC: &[u8; 16] = b"terrace store 1\n";
const LIFETIME_OFFSET: usize = 16;
const ID_OFFSET: usize = 24;
const CHECKSUM_OFFSET: usize = 40;

/// Lifetime of the extents of a labelled store.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// The extents are needed until the store is removed.
    Lasting,
    /// The extents are needed until the process ends; the store that it leaves behind holds nothing
    /// of use.
    Temporary,
}

/// Owner of a store, as recorded in its first page.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Id of the owner, unique among owners, such as a random number.
    pub id: u128,
    /// Time for which the owner needs the store.
    pub lifetime: Lifetime,
}

impl Label {
    /// Returns the extent of every label.
    #[must_use]
    pub fn extent() -> Extent {
        Extent { offset_bytes: 0, len_bytes: LABEL_BYTES }
    }

    fn to_page(self) -> AlignedBuffer {
        let mut page = AlignedBuffer::zeroed(PAGE_BYTES);
        page[..MAGIC.len()].copy_from_slice(MAGIC);
        page[LIFETIME_OFFSET] = match self.lifetime {
            Lifetime::Lasting => 0,
            Lifetime::Temporary => 1,
        };
        page[ID_OFFSET..CHECKSUM_OFFSET].copy_from_slice(&self.id.to_le_bytes());
        let checksum = crc32c::crc32c(&page[..CHECKSUM_OFFSET]);
        page[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 4].copy_from_slice(&checksum.to_le_bytes());
        page
    }

    fn of_page(page: &[u8]) -> Option<Self> {
        let (label, rest) = page.split_at_checked(CHECKSUM_OFFSET)?;
        let checksum = u32::from_le_bytes(*rest.first_chunk()?);
        if !label.starts_with(MAGIC) || checksum != crc32c::crc32c(label) {
            return None;
        }
        let lifetime = match label[LIFETIME_OFFSET] {
            0 => Lifetime::Lasting,
            1 => Lifetime::Temporary,
            _ => return None,
        };
        let id = u128::from_le_bytes(label[ID_OFFSET..].try_into().ok()?);
        Some(Self { id, lifetime })
    }
}

impl Store {
    /// Reads the label in the first page; `None` if the page holds other data or does not exist.
    ///
    /// # Errors
    /// [`StoreError::Open`] or [`StoreError::Read`] when the device fails.
    pub fn label(&self) -> Result<Option<Label>, StoreError> {
        Ok(self.first_page()?.and_then(|page| Label::of_page(&page)))
    }

    /// Claims the first page and writes a label to it, regardless of its contents. A lasting label
    /// is durable when this returns.
    ///
    /// # Errors
    /// [`StoreError::Claim`] when the page is in use; as [`Store::write_batch`] and
    /// [`Store::sync`].
    pub fn put_label(&self, label: Label) -> Result<(), StoreError> {
        self.claim(Label::extent())?;
        let page = label.to_page();
        let write = Write { extent: Label::extent(), data: &page };
        self.write_batch(&[write]).into_iter().try_for_each(|written| written.map(drop))?;
        match label.lifetime {
            Lifetime::Lasting => self.sync(),
            Lifetime::Temporary => Ok(()),
        }
    }

    /// Makes the owner in `label` the owner of the store: claims the label if it is this owner's
    /// already, and writes it if the store is blank or was left behind by a temporary owner.
    ///
    /// # Errors
    /// [`StoreError::Foreign`] for a store of another lasting owner or for foreign data, which are
    /// not changed; as [`Store::put_label`].
    pub fn settle(&self, label: Label) -> Result<(), StoreError> {
        match self.label()? {
            Some(found) if found == label => self.claim(Label::extent()),
            Some(Label { lifetime: Lifetime::Lasting, .. }) => {
                Err(self.foreign("the pages of another owner"))
            }
            Some(_) => self.put_label(label),
            None => {
                self.refuse_foreign()?;
                self.put_label(label)
            }
        }
    }

    /// Returns an error if the blocks are neither blank nor labelled.
    pub(super) fn refuse_foreign(&self) -> Result<(), StoreError> {
        if self.is_blank()? || self.label()?.is_some() {
            return Ok(());
        }
        Err(match self.len_bytes()? {
            u64::MAX => self.foreign("bytes that are of no store"),
            len => self.foreign(format!("{} that are of no store", format_bytes(len))),
        })
    }

    fn foreign(&self, holds: impl Into<String>) -> StoreError {
        let instead = match self.name().split_once(':') {
            Some(("dev", path)) => format!(
                "name another device or, if nothing on it is needed, clear it first (blkdiscard \
                 --zeroout {path})"
            ),
            Some(("file", path)) => format!(
                "name a file that does not exist yet or, if nothing in it is needed, remove it \
                 first (rm {path})"
            ),
            _ => "name an empty one".to_owned(),
        };
        StoreError::Foreign { store: self.name().to_owned(), holds: holds.into(), instead }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::super::MemoryBlocks;
    use super::*;

    fn label(id: u128, lifetime: Lifetime) -> Label {
        Label { id, lifetime }
    }

    #[test]
    fn a_label_comes_back_and_a_damaged_one_is_none() {
        let written = label(0x0123_4567_89ab_cdef_0011_2233_4455_6677, Lifetime::Temporary);
        let page = written.to_page();
        assert_eq!(Label::of_page(&page), Some(written));
        for byte in 0..CHECKSUM_OFFSET + 4 {
            let mut page = AlignedBuffer::copy_of(&page);
            page[byte] ^= 1;
            assert_eq!(Label::of_page(&page), None, "byte {byte}");
        }
        assert_eq!(Label::of_page(&page[..20]), None);
    }

    #[test]
    fn a_store_settles_with_its_own_owner_alone() {
        let blocks = Arc::new(MemoryBlocks::new(1 << 20));
        let settle = |label: Label| {
            let store = Store::open(blocks.clone(), "memory", 1 << 20).expect("open");
            store.settle(label).map(|()| store.stats().used_bytes)
        };
        let (one, other) = (label(1, Lifetime::Temporary), label(2, Lifetime::Lasting));
        assert_eq!(settle(one).expect("blank"), LABEL_BYTES);
        assert_eq!(settle(one).expect("its own"), LABEL_BYTES);
        settle(other).expect("of another, which was temporary");
        let error = settle(one).expect_err("of another").to_string();
        assert!(error.contains("pages of another owner"), "{error}");
        settle(other).expect("its own");
    }
}
