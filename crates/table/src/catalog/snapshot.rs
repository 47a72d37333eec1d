//! Snapshots of the catalog, each as of one commit.
//!
//! Schemas, tables, views and the version of each table are persistent maps: a snapshot copies a
//! few pointers, and a commit copies one path of each map that it changes. So a statement resolves
//! all of its names, and reads all of its tables, as of one commit.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use super::names::{Names, Roles, Schemas};
use super::table_definition::{DEFAULT_SCHEMA, IfExists, TableDefinition};
use super::versions::VersionMap;
use crate::access::{Access, Grantee, Privilege};
use crate::error::SqlError;
use crate::table::{Table, TableVersion};

/// Change numbers of uncommitted names; those of commits count from zero.
static UNCOMMITTED: AtomicU64 = AtomicU64::new(1 << 63);

/// The schemas with their objects, and the roles, of the database as of one commit, with the rows
/// that each table had then. Cheap to clone. All tables in it stay readable for as long as the
/// snapshot is held.
#[derive(Clone)]
pub struct Snapshot {
    pub(super) schemas: Schemas,
    pub(super) roles: Roles,
    versions: VersionMap,
    changes: u64,
}

impl Snapshot {
    pub(super) fn new(names: &Names, versions: VersionMap) -> Self {
        let (schemas, roles) = (names.schemas.clone(), names.roles.clone());
        Self { schemas, roles, versions, changes: names.changes }
    }

    /// Sets the version of a table in the snapshot.
    pub(super) fn put_version(&mut self, table: u64, version: Arc<TableVersion>) {
        self.versions.insert_mut(table, version);
    }

    /// Changes the names of the snapshot, which from then on are those of no commit.
    pub(super) fn change_names(
        &mut self,
        change: impl FnOnce(&mut Schemas) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let mut schemas = self.schemas.clone();
        change(&mut schemas)?;
        self.schemas = schemas;
        self.changes = UNCOMMITTED.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    /// Returns the number of name changes before the snapshot. Two snapshots with the same number
    /// have the same schemas, tables and views, but may differ in rows.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// Returns the names of all schemas, in order.
    #[must_use]
    pub fn schemas(&self) -> Vec<String> {
        self.schemas.keys().cloned().collect()
    }

    /// Returns true if there is a schema of this name.
    #[must_use]
    pub fn has_schema(&self, name: &str) -> bool {
        self.schemas.contains_key(name)
    }

    /// Returns true if a schema has a table, view or sequence of this name.
    #[must_use]
    pub fn has_object(&self, schema: &str, name: &str) -> bool {
        let schema = self.schemas.get(schema);
        schema.is_some_and(|it| it.has(Some(name)))
    }

    /// Returns the owner and grants of a table, view or sequence, or of the schema if `object` is
    /// `None`; `None` if it has neither. Every role can look up objects of the schema `public`
    /// until that is revoked.
    #[must_use]
    pub fn access(&self, schema: &str, object: Option<&str>) -> Option<&Access> {
        static OF_PUBLIC: LazyLock<Access> = LazyLock::new(|| {
            let mut access = Access::default();
            access.grant(Grantee::Public, [Privilege::Usage].into_iter().collect());
            access
        });
        let names = self.schemas.get(schema)?;
        match object {
            Some(object) => names.access.get(object).map(Arc::as_ref),
            None => {
                let default = (schema == DEFAULT_SCHEMA).then_some(&*OF_PUBLIC);
                names.own.as_deref().or(default)
            }
        }
    }

    /// Returns the same as [`Snapshot::access`], without the default of the schema `public`.
    pub(super) fn shared_access(&self, schema: &str, object: Option<&str>) -> Option<&Arc<Access>> {
        let names = self.schemas.get(schema)?;
        object.map_or(names.own.as_ref(), |object| names.access.get(object))
    }

    /// Returns true if a definition of a table has no effect because an object of its name exists
    /// and is kept.
    ///
    /// # Errors
    /// [`SqlError::Exists`] if the object is neither kept nor replaced;
    /// [`SqlError::MissingSchema`].
    pub fn is_kept(
        &self,
        definition: &TableDefinition,
        if_exists: IfExists,
    ) -> Result<bool, SqlError> {
        let TableDefinition { schema_name, name, .. } = definition;
        let Some(schema) = self.schemas.get(schema_name) else {
            return Err(SqlError::MissingSchema { name: schema_name.clone() });
        };
        if !schema.has(Some(name)) {
            return Ok(false);
        }
        let is_table = schema.tables.contains_key(name);
        match if_exists {
            IfExists::Keep => Ok(true),
            IfExists::Replace if is_table => Ok(false),
            _ => Err(SqlError::Exists { name: format!("{schema_name}.{name}") }),
        }
    }

    /// Returns a table by its name, and its version.
    #[must_use]
    pub fn table(&self, schema: &str, name: &str) -> Option<(Arc<Table>, Arc<TableVersion>)> {
        let table = self.schemas.get(schema)?.tables.get(name)?;
        let version = self.versions.get(&table.id())?;
        Some((Arc::clone(table), Arc::clone(version)))
    }

    /// Returns the version of a table; `None` for one that is not in the catalog.
    #[must_use]
    pub fn version(&self, table: &Table) -> Option<Arc<TableVersion>> {
        self.versions.get(&table.id()).cloned()
    }

    /// Returns the names of the tables of a schema, in order.
    #[must_use]
    pub fn table_names(&self, schema: &str) -> Vec<String> {
        let schema = self.schemas.get(schema);
        schema.map_or_else(Vec::new, |schema| schema.tables.keys().cloned().collect())
    }

    /// Returns the text of a view.
    #[must_use]
    pub fn view(&self, schema: &str, name: &str) -> Option<Arc<str>> {
        self.schemas.get(schema)?.views.get(name).cloned()
    }

    /// Returns the names of the views of a schema, in order.
    #[must_use]
    pub fn view_names(&self, schema: &str) -> Vec<String> {
        let schema = self.schemas.get(schema);
        schema.map_or_else(Vec::new, |schema| schema.views.keys().cloned().collect())
    }
}

impl fmt::Debug for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Snapshot").field("schemas", &self.schemas()).finish_non_exhaustive()
    }
}
