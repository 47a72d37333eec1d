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
mod commit;
mod define;
mod definition;
mod draft;
mod file;
mod journal;
mod label;
mod load;
mod locks;
mod membership;
mod names;
mod properties;
mod record;
mod role;
mod role_record;
mod roles;
mod snapshot;
mod state;
mod table_definition;
mod tenant;
mod tenant_record;
mod tenants;
#[cfg(test)]
mod tests;
mod verifier;
mod versions;

pub use draft::Draft;
pub(crate) use file::FileTransaction;
pub(crate) use journal::{Journal, put_chunks};
pub use label::{LABEL_BYTES, Lifetime};
pub(crate) use locks::{Holder, Lockable, TableLocks};
pub use properties::{ColumnProperties, Properties};
pub use role::{Membership, Role};
pub use snapshot::Snapshot;
pub use state::Catalog;
pub use table_definition::{DEFAULT_SCHEMA, IfExists, TableDefinition};
pub use tenant::Tenant;
pub use terrace_governor::limits::TenantLimits;
pub use verifier::Verifier;
