//! Name resolution of a session: the catalog `main` with the schemas of the database and `terrace`.
//!
//! Tables and views belong to the engine and outlive the session; a statement resolves all of them
//! in one snapshot of the catalog. External tables (`CREATE EXTERNAL TABLE`) are names for files
//! and belong to the session that created them.

mod catalog;
mod definitions;
mod described;
mod functions;
mod information;
mod own_routines;
mod path;
mod relations;
mod reserved;
mod rewriting;
mod search;
mod sequences;
mod shared;
mod temporary;
mod types;

pub(crate) use catalog::MainCatalog;
pub use described::SequenceReport;
pub(crate) use own_routines::kinds as routine_kinds;
pub use path::SearchPath;
pub(crate) use path::resolve;
pub use relations::{Relation, RelationKind};
pub use reserved::{CATALOG, SYSTEM_SCHEMA};
pub(crate) use rewriting::Added;
pub(crate) use sequences::SequenceUse;
pub use shared::{AddedSchema, Names};
pub(crate) use temporary::{TEMPORARY, is_temporary};
pub(crate) use types::TypeSnapshot;
