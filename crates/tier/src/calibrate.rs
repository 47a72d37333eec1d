//! Calibration: measures latency and bandwidth of memory and stores, and the cost of page
//! operations, on this machine.
//!
//! Everything is measured in scratch memory and scratch extents, which are released at the end, and
//! limited by [`Effort`]: calibration of a machine takes about a second.

mod effort;
mod memory;
mod pages;
mod store;

pub use effort::Effort;
pub use memory::{MemoryFigures, memory};
pub use pages::{PageCosts, checksum_gib_per_s, page_costs};
pub use store::{StoreFigures, device, store};
