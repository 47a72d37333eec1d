//! The catalog `main` of a session and its schemas.

use std::fmt;
use std::sync::{Arc, Mutex, OnceLock};

use async_trait::async_trait;
use datafusion::catalog::{
    CatalogProvider, CatalogProviderList, DynamicFileCatalog, MemoryCatalogProviderList,
    SchemaProvider, TableProvider, UrlTableFactory,
};
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use datafusion::execution::SessionState;
use datafusion::logical_expr::{ScalarUDF, TableType};
use terrace_table::catalog::Snapshot;
use terrace_table::transaction::OpenTransaction;

use super::functions;
use super::information::{INFORMATION_SCHEMA, InformationSchema};
use super::path::SearchPath;
use super::reserved::{CATALOG, SYSTEM_SCHEMA};
use super::search::PathSchemas;
use super::sequences::{self, SequenceUse};
use super::shared::{AddedSchema, Names, SessionSource, Shared};
use super::temporary::{TEMPORARY, temporary_schema};
use super::types::TypeSnapshot;
use crate::engine::EngineState;
use crate::provider::StoredTable;
use crate::session::OfView;
use crate::system::SystemSchema;
use crate::view;

impl Shared {
    /// The state of the session for the query of a view, which resolves names in `snapshot`. Its
    /// tables are read with the rights of the view's owner, which are checked by name.
    fn state_of_view(self: &Arc<Self>, snapshot: &Snapshot) -> Result<SessionState> {
        let state = self.session.get().and_then(|session| session());
        let mut state = state.ok_or_else(|| exec_datafusion_err!("the session has ended"))?;
        self.resolve_in(&mut state, snapshot, true);
        Ok(state)
    }

    /// Makes a state of the session resolve names in `snapshot`.
    fn resolve_in(
        self: &Arc<Self>,
        state: &mut SessionState,
        snapshot: &Snapshot,
        is_granted: bool,
    ) {
        if snapshot.has_schema(&self.temporary) {
            let path = &mut state.config_mut().options_mut().catalog.default_schema;
            *path = format!("{}, {path}", self.temporary);
        }
        TypeSnapshot::put_in(state, snapshot);
        let (shared, snapshot) = (Arc::clone(self), Some(snapshot.clone()));
        let main = MemoryCatalogProviderList::new();
        let catalog = MainCatalog { shared, snapshot, is_granted };
        main.register_catalog(CATALOG.to_owned(), Arc::new(catalog));
        let main = DynamicFileCatalog::new(Arc::new(main), Arc::clone(&self.files));
        let others = Arc::clone(state.catalog_list());
        state.register_catalog_list(Arc::new(StatementCatalogs { main, others }));
    }
}

/// The catalogs of one statement: the database as of the statement's snapshot, and the session's
/// other catalogs.
#[derive(Debug)]
struct StatementCatalogs {
    main: DynamicFileCatalog,
    others: Arc<dyn CatalogProviderList>,
}

impl CatalogProviderList for StatementCatalogs {
    fn register_catalog(
        &self,
        name: String,
        catalog: Arc<dyn CatalogProvider>,
    ) -> Option<Arc<dyn CatalogProvider>> {
        self.others.register_catalog(name, catalog)
    }

    fn catalog_names(&self) -> Vec<String> {
        self.others.catalog_names()
    }

    fn catalog(&self, name: &str) -> Option<Arc<dyn CatalogProvider>> {
        match name {
            CATALOG => self.main.catalog(name),
            other => self.others.catalog(other),
        }
    }
}

/// The catalog `main`. That of a statement has the snapshot of the statement; that of a session has
/// none, and takes a new one for each look-up.
pub(crate) struct MainCatalog {
    pub(super) shared: Arc<Shared>,
    pub(super) snapshot: Option<Snapshot>,
    /// True if its tables may be read regardless of the session's role.
    pub(super) is_granted: bool,
}

