//! Indexes over pages of the pool.
//!
//! [`BTree`] is an ordered index: a B+-tree with optimistic readers. [`SecondaryIndex`] maps keys
//! that may repeat to records of a tree, with hints to their leaves.
//!
//! ```
//! use std::ops::{Bound, ControlFlow};
//!
//! use terrace_index::{BTree, TreeConfig};
//! use terrace_ledger::Ledger;
//! use terrace_pool::{Pool, PoolConfig};
//!
//! # fn main() -> Result<(), terrace_index::IndexError> {
//! let pool = Pool::new(PoolConfig::new("example", Ledger::new(64 << 20)))?;
//! let tree = BTree::new(pool.create_space("rivers", None)?, &TreeConfig { page_bytes: 4096 })?;
//! for (river, km) in [("Amazon", "6400"), ("Nile", "6650"), ("Congo", "4700")] {
//!     assert!(tree.insert(river.as_bytes(), km.as_bytes())?);
//! }
//! assert_eq!(tree.get(b"Nile")?.as_deref(), Some(b"6650".as_slice()));
//! tree.update(b"Congo", |km| km[1] = b'3')?;
//! let mut seen = Vec::new();
//! tree.scan(Bound::Excluded(b"Amazon"), |river, km| {
//!     seen.push((river.to_vec(), km.to_vec()));
//!     ControlFlow::Continue(())
//! })?;
//! assert_eq!(seen[0], (b"Congo".to_vec(), b"4300".to_vec()));
//! # Ok(())
//! # }
//! ```
//!
//! [`HashIndex`] is a hash index of chained pages (Otaki et al., CIDR 2025, section 4). It is
//! written against [`terrace_pool::Pages`], so that the same code runs over three ways of finding
//! a page:
//!
//! | pages | how the next page of a chain is found |
//! |---|---|
//! | [`terrace_pool::Space`] | by the hint in its reference, by the page table if it is wrong |
//! | [`Unhinted`] | by the pool's page table, an array without latches |
//! | [`SingleLatch`] | in a map under one latch, as in the paper's index without hints |
//!
//! ```
//! use terrace_index::{HashConfig, HashIndex};
//! use terrace_ledger::Ledger;
//! use terrace_pool::{Pool, PoolConfig};
//!
//! # fn main() -> Result<(), terrace_index::IndexError> {
//! let pool = Pool::new(PoolConfig::new("example", Ledger::new(64 << 20)))?;
//! let pages = pool.create_space("capitals", None)?;
//! let index = HashIndex::new(pages, &HashConfig { buckets: 16, page_bytes: 4096 })?;
//! assert!(index.insert(b"Peru", b"Lima")?);
//! assert_eq!(index.get(b"Peru")?.as_deref(), Some(b"Lima".as_slice()));
//! assert!(index.remove(b"Peru")?);
//! # Ok(())
//! # }
//! ```

#![forbid(unsafe_code)]

mod chain;
mod change;
mod edit;
mod error;
mod hash;
mod hash_index;
mod id_hash;
mod no_hints;
mod page;
mod secondary;
mod single_latch;
mod tree;
mod variant;

pub use error::{IndexError, Result};
pub use hash_index::{HashConfig, HashIndex, Shape};
pub use no_hints::Unhinted;
pub use secondary::SecondaryIndex;
pub use single_latch::SingleLatch;
pub use tree::{BTree, HintStats, RecordHint, TreeConfig, TreeShape};
pub use variant::{Index, Variant};
