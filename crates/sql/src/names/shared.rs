//! State that the schemas of a session's catalog share, and the schema that an embedding program
//! adds to it, such as PostgreSQL's `pg_catalog`.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};

use datafusion::catalog::{SchemaProvider, TableProvider, UrlTableFactory};
use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use terrace_sys::sync::lock;
use terrace_table::catalog::Snapshot;
use terrace_table::transaction::OpenTransaction;

use super::temporary::is_temporary;
use crate::engine::EngineState;

/// Returns the state of the session; `None` after its end.
pub(super) type SessionSource = Box<dyn Fn() -> Option<SessionState> + Send + Sync>;

/// External tables by schema and name.
type ExternalTables = BTreeMap<(String, String), Arc<dyn TableProvider>>;

/// State shared by the schemas of a session's catalog.
pub(super) struct Shared {
    pub(super) engine: Arc<EngineState>,
    pub(super) external: Mutex<ExternalTables>,
    pub(super) session: OnceLock<SessionSource>,
    /// Creates tables for names that are paths of files.
    pub(super) files: Arc<dyn UrlTableFactory>,
    /// Name of the schema of the session's temporary objects. The schema exists once the session
    /// has created one.
    pub(super) temporary: String,
    /// The transaction of the session, whose changes its statements see.
    pub(super) transaction: OpenTransaction,
    /// The schema added by the embedding program.
    pub(super) added: OnceLock<Arc<dyn AddedSchema>>,
}

/// A schema of read-only tables that an embedding program adds to the catalog of a session. The
/// session owns it; it must not own the [`Names`] of the session, since such a cycle would leak
/// both.
pub trait AddedSchema: fmt::Debug + Send + Sync {
    /// The name of the schema.
    fn name(&self) -> &str;

    /// The tables of the schema. Plans of prepared statements keep them, so a table must read
    /// `names` at each scan.
    fn tables(&self, names: Names) -> Arc<dyn SchemaProvider>;

    /// Rewrites a statement of the session or of a view before it is planned: syntax and names that
    /// have a meaning only in this schema.
    fn rewrite(&self, statement: &mut Statement);
}

/// Names of schemas, relations and other objects of the database. Each call returns them as a
/// statement of the session that begins at that time sees them.
#[derive(Clone)]
pub struct Names {
    pub(super) shared: Arc<Shared>,
}

impl Shared {
    /// The external tables.
    pub(super) fn external(&self) -> MutexGuard<'_, ExternalTables> {
        lock(&self.external)
    }

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

    /// True unless the schema has the temporary objects of another session.
    pub(super) fn is_visible(&self, schema: &str) -> bool {
        !is_temporary(schema) || schema == self.temporary
    }

    /// The catalog as a statement that begins now sees it.
    pub(super) fn now(&self) -> Snapshot {
        let open = lock(&self.transaction).clone();
        // A failed transaction refuses its statements.
        let within = open.and_then(|transaction| transaction.snapshot().ok());
        within.unwrap_or_else(|| self.engine.catalog().snapshot())
    }
}
