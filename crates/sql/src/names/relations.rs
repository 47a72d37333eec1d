//! Relations, roles and privileges of the database, for the tables of an added schema.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::CatalogProvider as _;
use datafusion::common::Result;
use futures::future::BoxFuture;
use terrace_sys::size::to_u64;
use terrace_table::catalog::Role;
use terrace_table::error::SqlError;

use super::catalog::MainCatalog;
use super::reserved::SYSTEM_SCHEMA;
use super::shared::Names;
use crate::access::Access;
use crate::view;

/// A relation that a session can name, of the database, of the session or of the engine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Relation {
    /// Name of the schema.
    pub schema: String,
    /// Name of the relation.
    pub name: String,
    /// Kind of the relation.
    pub kind: RelationKind,
}

/// Kinds of relations.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RelationKind {
    /// A table.
    Table {
        /// Number of the table, never reused in the database.
        number: u64,
        /// Number of rows.
        rows: u64,
        /// Bytes in the store.
        bytes: u64,
    },
    /// A view, with the text of its query.
    View(String),
    /// An external table of the session.
    External,
    /// A table of the schema `terrace`.
    System,
}

impl Names {
    /// The names of the schemas of the database that the session can name, in order, and of the
    /// schema `terrace`.
    #[must_use]
    pub fn schemas(&self) -> Vec<String> {
        let mut schemas = self.shared.now().schemas();
        schemas.retain(|schema| self.shared.is_visible(schema));
        schemas.push(SYSTEM_SCHEMA.to_owned());
        schemas
    }

    /// All tables and views of the database that the session can name, its external tables, and the
    /// tables of the schema `terrace`. A view whose stored text is damaged is left out.
    #[must_use]
    pub fn relations(&self) -> Vec<Relation> {
        let snapshot = self.shared.now();
        let mut relations = Vec::new();
        for schema in self.schemas().iter().filter(|schema| snapshot.has_schema(schema)) {
            let relation = |name: String, kind| Relation { schema: schema.clone(), name, kind };
            relations.extend(snapshot.table_names(schema).into_iter().filter_map(|name| {
                let (table, version) = snapshot.table(schema, &name)?;
                let (rows, bytes) = (to_u64(version.rows()), version.extent_bytes());
                Some(relation(name, RelationKind::Table { number: table.id(), rows, bytes }))
            }));
            relations.extend(snapshot.view_names(schema).into_iter().filter_map(|name| {
                let text = snapshot.view(schema, &name)?;
                let query = view::query_text(&text).ok()?;
                Some(relation(name, RelationKind::View(query)))
            }));
        }
        let external = self.shared.external();
        relations.extend(external.keys().map(|(schema, name)| Relation {
            schema: schema.clone(),
            name: name.clone(),
            kind: RelationKind::External,
        }));
        drop(external);
        relations.extend(crate::system::names().map(|name| Relation {
            schema: SYSTEM_SCHEMA.to_owned(),
            name: name.to_owned(),
            kind: RelationKind::System,
        }));
        relations
    }

    /// The roles by name.
    #[must_use]
    pub fn roles(&self) -> Vec<(String, Arc<Role>)> {
        self.shared.now().roles()
    }

    /// A role and the roles whose privileges it has, since it inherits from them.
    #[must_use]
    pub fn inherited(&self, role: &str) -> BTreeSet<String> {
        self.shared.now().inherited(role).into_iter().map(str::to_owned).collect()
    }

    /// A role and all roles that it is a member of, directly or through others.
    #[must_use]
    pub fn memberships(&self, role: &str) -> BTreeSet<String> {
        self.shared.now().memberships(role).into_iter().map(str::to_owned).collect()
    }

    /// True if a role has the ADMIN OPTION on another, itself or through others.
    #[must_use]
    pub fn administers(&self, role: &str, other: &str) -> bool {
        self.shared.now().administers(role, other)
    }

    /// Owner and grants of a table or view, or of the schema if `object` is `None`; `None` if the
    /// object does not exist.
    #[must_use]
    pub fn access(&self, schema: &str, object: Option<&str>) -> Option<Access> {
        self.shared.now().access(schema, object).cloned()
    }

    /// The columns of a table or view; `None` if it does not exist. A view that can no longer be
    /// planned has no columns.
    ///
    /// # Errors
    /// [`SqlError::DataFusion`] if the session has ended.
    pub fn columns<'a>(
        &'a self,
        schema: &'a str,
        name: &'a str,
    ) -> BoxFuture<'a, Result<Option<SchemaRef>, SqlError>> {
        Box::pin(async move {
            let (shared, snapshot) = (Arc::clone(&self.shared), Some(self.shared.now()));
            let catalog = MainCatalog { shared, snapshot, is_granted: false };
            let Some(schema) = catalog.schema(schema) else { return Ok(None) };
            Ok(schema.table(name).await?.map(|table| table.schema()))
        })
    }
}

impl fmt::Debug for Names {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Names").field("schemas", &self.schemas()).finish_non_exhaustive()
    }
}
