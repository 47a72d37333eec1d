//! An open catalog: its names, and the journal that makes their changes durable.

use std::fmt;
use std::path::Path;
use std::sync::{Arc, RwLock, RwLockReadGuard, RwLockWriteGuard};

use terrace_pool::Pool;
use terrace_sys::sync::{read, write};
use tokio::sync::Mutex as AsyncMutex;

use super::file::CatalogFile;
use super::journal::Journal;
use super::label::{Label, Lifetime};
use super::load;
use super::locks::TableLocks;
use super::names::Names;
use super::record::TableRecord;
use super::snapshot::Snapshot;
use super::table_definition::{DEFAULT_SCHEMA, TableDefinition};
use crate::error::SqlError;
use crate::files::Files;
use crate::segment::check_type;
use crate::table::Table;
use crate::tasks::Tasks;
use crate::write::MergeQueue;
use terrace_governor::pins::PagePins;

/// An open catalog: the names of all objects, the file that makes them durable, and the pool that
/// holds the pages of tables.
pub struct Catalog {
    pub(super) journal: Arc<Journal>,
    pool: Pool,
    pub(super) names: RwLock<Names>,
    pub(super) changes: Arc<AsyncMutex<()>>,
}

impl Catalog {
    /// Opens the catalog in the file `path` of `files`, and creates the file if it does not exist.
    /// The pool's store must be newly opened: the extents of every chunk are claimed in it. A new
    /// catalog takes a store that is blank or belonged to a temporary database, and is bound to it
    /// from then on. Statements that rewrite chunks pin pages within the limit of `pins`.
    ///
    /// # Errors
    /// [`SqlError::Catalog`] if the file cannot be used, [`SqlError::CatalogDamaged`] if its
    /// contents are inconsistent, [`SqlError::WrongStore`] if the store is not the catalog's, which
    /// is then left unchanged, [`SqlError::Refused`] if the pool has no store.
    pub fn open(
        files: &dyn Files,
        path: &Path,
        pool: Pool,
        pins: Arc<PagePins>,
        lifetime: Lifetime,
    ) -> Result<Arc<Self>, SqlError> {
        let store = pool.store().cloned().ok_or_else(|| SqlError::Refused {
            what: "keeping tables in a pool without a store".to_owned(),
            instead: "give it a file or device tier".to_owned(),
        })?;
        let file = CatalogFile::open(files, path, &[DEFAULT_SCHEMA])?;
        let loaded = file.load()?;
        let label = Label { id: loaded.id, lifetime };
        label.settle(&store, loaded.end_bytes() > 0)?;
        load::check_size(&store, &loaded)?;
        let journal = Arc::new(Journal::new(file, store, pins));
        let names = load::names(loaded, &journal, &pool)?;
        journal.store().trim();
        let changes = Arc::new(AsyncMutex::new(()));
        let catalog = Self { journal, pool, names: RwLock::new(names), changes };
        catalog.drop_temporary_schemas()?;
        Ok(Arc::new(catalog))
    }

