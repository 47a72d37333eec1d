//! The label: the first page of a store, which says whose pages are behind it.
//!
//! What the catalog does not name is free, so a catalog that met the store of another database, or
//! a file that is no store at all, would take all of it for free space. The label ties the two
//! together: the catalog's number is written into a page that is an extent of the store like any
//! other, and a store with anything else in that place is left as it is.
//!
//! ```text
//!  0  magic "terrace store 1\n"    24  number of the database: u128
//! 16  lifetime: u8                 40  CRC-32C of the bytes before it: u32
//! 17  zero                         44  zero
//! ```

use terrace_sys::buffer::AlignedBuffer;
use terrace_sys::size::{PAGE_BYTES, format_bytes, to_u64};
use terrace_tier::store::{Extent, Store, Write};

use crate::error::SqlError;

/// Bytes of a store that its label takes.
pub const LABEL_BYTES: u64 = to_u64(PAGE_BYTES);

const MAGIC: &[u8; 16] = b"terrace store 1\n";
const LIFETIME_OFFSET: usize = 16;
const ID_OFFSET: usize = 24;
const CHECKSUM_OFFSET: usize = 40;

/// How long a database lasts.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum Lifetime {
    /// Until somebody deletes it.
    Lasting,
    /// Until its engine ends: the store it leaves behind holds nothing that anybody needs.
    Temporary,
}

/// The number of a database, which no other has.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct DatabaseId(pub(super) u128);

impl DatabaseId {
    /// A new one.
    pub(super) fn random() -> Result<Self, SqlError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| {
            SqlError::Task(format!("the system gives no random number for a database: {error}"))
        })?;
        Ok(Self(u128::from_le_bytes(bytes)))
    }
}

/// What a label says.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) id: DatabaseId,
    pub(super) lifetime: Lifetime,
}

/// What is in the place of a label.
enum Found {
    Nothing,
    Label(Label),
    Other,
}

impl Label {
    /// Makes sure that `store` is the one of this label, and claims the label's page. A store that
    /// nobody needs gets the label, unless the catalog names extents already.
    pub(super) fn settle(self, store: &Store, names_extents: bool) -> Result<(), SqlError> {
        let free = match find(store)? {
            Found::Label(found) if found == self => return Ok(store.claim(extent())?),
            Found::Nothing => true,
            Found::Label(found) => found.lifetime == Lifetime::Temporary,
            Found::Other => false,
        };
        if names_extents || !free {
            return Err(self.refusal(store, names_extents)?);
        }
        store.claim(extent())?;
        self.write(store)
    }

    fn write(self, store: &Store) -> Result<(), SqlError> {
        let page = self.to_page();
        let write = Write { extent: extent(), data: &page };
        store.write_batch(&[write]).into_iter().try_for_each(|written| written.map(drop))?;
        // Nobody looks for what a temporary database leaves behind.
        match self.lifetime {
            Lifetime::Lasting => Ok(store.sync()?),
            Lifetime::Temporary => Ok(()),
        }
    }

    fn refusal(self, store: &Store, names_extents: bool) -> Result<SqlError, SqlError> {
        let holds = match find(store)? {
            Found::Nothing => "it is empty".to_owned(),
            Found::Label(_) => "it holds the pages of another database".to_owned(),
            Found::Other => match store.len_bytes()? {
                u64::MAX => "it holds bytes that are no database's".to_owned(),
                len => format!("it holds {} that are no database's", format_bytes(len)),
            },
        };
        let instead = match (names_extents, store.name().split_once(':')) {
            (true, _) => {
                "the tables of this database are elsewhere: name the file or device that it was \
                 made with"
                    .to_owned()
            }
            (false, Some(("dev", path))) => format!(
                "name another device or, if nothing on it is needed, clear it first (blkdiscard \
                 --zeroout {path})"
            ),
            (false, Some(("file", path))) => format!(
                "name a file that does not exist yet or, if nothing in it is needed, remove it \
                 first (rm {path})"
            ),
            (false, _) => "name an empty one".to_owned(),
        };
        let what = format!("{holds}, and nothing was changed; {instead}");
        Ok(SqlError::WrongStore { store: store.name().to_owned(), what })
    }

    fn to_page(self) -> AlignedBuffer {
        let mut page = AlignedBuffer::zeroed(PAGE_BYTES);
        page[..MAGIC.len()].copy_from_slice(MAGIC);
        page[LIFETIME_OFFSET] = match self.lifetime {
            Lifetime::Lasting => 0,
            Lifetime::Temporary => 1,
        };
        page[ID_OFFSET..CHECKSUM_OFFSET].copy_from_slice(&self.id.0.to_le_bytes());
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
        Some(Self { id: DatabaseId(id), lifetime })
    }
}

/// Where the label is.
fn extent() -> Extent {
    Extent { offset_bytes: 0, len_bytes: LABEL_BYTES }
}

fn find(store: &Store) -> Result<Found, SqlError> {
    let label = store.first_page()?.and_then(|page| Label::of_page(&page));
    Ok(match label {
        Some(label) => Found::Label(label),
        None if store.is_blank()? => Found::Nothing,
        None => Found::Other,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_tier::store::MemoryBlocks;

    use super::*;

    fn label(id: u128, lifetime: Lifetime) -> Label {
        Label { id: DatabaseId(id), lifetime }
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
        assert_ne!(DatabaseId::random().expect("random"), DatabaseId::random().expect("random"));
    }

    #[test]
    fn a_store_is_taken_by_its_own_database_alone() {
        let blocks = Arc::new(MemoryBlocks::new(1 << 20));
        let settle = |label: Label, named| {
            let store = Store::open(blocks.clone(), "memory", 1 << 20).expect("open");
            label.settle(&store, named).map_err(|error| error.to_string()).map(|()| store.stats())
        };
        let (one, other) = (label(1, Lifetime::Temporary), label(2, Lifetime::Lasting));
        let error = settle(one, true).expect_err("blank, and the catalog names extents");
        assert!(error.contains("it is empty") && error.contains("was made with"), "{error}");
        assert_eq!(settle(one, false).expect("blank").used_bytes, LABEL_BYTES);
        assert_eq!(settle(one, true).expect("its own").used_bytes, LABEL_BYTES);
        settle(other, true).expect_err("of another, which was temporary");
        settle(other, false).expect("of another, which was temporary");
        for named in [true, false] {
            let error = settle(one, named).expect_err("of another");
            assert!(error.contains("pages of another database"), "{error}");
        }
        settle(other, true).expect("its own");
    }
}
