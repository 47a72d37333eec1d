//! External merge sort in pages.
//!
//! Input is sorted in pieces of a megabyte or two. Each piece becomes a block ([`crate::block`])
//! with its *normalised keys* beside it: eight bytes whose order as a number is the order of the
//! rows, as far as eight bytes can distinguish them, and the bytes of the whole key where they
//! cannot (arrow-row's encoding). Columns of variable length that are keys are stored in them only.
//! So from the first piece on, all that the sort keeps is sorted and
//! in pages: it releases memory by unpinning. While the blocks stay pinned, a loser tree merges
//! them, comparing the eight bytes in the page. When the grant is refused, they are merged to one
//! *run* of small blocks, which are unpinned as soon as they are written. At the end the runs are
//! merged, as many at a time as the grant has room for their first blocks (Graefe: Implementing
//! Sorting in Database Systems, ACM Computing Surveys 2006, sections 2 and 3).
//!
//! | module | concept |
//! |---|---|
//! | `key` | normalised keys |
//! | `order` | the order of the rows of a piece |
//! | `piece` | rows collected until it pays to sort them |
//! | `run` | sorted runs of blocks |
//! | `tree` | the loser tree |
//! | `merge` | k-way merge of runs to one stream |
//! | [`sizes`] | sizes of pieces and blocks |
//! | `sorter` | the sort of one partition |
//! | `top` | top-k: the first rows of an order |
//! | `boundary` | the last row of a top-k, as a dynamic filter of the scan |
//! | [`exec`] | the plan node |

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
