//! Sorting in pages.
//!
//! What arrives is sorted in pieces of a megabyte or two, and each piece becomes a block
//! ([`crate::block`]) beside its *normalised keys*: eight bytes whose order as a number is the
//! order of the rows, as far as eight bytes tell, and the bytes of the whole key where they do not
//! (arrow-row's encoding). So from the first piece on everything that the sort keeps is sorted and
//! in pages: to give memory back is to unpin. While the blocks stay pinned a loser tree merges
//! them, comparing the eight bytes in the page; when the grant is refused they are merged to one
//! *run* of small blocks, unpinned as soon as they are written, and at the end the runs are merged,
//! as many at a time as the grant has room for their first blocks (Graefe: Implementing Sorting in
//! Database Systems, ACM Computing Surveys 2006, sections 2 and 3).
//!
//! | module | concept |
//! |---|---|
//! | `key` | normalised keys |
//! | `order` | the order of the rows of a piece |
//! | `piece` | rows collected until it pays to sort them |
//! | `run` | sorted blocks one after the other |
//! | `tree` | the loser tree |
//! | `merge` | many runs to one stream |
//! | [`sizes`] | how much is sorted and read at a time |
//! | `sorter` | the sort of one partition |
//! | `top` | the first rows of an order |
//! | `boundary` | what the last of them tells the scan |
//! | [`exec`] | the plan's node |

pub(crate) mod boundary;
pub mod exec;
pub(crate) mod key;
pub(crate) mod merge;
pub(crate) mod order;
pub(crate) mod piece;
pub(crate) mod run;
pub mod sizes;
pub(crate) mod sorter;

pub(crate) mod top;
pub(crate) mod tree;

pub use exec::{Adaptivity, PagedSortExec};
pub use sizes::SortSizes;
