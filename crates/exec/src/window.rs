//! Window functions whose partitions may be larger than memory.
//!
//! DataFusion's `WindowAggExec` collects its whole input before it computes anything, and counts
//! none of it. [`PagedWindowExec`] has one window partition at a time: when the next one begins,
//! the functions are evaluated as DataFusion does, and the rows go. A partition that the grant has
//! no room for goes to blocks ([`crate::block`]), unpinned as they are written, and its functions
//! are computed in two passes (`pass`): what depends on rows to come is found out while they
//! arrive, and the values are written while the blocks are read back.

pub mod exec;
pub(crate) mod large;
pub(crate) mod pass;
pub(crate) mod ranks;

pub use exec::PagedWindowExec;
