//! Label of a database's store: the id of the database in the store's first page.
//!
//! Space that the catalog does not name is free, so a catalog opened with the store of another
//! database, or with a file that is no store at all, would treat all of it as free space. The
//! catalog therefore has the same id, and a store with any other bytes in its first page is left
//! unchanged. [`terrace_store`] defines the page's layout.

use terrace_store::{Label as StoreLabel, Store};
use terrace_sys::size::format_bytes;

use crate::error::SqlError;

pub use terrace_store::{LABEL_BYTES, Lifetime};

/// Unique id of a database.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct DatabaseId(pub(super) u128);

impl DatabaseId {
    /// Returns a new random id.
    pub(super) fn random() -> Result<Self, SqlError> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(|error| {
            SqlError::Task(format!("the system gives no random number for a database: {error}"))
        })?;
        Ok(Self(u128::from_le_bytes(bytes)))
    }
}

/// Label of a store: the database that it belongs to, and the lifetime of that database.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub(super) struct Label {
    pub(super) id: DatabaseId,
    pub(super) lifetime: Lifetime,
}

/// Contents of the store's first page, in which a label is stored.
enum Found {
    Nothing,
    Label(Label),
    Other,
}

impl Label {
    /// Verifies that `store` is the one of this label, and claims the label's page. A store that is
    /// blank or was temporary gets the label, unless the catalog already names extents.
    pub(super) fn settle(self, store: &Store, names_extents: bool) -> Result<(), SqlError> {
        let free = match find(store)? {
            Found::Label(found) if found == self => return Ok(store.claim(StoreLabel::extent())?),
            Found::Nothing => true,
            Found::Label(found) => found.lifetime == Lifetime::Temporary,
            Found::Other => false,
        };
        if names_extents || !free {
            return Err(self.refusal(store, names_extents)?);
        }
        Ok(store.put_label(StoreLabel { id: self.id.0, lifetime: self.lifetime })?)
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
}

fn find(store: &Store) -> Result<Found, SqlError> {
    Ok(match store.label()? {
        Some(StoreLabel { id, lifetime }) => Found::Label(Label { id: DatabaseId(id), lifetime }),
        None if store.is_blank()? => Found::Nothing,
        None => Found::Other,
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use terrace_store::MemoryBlocks;

    use super::*;

    fn label(id: u128, lifetime: Lifetime) -> Label {
        Label { id: DatabaseId(id), lifetime }
    }

    #[test]
    fn no_two_databases_have_one_number() {
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