impl MainCatalog {
    /// The catalog of the session of this number with this transaction. `files` creates tables for
    /// names that are paths.
    pub(crate) fn new(
        engine: Arc<EngineState>,
        files: Arc<dyn UrlTableFactory>,
        transaction: OpenTransaction,
        session: u64,
    ) -> Self {
        let temporary = temporary_schema(session);
        let (external, session, added) = (Mutex::default(), OnceLock::new(), OnceLock::new());
        let shared = Shared { engine, external, session, files, temporary, transaction, added };
        Self { shared: Arc::new(shared), snapshot: None, is_granted: false }
    }

    /// Makes a state of the session resolve names in `snapshot`.
    pub(crate) fn resolve_in(&self, state: &mut SessionState, snapshot: &Snapshot) {
        self.shared.resolve_in(state, snapshot, false);
    }

    fn now(&self) -> Snapshot {
        self.snapshot.clone().unwrap_or_else(|| self.shared.engine.catalog().snapshot())
    }

    /// Sets the function that returns the session's state, with which views are planned. The state
    /// owns this catalog, so the function cannot be set at construction.
    pub(crate) fn attach(&self, session: SessionSource) {
        // Set once, by the session that created the catalog.
        let _ = self.shared.session.set(session);
    }

    /// Removes an external table. Returns false if none has this name.
    pub(crate) fn drop_external(&self, schema: &str, name: &str) -> bool {
        self.shared.external().remove(&(schema.to_owned(), name.to_owned())).is_some()
    }

    /// The statement that created an external table; `None` if there is none of this name.
    pub(crate) fn external_definition(&self, schema: &str, name: &str) -> Option<String> {
        let external = self.shared.external();
        let table = external.get(&(schema.to_owned(), name.to_owned()))?;
        table.get_table_definition().map(str::to_owned)
    }

    /// The name of one of the external tables of a schema; `None` if it has none.
    pub(crate) fn external_of(&self, schema: &str) -> Option<String> {
        let external = self.shared.external();
        let mut names = external.keys().filter(|(home, _)| home == schema);
        names.next().map(|(_, name)| name.clone())
    }

    /// Returns true if there is an external table of this name.
    pub(crate) fn has_external(&self, schema: &str, name: &str) -> bool {
        self.shared.external().contains_key(&(schema.to_owned(), name.to_owned()))
    }

    /// Adds the schema of the embedding program; later calls have no effect.
    pub(crate) fn add(&self, schema: Arc<dyn AddedSchema>) {
        // The only embedding program adds its schema when it opens the session.
        let _ = self.shared.added.set(schema);
    }

    /// The name of the schema of the session's temporary objects. The schema exists once the
    /// session has created one.
    pub(crate) fn temporary(&self) -> &str {
        &self.shared.temporary
    }

    /// The schema of this name.
    fn single_schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        let name = if name == TEMPORARY { self.temporary() } else { name };
        if !self.shared.is_visible(name) {
            return None;
        }
        if name == SYSTEM_SCHEMA {
            return Some(Arc::new(SystemSchema::new(Arc::clone(&self.shared.engine))));
        }
        if let Some(added) = self.shared.added(name) {
            return Some(added);
        }
        let (shared, snapshot) = (Arc::clone(&self.shared), self.snapshot.clone());
        if name == INFORMATION_SCHEMA {
            let (list, now) = (MemoryCatalogProviderList::new(), self.now());
            let main = Self { shared: Arc::clone(&shared), snapshot, is_granted: self.is_granted };
            list.register_catalog(CATALOG.to_owned(), Arc::new(main));
            return Some(Arc::new(InformationSchema::new(Arc::new(list), now, shared)));
        }
        let (name, is_granted) = (name.to_owned(), self.is_granted);
        let known = self.now().has_schema(&name);
        known.then(|| Arc::new(MainSchema { name, shared, snapshot, is_granted }) as _)
    }

    /// The functions that return the schemas of the search path.
    pub(crate) fn functions(&self) -> [ScalarUDF; 2] {
        functions::all(&self.shared)
    }

    /// The functions over sequences.
    pub(crate) fn sequence_functions(&self, session: SequenceUse) -> Vec<ScalarUDF> {
        sequences::all(&self.shared, &Arc::new(session))
    }

    /// The catalog as a statement that begins now sees it.
    pub(crate) fn current(&self) -> Snapshot {
        self.shared.now()
    }

    /// The names of the database.
    pub(crate) fn names(&self) -> Names {
        Names { shared: Arc::clone(&self.shared) }
    }
}

