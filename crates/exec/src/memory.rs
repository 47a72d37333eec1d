//! Memory grants of operators: the bytes that an operator may hold, and the interface to ask for
//! them.
//!
//! An operator holds *pinned* pages and a little heap, and both are charged to its grant. Unpinned
//! pages are not charged: the pool keeps them in the tier that suits their use. So an operator that
//! is refused bytes, or asked to release some, unpins the pages that it will need last; it writes
//! no file.

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
