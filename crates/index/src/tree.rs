//! B+-tree over pages.
//!
//! Nodes are slotted pages ([`node`]). Readers use optimistic reads and restart if a page changed
//! ([`walk`]); a writer upgrades its optimistic read of a leaf to an exclusive latch. Splits
//! ([`split`]) and merges ([`merge`]) latch a node and its parent.
//!
//! Latches are taken in the order: parent, its child, the child's siblings. A new page is latched
//! before any of them; no other thread can reach it.
//!
//! Expected cost of a look-up in DRAM: for each level the cache line of the frame and two or three
//! lines of the node; at the leaf also those of the record. Inner nodes stay in the processor's
//! caches; the five lines of the leaf do not.

mod batch;
mod btree;
mod bulk;
mod change;
mod edit;
mod hints;
mod lookup;
mod merge;
mod node;
mod records;
mod scan;
mod source;
mod split;
mod verify;
mod walk;

pub use btree::{BTree, TreeConfig};
pub use hints::{HintStats, RecordHint};
pub use verify::TreeShape;

#[cfg(test)]
mod tests;
