//! Effects of statements that DataFusion does not plan.

pub(super) mod copy;
mod grant;
mod heap;
mod role;
mod tenant;
mod tier;
mod transaction;
