//! The catalog: schemas, tables, views, and the directory of every chunk of every table.
//!
//! It is stored in one redb file, read whole when it is opened, and changed by one transaction per
//! acknowledged statement. The store keeps no directory of its own: on opening, the extents that
//! the catalog names are claimed, and all others are free. That holds for one store only, the one
//! whose label (`label`) has the catalog's database id.
//!
//! Locking order: the table locks (`locks`), the writers of tables by table id, then `changes`,
//! then the file's transaction, then `names`. `names` is held for look-ups and for publishing one
//! commit only.

mod bytes;
mod comment_records;
mod comments;
mod commit;
mod define;
mod definition;
mod dependency;
mod draft;
mod file;
mod journal;
mod label;
mod load;
mod load_failure;
mod locks;
mod membership;
mod name_changes;
mod named_type;
mod names;
mod object_records;
mod properties;
mod record;
mod role;
mod role_record;
mod roles;
mod schema_text;
mod sequence;
mod sequence_file;
mod sequence_options;
mod sequence_records;
mod sequences;
mod snapshot;
mod state;
mod table_definition;
mod temporary;
mod tenant;
mod tenant_record;
mod tenants;
#[cfg(test)]
mod tests;
mod text_define;
mod verifier;
mod versions;

pub use comment_records::Comments;
pub use dependency::KnownViews;
pub use draft::Draft;
pub(crate) use file::FileTransaction;
pub(crate) use journal::{Journal, put_chunks};
pub use label::{LABEL_BYTES, Lifetime};
pub(crate) use locks::{Holder, Lockable, TableLocks};
pub use named_type::{named_type, with_named_type};
pub use properties::{ColumnProperties, Identity, OnCommit, Properties};
pub use role::{Membership, Role};
pub use schema_text::{SchemaText, TextKind};
pub use sequence::Sequence;
pub use sequence_options::{SequenceOptions, SequenceType};
pub use snapshot::Snapshot;
pub use state::Catalog;
pub use table_definition::{DEFAULT_SCHEMA, IfExists, TableDefinition};
pub use tenant::Tenant;
pub use terrace_governor::limits::TenantLimits;
pub use verifier::Verifier;
