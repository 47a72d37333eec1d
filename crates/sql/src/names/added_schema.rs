//! Schemas that an embedding program adds to the catalog of its sessions, such as PostgreSQL's
//! `pg_catalog`, and the names of the database for their tables.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::{CatalogProvider as _, SchemaProvider, TableProvider};
use datafusion::common::Result;
use datafusion::sql::parser::Statement;
use futures::future::BoxFuture;
use terrace_sys::size::to_u64;
use terrace_sys::sync::lock;
use terrace_table::catalog::{Role, Snapshot};
use terrace_table::error::SqlError;

use super::reserved::SYSTEM_SCHEMA;
use super::{MainCatalog, Shared};
use crate::access::Access;
use crate::view;

/// A schema of read-only tables that an embedding program adds to the catalog of a session. The
/// session owns it; it must not own the [`Names`] of the session, since such a cycle would leak
/// both.
pub trait AddedSchema: fmt::Debug + Send + Sync {
    /// The name of the schema.
    fn name(&self) -> &str;

    /// The tables of the schema. Plans of prepared statements keep them; they query the names of
    /// the database at each scan.
    fn tables(&self, names: Names) -> Arc<dyn SchemaProvider>;

    /// Rewrites a statement of the session or of a view before it is planned: syntax and names that
    /// have a meaning only in this schema.
    fn rewrite(&self, statement: &mut Statement);
}

impl Shared {
    /// The tables of the added schema, if it has this name.
    pub(super) fn added(self: &Arc<Self>, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let added = self.added.get().filter(|added| added.name() == name)?;
        Some(added.tables(Names { shared: Arc::clone(self) }))
    }

    /// The table of this name in the added schema.
    pub(super) async fn added_table(
        self: &Arc<Self>,
        name: &str,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(added) = self.added.get() else { return Ok(None) };
        added.tables(Names { shared: Arc::clone(self) }).table(name).await
    }

    /// The catalog as a statement that begins now sees it.
    fn now(&self) -> Snapshot {
        let open = lock(&self.transaction).clone();
        // A failed transaction refuses its statements.
        let within = open.and_then(|transaction| transaction.snapshot().ok());
        within.unwrap_or_else(|| self.engine.catalog().snapshot())
    }
}

impl MainCatalog {
    /// Adds a schema; later calls have no effect.
    pub(crate) fn add(&self, schema: Arc<dyn AddedSchema>) {
        // The only embedding program adds its schema when it opens the session.
        let _ = self.shared.added.set(schema);
    }

    /// The names of the database.
    pub(crate) fn names(&self) -> Names {
        Names { shared: Arc::clone(&self.shared) }
    }
}

/// The schemas and relations of the database, as a statement of the session that begins at the time
/// of a call sees them.
#[derive(Clone)]
pub struct Names {
    shared: Arc<Shared>,
}

/// A table or view of the database.
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
    /// The names of the schemas of the database, in order, and of the schema `terrace`.
    #[must_use]
    pub fn schemas(&self) -> Vec<String> {
        let mut schemas = self.shared.now().schemas();
        schemas.push(SYSTEM_SCHEMA.to_owned());
        schemas
    }

    /// All tables and views.
    #[must_use]
    pub fn relations(&self) -> Vec<Relation> {
        let snapshot = self.shared.now();
        let mut relations = Vec::new();
        for schema in snapshot.schemas() {
            let relation = |name: String, kind| Relation { schema: schema.clone(), name, kind };
            relations.extend(snapshot.table_names(&schema).into_iter().filter_map(|name| {
                let (table, version) = snapshot.table(&schema, &name)?;
                let (rows, bytes) = (to_u64(version.rows()), version.extent_bytes());
                Some(relation(name, RelationKind::Table { number: table.id(), rows, bytes }))
            }));
            relations.extend(snapshot.view_names(&schema).into_iter().filter_map(|name| {
                let text = snapshot.view(&schema, &name)?;
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