impl fmt::Debug for MainCatalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MainCatalog")
    }
}

impl CatalogProvider for MainCatalog {
    fn schema_names(&self) -> Vec<String> {
        let mut names = self.now().schemas();
        names.retain(|name| self.shared.is_visible(name));
        names.push(SYSTEM_SCHEMA.to_owned());
        names.extend(self.shared.added.get().map(|added| added.name().to_owned()));
        names
    }

    /// The schema of this name, or the schemas of a search path.
    fn schema(&self, name: &str) -> Option<Arc<dyn SchemaProvider>> {
        if let Some(schema) = self.single_schema(name) {
            return Some(schema);
        }
        let path = SearchPath::parse(name);
        if matches!(path.schemas(), [schema] if schema == name) {
            return None;
        }
        let all = path.temporary().into_iter().chain(path.schemas().iter().map(String::as_str));
        let schemas = all.filter_map(|name| self.single_schema(name)).collect();
        Some(Arc::new(PathSchemas::new(schemas, Arc::clone(&self.shared))))
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
    snapshot: Option<Snapshot>,
    is_granted: bool,
}

impl MainSchema {
    fn key(&self, name: &str) -> (String, String) {
        (self.name.clone(), name.to_owned())
    }

    fn external(&self, name: &str) -> Option<Arc<dyn TableProvider>> {
        self.shared.external().get(&self.key(name)).cloned()
    }

    fn now(&self) -> Snapshot {
        self.snapshot.clone().unwrap_or_else(|| self.shared.engine.catalog().snapshot())
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
        let snapshot = self.now();
        let mut names = snapshot.table_names(&self.name);
        names.extend(snapshot.view_names(&self.name));
        let external = self.shared.external();
        let external = external.keys().filter(|(schema, _)| *schema == self.name);
        names.extend(external.map(|(_, name)| name.clone()));
        names
    }

    async fn table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        if let Some(table) = self.external(name) {
            return Ok(Some(table));
        }
        let snapshot = self.now();
        if let Some(table) = StoredTable::find(&self.shared.engine, &snapshot, &self.name, name) {
            return Ok(Some(Arc::new(if self.is_granted { table.granted() } else { table })));
        }
        match snapshot.view(&self.name, name) {
            Some(text) => {
                // A statement that lists all tables must not fail because of one of them.
                let state = self.shared.state_of_view(&snapshot)?;
                let name_of_view = (self.name.as_str(), name);
                let planned = view::provider(&state, &snapshot, name_of_view, &text);
                let planned = OfView::new(planned).await;
                let full_name = || format!("{}.{name}", self.name);
                Ok(Some(planned.unwrap_or_else(|error| view::broken(full_name(), &error))))
            }
            None => self.shared.added_table(name).await,
        }
    }

    async fn table_type(&self, name: &str) -> Result<Option<TableType>> {
        if let Some(table) = self.external(name) {
            return Ok(Some(table.table_type()));
        }
        let snapshot = self.now();
        let view = snapshot.view(&self.name, name).map(|_| TableType::View);
        Ok(view.or_else(|| snapshot.table(&self.name, name).map(|_| TableType::Base)))
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

    /// Removes an external table. Tables of the database are dropped by DROP TABLE only.
    fn deregister_table(&self, name: &str) -> Result<Option<Arc<dyn TableProvider>>> {
        Ok(self.shared.external().remove(&self.key(name)))
    }

    fn table_exist(&self, name: &str) -> bool {
        let snapshot = self.now();
        snapshot.table(&self.name, name).is_some()
            || snapshot.view(&self.name, name).is_some()
            || self.external(name).is_some()
    }
}
