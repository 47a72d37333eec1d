//! Placement of segments: in pages of the pool, or copied to a heap.
//!
//! Every segment has a page and an extent, which make it durable. A heap may hold an additional
//! copy of its bytes: scans then read that copy in place, and the page is evicted like any other
//! unused page. Migration follows the three steps of the paper (Weisgut et al., 2022, section
//! III.E): the segment is copied, the pointer is switched, and the previous copy is freed when its
//! last reader drops it.
//!
//! Placements last for the life of the process: when a database is opened, all segments are in the
//! pool.

mod auto;
mod heaps;
mod migration;
mod migrator;
mod request;
mod segment_placement;

pub use heaps::NamedHeap;
pub use heaps::{HeapDefinition, Heaps};
pub use migration::{forget_reads, leave, move_table};
pub use migrator::{Migrator, Parts as MigratorParts};
pub use request::{PlacementRequest, PlacementRequests, Scope, Target};
pub use segment_placement::{Copied, SegmentPlacement};
