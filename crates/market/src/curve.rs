//! Curves: the cost of work as a function of its memory.
//!
//! A [`Curve`] never rises as bytes grow; it need not be convex. It is linear between its points
//! and flat before the first and after the last. Bytes are integers, so a cliff is two points one
//! byte apart, and a curve of points is exact even for the passes of an external sort.
//!
//! [`SortModel`] and [`HashModel`] compute curves, a [`Correction`] scales them to measurements,
//! and [`Shards`] samples the miss-ratio curve of a cache. The meaning of the values (I/Os,
//! seconds, penalty) is up to the caller; [`crate::sla`] converts one into another.

mod correction;
mod distance;
mod hash;
mod histogram;
mod point;
mod polyline;
mod sample;
mod sampler;
mod shards;
mod shared;
mod simplify;
mod sort;

pub use correction::Correction;
pub use hash::HashModel;
pub use point::Point;
pub use polyline::{Curve, CurveError};
pub use sampler::{Sampler, Touched};
pub use shards::Shards;
pub use sort::{SortModel, Spill};
