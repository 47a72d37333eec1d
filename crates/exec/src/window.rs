//! Window functions whose partitions may be larger than memory.
//!
//! DataFusion's `WindowAggExec` collects its whole input before it computes anything, and accounts
//! for none of it. [`PagedWindowExec`] holds one window partition at a time: when the next one
//! begins, the functions are evaluated as in DataFusion, and the rows are dropped. A partition that
//! does not fit the grant is written to blocks ([`crate::block`]), which are not pinned, and its
//! functions are computed in two passes (`pass`): values that depend on later rows are determined
//! while the rows arrive, and the output is computed while the blocks are read back.

pub mod exclude;
pub mod exec;
pub(crate) mod large;
pub(crate) mod pass;
pub(crate) mod ranks;

pub use exec::PagedWindowExec;
