//! Effects of statements that DataFusion does not plan.

mod acting_role;
mod alter;
mod comment;
pub(super) mod copy;
mod copy_files;
mod database_copy;
pub(super) mod drops;
mod explain;
mod grant;
mod heap;
pub(super) mod like;
mod maintenance;
mod notice;
mod object_changes;
mod role;
mod routines;
mod secret;
mod sequence;
pub(super) mod tables;
mod temporary;
mod tenant;
mod tier;
mod transaction;
mod types;
mod view_calls;