    /// Returns a snapshot of the catalog as of the last commit.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        // Both are read under one hold of the names: a table that replaces another publishes its
        // rows before it takes the name, and the replaced one drops its rows after that.
        let names = self.names();
        let versions = self.journal.versions.snapshot();
        Snapshot::new(&names, versions)
    }

    /// Returns the names of all schemas, in order.
    #[must_use]
    pub fn schemas(&self) -> Vec<String> {
        self.names().schemas.keys().cloned().collect()
    }

    /// Returns true if there is a schema of this name.
    #[must_use]
    pub fn has_schema(&self, name: &str) -> bool {
        self.names().schemas.contains_key(name)
    }

    /// Returns the tables of a schema, by name.
    #[must_use]
    pub fn tables(&self, schema: &str) -> Vec<Arc<Table>> {
        let names = self.names();
        names.schemas.get(schema).map_or_else(Vec::new, |s| s.tables.values().cloned().collect())
    }

    /// Returns a table by its name.
    #[must_use]
    pub fn table(&self, schema: &str, name: &str) -> Option<Arc<Table>> {
        self.names().schemas.get(schema)?.tables.get(name).cloned()
    }

    /// Returns the names and texts of the views of a schema, by name.
    #[must_use]
    pub fn views(&self, schema: &str) -> Vec<(String, Arc<str>)> {
        let names = self.names();
        let views = names.schemas.get(schema).map(|schema| &schema.views);
        views.into_iter().flatten().map(|(name, sql)| (name.clone(), sql.clone())).collect()
    }

    /// Returns the text of a view.
    #[must_use]
    pub fn view(&self, schema: &str, name: &str) -> Option<Arc<str>> {
        self.names().schemas.get(schema)?.views.get(name).cloned()
    }

    /// Creates a table that neither a draft nor a commit names yet.
    ///
    /// # Errors
    /// [`SqlError::Refused`] without columns, [`SqlError::Segment`] for a column type that cannot
    /// be stored.
    pub fn unnamed(&self, definition: TableDefinition) -> Result<Arc<Table>, SqlError> {
        let record = record_of(definition)?;
        let space = load::table_space(&self.pool, &record)?;
        Ok(load::table(self.next_table_id(), record, space, vec![], &self.journal))
    }

    /// Creates a table as [`Catalog::unnamed`] does, which may share the segments of `before`.
    ///
    /// # Errors
    /// As [`Catalog::unnamed`].
    pub fn altered(
        &self,
        before: &Table,
        definition: TableDefinition,
    ) -> Result<Arc<Table>, SqlError> {
        let (record, space) = (record_of(definition)?, before.space().clone());
        Ok(load::successor(self.next_table_id(), record, space, before))
    }

    pub(super) fn next_table_id(&self) -> u64 {
        let mut names = self.names_mut();
        names.next_table += 1;
        names.next_table - 1
    }

    /// Runs a change of names that involves no rows, while no other change of names runs.
    pub(super) async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        change: impl FnOnce(&Self) -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, SqlError> {
        let guard = self.changes.clone().lock_owned().await;
        self.blocking(guard, change).await
    }

    /// Runs `change` to completion even if the caller stops waiting for it, then drops the guards.
    pub(super) async fn blocking<G: Send + 'static, T: Send + 'static>(
        self: &Arc<Self>,
        guards: G,
        change: impl FnOnce(&Self) -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, SqlError> {
        let catalog = self.clone();
        let changed = self.journal.tasks.spawn(move || {
            let _guards = guards;
            change(&catalog)
        });
        changed.await?
    }

    /// Returns the tasks that run to completion even if no caller waits for them.
    pub fn tasks(&self) -> &Tasks {
        &self.journal.tasks
    }

    /// Returns the locks of the catalog's tables.
    pub(crate) fn locks(&self) -> &TableLocks {
        &self.journal.locks
    }

    /// Returns the queue of tables whose small chunks are to be merged.
    pub(crate) fn merges(&self) -> &MergeQueue {
        &self.journal.merges
    }

    /// Sets the hook that tests install at the failpoints of every statement.
    #[cfg(test)]
    pub(crate) fn set_failpoint(&self, hook: Option<crate::failpoint::Hook>) {
        self.journal.failpoints.set(hook);
    }

    pub(super) fn names(&self) -> RwLockReadGuard<'_, Names> {
        read(&self.names)
    }

    pub(super) fn names_mut(&self) -> RwLockWriteGuard<'_, Names> {
        let mut names = write(&self.names);
        names.changes += 1;
        names
    }
}

/// Checks a definition and returns the record of its table.
fn record_of(definition: TableDefinition) -> Result<TableRecord, SqlError> {
    let TableDefinition { schema_name, name, columns, encoding, properties, owner: _ } = definition;
    if columns.fields().is_empty() {
        return Err(SqlError::Refused {
            what: format!("table {schema_name}.{name} without columns"),
            instead: "give it at least one".to_owned(),
        });
    }
    for field in columns.fields() {
        check_type(field.data_type()).map_err(|source| SqlError::Segment {
            table: name.clone(),
            column: field.name().clone(),
            source,
        })?;
    }
    Ok(TableRecord { schema_name, name, encoding, columns, properties })
}

impl Drop for Catalog {
    /// Drops the versions: they read their tables' sketches from the journal, which in turn holds
    /// the versions.
    fn drop(&mut self) {
        self.journal.versions.clear();
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("schemas", &self.schemas()).finish_non_exhaustive()
    }
}
