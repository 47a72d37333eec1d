//! Effects of statements that DataFusion does not plan.

mod acting_role;
mod alter;
pub(super) mod copy;
mod copy_files;
mod grant;
mod heap;
pub(super) mod like;
mod maintenance;
mod role;
mod tenant;
mod tier;
mod transaction;
