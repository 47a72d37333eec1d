//! Rows in pages of the pool.
//!
//! A [`RowLayout`] defines the offsets of the parts of a row. [`RowPages`] is an append-only
//! collection of rows: *fixed* pages with one slot per column and row, and *variable* pages with
//! the bytes of strings too long for their slot (Kuiper, Muehleisen: Saving Private Hash Join, VLDB
//! 2024, section 3). A slot refers to a variable page by its index and an offset, so no pointers
//! have to be recomputed when pages come back at another address.
//!
//! Rows are written and read column by column, in typed loops: [`RowLayout::prepare`] prepares
//! columns, [`RowPages::append`] writes them, [`RowPages::resolve`] turns addresses into [`Rows`],
//! and those gather columns or compare them in the page.
//!
//! Pinned pages are charged to the grant of the collection's operator. Bytes that
//! [`RowPages::try_reserve`] was granted are used up by the pages appended or pinned next; bytes
//! beyond them are taken even if the grant has no room. Unpinned pages cost no grant.
//!
//! Expected cost in DRAM: append and gather move about as many bytes per second as `take` does,
//! a gather of rows in random order one cache miss per row for all of its columns
//! (`cargo run --release -p terrace-exec --example rows`).

mod address;
mod append;
mod cells;
mod collection;
mod columns;
mod equal;
mod gather;
mod layout;
mod pins;
mod residency;
mod share;
mod slots;
mod value_slot;

pub use address::RowAddress;
pub(crate) use cells::prefetch;
pub use collection::RowPages;
pub use columns::Columns;
pub use equal::Equality;
pub use gather::Rows;
pub use layout::RowLayout;
pub use residency::Access;
pub use slots::{RowsMut, Slots, SlotsBuilder};
