//! Memory grants of operators: the bytes that an operator may hold, and the interface to ask for
//! them.
//!
//! An operator holds *pinned* pages and a little heap, and its grant counts both. Pages that it
//! unpins cost no grant: the pool keeps them where that pays. So an operator that is refused bytes,
//! or asked to give some back, unpins the pages that it needs last; it writes no file.

mod adapter;
mod fixed_budget;
mod grant;
mod metered_grant;
mod unlimited_grant;

pub use adapter::CountedPool;
pub use fixed_budget::FixedMemory;
pub use grant::{Grant, QueryExtension, QueryMemory};
pub(crate) use metered_grant::MeteredGrant;
pub use unlimited_grant::ObliviousGrant;
