//! Names of a catalog, in persistent maps.

use std::collections::BTreeMap;
use std::sync::Arc;

use rpds::RedBlackTreeMapSync;

use super::comment_records::Comments;
use super::role::Role;
use super::schema_text::SchemaTexts;
use super::sequence::Sequence;
use super::tenant::Tenant;
use crate::access::Access;
use crate::table::Table;

/// Roles by name.
pub(super) type Roles = RedBlackTreeMapSync<String, Arc<Role>>;

/// The objects of one schema by name, with their owners, grants and comments.
#[derive(Clone, Default)]
pub(super) struct SchemaNames {
    pub(super) tables: RedBlackTreeMapSync<String, Arc<Table>>,
    pub(super) views: RedBlackTreeMapSync<String, Arc<str>>,
    pub(super) texts: SchemaTexts,
    pub(super) sequences: RedBlackTreeMapSync<String, Arc<Sequence>>,
    /// By table, view or sequence; an object without an owner and grants is absent.
    pub(super) access: RedBlackTreeMapSync<String, Arc<Access>>,
    /// Access to the schema itself.
    pub(super) own: Option<Arc<Access>>,
    /// By view or sequence; an object without comments is absent.
    pub(super) comments: RedBlackTreeMapSync<String, Arc<Comments>>,
    /// Comment on the schema itself.
    pub(super) comment: Option<Arc<Comments>>,
}

/// The schemas by name.
pub(super) type Schemas = RedBlackTreeMapSync<String, SchemaNames>;

/// The names of a catalog: its schemas with their tables and views, its roles and its tenants.
#[derive(Default)]
pub(super) struct Names {
    pub(super) next_table: u64,
    /// Number of changes of the names since the catalog was opened.
    pub(super) changes: u64,
    pub(super) schemas: Schemas,
    pub(super) roles: Roles,
    pub(super) tenants: BTreeMap<String, Tenant>,
}
