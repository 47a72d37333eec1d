//! The names a session sees: the catalog `main` with the schemas of the database and `terrace`.
//!
//! Tables and views are the engine's and outlive the session. External tables (`CREATE EXTERNAL
//! TABLE`) are names for files and belong to the session that made them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use async_trait::async_trait;
use datafusion::catalog::{CatalogProvider, SchemaProvider, TableProvider};
use datafusion::common::{Result, exec_datafusion_err, exec_err, plan_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::TableType;

use crate::engine::EngineState;
use crate::provider::StoredTable;
use crate::session::hint;
use crate::system::{SYSTEM_SCHEMA, SystemSchema};
use crate::view;

/// The catalog of the database, in a session.
pub const CATALOG: &str = "main";

/// Gives the state of the session, for as long as it lives.
pub(crate) type SessionSource = Box<dyn Fn() -> Option<SessionState> + Send + Sync>;

/// External tables by schema and name.
type ExternalTables = BTreeMap<(String, String), Arc<dyn TableProvider>>;

/// What the schemas of a session's catalog share.
struct Shared {
    engine: Arc<EngineState>,
    external: Mutex<ExternalTables>,
    session: OnceLock<SessionSource>,
}

impl Shared {
    fn external(&self) -> MutexGuard<'_, ExternalTables> {
        self.external.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The catalog `main`.
pub(crate) struct MainCatalog {
    shared: Arc<Shared>,
}

impl MainCatalog {
    pub(crate) fn new(engine: Arc<EngineState>) -> Self {
        let (external, session) = (Mutex::default(), OnceLock::new());
        Self { shared: Arc::new(Shared { engine, external, session }) }
    }

    /// Says where the session's state is, by which views are planned. It holds the catalog, so it
    /// cannot be there from the start.
    pub(crate) fn attach(&self, session: SessionSource) {
        // A catalog is attached once, by the session that made it.
        let _ = self.shared.session.set(session);
    }

    /// Forgets an external table. False if there is none of this name.
    pub(crate) fn drop_external(&self, schema: &str, name: &str) -> bool {
        self.shared.external().remove(&(schema.to_owned(), name.to_owned())).is_some()
    }

    /// Whether there is an external table of this name.
    pub(crate) fn has_external(&self, schema: &str, name: &str) -> bool {
        self.shared.external().contains_key(&(schema.to_owned(), name.to_owned()))
    }
}

impl fmt::Debug for MainCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MainCatalog")
    }
}

impl CatalogProvider for MainCatalog {
    fn schema_names(&self) -> Vec<String> {
        let mut names = self.shared.engine.catalog().schemas();
        names.push(SYSTEM_SCHEMA.to_owned());
        names
    }

    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if name == SYSTEM_SCHEMA {
            return Some(Arc::new(SystemSchema::new(Arc::clone(&self.shared.engine))));
        }
        self.shared.engine.catalog().has_schema(name).then(|| {
            Arc::new(MainSchema { name: name.to_owned(), shared: Arc::clone(&self.shared) }) as _
        })
    }

    fn register_schema(
        &self,
        name: &str,
        _schema: Arc<dyn SchemaProvider>,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        exec_err!("schema {name} cannot be registered in catalog {CATALOG}; say CREATE SCHEMA")
    }

    fn deregister_schema(
        &self,
        name: &str,
        _cascade: bool,
    ) -> Result<Option<Arc<dyn SchemaProvider>>> {
        exec_err!("schema {name} of catalog {CATALOG} cannot be deregistered; say DROP SCHEMA")
    }
}

/// A schema of the database.
struct MainSchema {
    name: String,
    shared: Arc<Shared>,
}

impl MainSchema {
    fn key(&self, name: &str) -> (String, String) {
        (self.name.clone(), name.to_owned())
    }

    fn external(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.shared.external().get(&self.key(name)).cloned()
    }

    fn session(&self) -> Result<SessionState> {
        let state = self.shared.session.get().and_then(|session| session());
        state.ok_or_else(|| exec_datafusion_err!("the session has ended"))
    }
}

impl fmt::Debug for MainSchema {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "MainSchema({})", self.name)
    }
}

#[async_trait]
impl SchemaProvider for MainSchema {
    fn table_names(&self) -> Vec<String> {
        let catalog = self.shared.engine.catalog();
        let tables = catalog.tables(&self.name);
        let tables = tables.iter().map(|table| table.name().to_owned());
        let views = catalog.views(&self.name).into_iter().map(|(name, _)| name);
        let external = self.shared.external();
        let external = external.keys().filter(|(schema, _)| *schema == self.name);
        tables.chain(views).chain(external.map(|(_, name)| name.clone())).collect()
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.external(name) {
            return Ok(Some(table));
        }
        let catalog = self.shared.engine.catalog();
        if let Some(table) = StoredTable::find(&self.shared.engine, &self.name, name) {
            return Ok(Some(Arc::new(table)));
        }
        match catalog.view(&self.name, name) {
            Some(text) => {
                // Whoever lists all tables must not fail for one of them.
                let planned = view::provider(&self.session()?, catalog, &text).await;
                let full_name = || format!("{}.{name}", self.name);
                Ok(Some(planned.unwrap_or_else(|error| view::broken(full_name(), &error))))
            }
            None => match hint::of_missing_table(name) {
                Some(what) => plan_err!("{what}"),
                None => Ok(None),
            },
        }
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        if let Some(table) = self.external(name) {
            return Ok(Some(table.table_type()));
        }
        let catalog = self.shared.engine.catalog();
        let view = catalog.view(&self.name, name).map(|_| TableType::View);
        Ok(view.or_else(|| catalog.table(&self.name, name).map(|_| TableType::Base)))
    }

    fn register_table(
        &self,
        name: String,
        table: Arc<dyn TableProvider>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        if self.shared.engine.catalog().table(&self.name, &name).is_some()
            || self.shared.engine.catalog().view(&self.name, &name).is_some()
        {
            return exec_err!("{}.{name} already exists; drop it first", self.name);
        }
        let key = self.key(&name);
        Ok(self.shared.external().insert(key, table))
    }

    /// Forgets an external table. Tables of the database are dropped by DROP TABLE alone.
    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.shared.external().remove(&self.key(name)))
    }

    fn table_exist(&self, name: &str) -> bool {
        let catalog = self.shared.engine.catalog();
        catalog.table(&self.name, name).is_some()
            || catalog.view(&self.name, name).is_some()
            || self.external(name).is_some()
    }
}
