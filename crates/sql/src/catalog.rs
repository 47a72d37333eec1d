//! The catalog: schemas, tables, views, and the directory of every chunk of every table.
//!
//! It lives in one redb file, is read whole when it is opened, and changes by one transaction per
//! acknowledged statement. The store keeps no directory of its own: the extents that the catalog
//! names are claimed when it is opened, and all others are free. That is true of one store only,
//! the one whose label (`label`) has the catalog's number.
//!
//! Locking order: the writers of tables by their numbers, then `changes`, then the file's
//! transaction, then `names`. `names` is held for look-ups and single insertions only.

mod bytes;
mod file;
mod journal;
mod label;
mod load;
mod record;
mod snapshot;
mod tenants;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::sync::{Arc, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryPool;
use terrace_pool::Pool;
use tokio::sync::{Mutex as AsyncMutex, OwnedMutexGuard};

use crate::error::SqlError;
use crate::files::Files;
use crate::pins::PagePins;
use crate::segment::{Encoding, check_type};
use crate::table::Table;
use crate::tasks::Tasks;
use crate::write::{self, Changes, MergeQueue};

use file::CatalogFile;
pub(crate) use file::Transaction;
pub(crate) use journal::{Journal, put_chunks};
use label::Label;
pub use label::{LABEL_BYTES, Lifetime};
use record::TableRecord;
pub use snapshot::Snapshot;
use snapshot::{SchemaNames, Schemas};

pub use tenants::Tenant;

/// The schema that every catalog has from the start.
pub const DEFAULT_SCHEMA: &str = "public";

/// What a table is to be.
#[derive(Clone, Debug)]
pub struct TableDefinition {
    /// The schema to hold it.
    pub schema_name: String,
    /// Its name.
    pub name: String,
    /// Its columns.
    pub columns: SchemaRef,
    /// How its segments are encoded.
    pub encoding: Encoding,
}

/// What to do when the name is taken.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum IfExists {
    /// Fail with [`SqlError::Exists`].
    Fail,
    /// Leave what is there and change nothing.
    Keep,
    /// Put the new one in the place of the old one, in one step.
    Replace,
}

#[derive(Default)]
struct Names {
    next_table: u64,
    /// Number of changes of the names since the catalog was opened.
    changes: u64,
    schemas: Schemas,
    tenants: BTreeMap<String, Tenant>,
}

/// A table and the lock of its writer.
pub(crate) type LockedTable = (Arc<Table>, OwnedMutexGuard<()>);

/// An open catalog.
pub struct Catalog {
    journal: Arc<Journal>,
    pool: Pool,
    names: RwLock<Names>,
    changes: Arc<AsyncMutex<()>>,
}

impl Catalog {
    /// Opens the catalog in the file `path` of `files`, and makes one where there is none. The
    /// pool's store must be newly opened: the extents of every chunk are claimed in it. A new
    /// catalog takes a store that is blank or was a temporary database's, and is tied to it from
    /// then on. Statements that rewrite chunks pin pages within the limit of `pins`.
    ///
    /// # Errors
    /// [`SqlError::Catalog`] when the file cannot be used, [`SqlError::CatalogDamaged`] when it
    /// does not make sense, [`SqlError::WrongStore`] when the store is not the catalog's, which is
    /// then left as it was, [`SqlError::Refused`] when the pool has no store.
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
        Ok(Arc::new(Self { journal, pool, names: RwLock::new(names), changes }))
    }

    /// The catalog as the last commit left it.
    #[must_use]
    pub fn snapshot(&self) -> Snapshot {
        // Both under one hold of the names: a table that replaces another shows its rows before it
        // takes the name, and the one that it replaces forgets its rows after that.
        let names = self.names();
        let versions = self.journal.versions.snapshot();
        Snapshot::new(names.schemas.clone(), versions, names.changes)
    }

    /// The names of all schemas, in order.
    #[must_use]
    pub fn schemas(&self) -> Vec<String> {
        self.names().schemas.keys().cloned().collect()
    }

    /// Whether there is a schema of this name.
    #[must_use]
    pub fn has_schema(&self, name: &str) -> bool {
        self.names().schemas.contains_key(name)
    }

    /// The tables of a schema, by name.
    #[must_use]
    pub fn tables(&self, schema: &str) -> Vec<Arc<Table>> {
        let names = self.names();
        names.schemas.get(schema).map_or_else(Vec::new, |s| s.tables.values().cloned().collect())
    }

    /// A table by its name.
    #[must_use]
    pub fn table(&self, schema: &str, name: &str) -> Option<Arc<Table>> {
        self.names().schemas.get(schema)?.tables.get(name).cloned()
    }

    /// The names and texts of the views of a schema, by name.
    #[must_use]
    pub fn views(&self, schema: &str) -> Vec<(String, Arc<str>)> {
        let names = self.names();
        let views = names.schemas.get(schema).map(|schema| &schema.views);
        views.into_iter().flatten().map(|(name, sql)| (name.clone(), sql.clone())).collect()
    }

    /// The text of a view.
    #[must_use]
    pub fn view(&self, schema: &str, name: &str) -> Option<Arc<str>> {
        self.names().schemas.get(schema)?.views.get(name).cloned()
    }

    /// Makes a schema. Returns whether it is new.
    ///
    /// # Errors
    /// [`SqlError::SchemaExists`] unless `keep` is set; errors of the catalog's file.
    pub async fn create_schema(self: &Arc<Self>, name: &str, keep: bool) -> Result<bool, SqlError> {
        let name = name.to_owned();
        self.change(move |catalog| {
            if catalog.has_schema(&name) {
                return if keep { Ok(false) } else { Err(SqlError::SchemaExists { name }) };
            }
            catalog.journal.settle(&[], |transaction| transaction.put_schema(&name))?;
            catalog.names_mut().schemas.insert_mut(name, SchemaNames::default());
            Ok(true)
        })
        .await
    }

    /// Drops a schema, with `cascade` its tables and views too, in one step. Returns whether there
    /// was one.
    ///
    /// # Errors
    /// [`SqlError::SchemaNotEmpty`] without `cascade`; errors of the catalog's file.
    pub async fn drop_schema(
        self: &Arc<Self>,
        name: &str,
        cascade: bool,
    ) -> Result<bool, SqlError> {
        loop {
            let mut tables = if cascade { self.tables(name) } else { vec![] };
            // Whoever locks several writers does it in this order.
            tables.sort_by_key(|table| table.id());
            let mut writers = Vec::with_capacity(tables.len());
            for table in &tables {
                writers.push(table.lock_writer().await);
            }
            let changes = self.changes.clone().lock_owned().await;
            let ids = tables.iter().map(|table| table.id()).collect::<BTreeSet<_>>();
            if cascade && self.tables(name).iter().any(|table| !ids.contains(&table.id())) {
                // Another one was made while these were locked.
                continue;
            }
            let name = name.to_owned();
            let dropped = move |catalog: &Self| catalog.drop_schema_locked(name, cascade);
            return self.blocking((writers, changes), dropped).await;
        }
    }

    /// Drops a schema and what it holds, in one transaction.
    fn drop_schema_locked(&self, name: String, cascade: bool) -> Result<bool, SqlError> {
        if !self.has_schema(&name) {
            return Ok(false);
        }
        if !cascade && let Some(held) = self.first_of(&name) {
            return Err(SqlError::SchemaNotEmpty { name, held });
        }
        let (tables, views) = (self.tables(&name), self.views(&name));
        self.journal.settle(&[], |transaction| {
            tables.iter().try_for_each(|table| transaction.remove_table(table.id()))?;
            views.iter().try_for_each(|(view, _)| transaction.remove_view(&name, view))?;
            transaction.remove_schema(&name)
        })?;
        self.names_mut().schemas.remove_mut(&name);
        tables.iter().for_each(|table| table.retire());
        self.journal.store().trim();
        Ok(true)
    }

    /// Makes an empty table. `None` says that one was there and was kept.
    ///
    /// # Errors
    /// [`SqlError::Exists`], [`SqlError::MissingSchema`], [`SqlError::Segment`] for a column type
    /// that cannot be stored; errors of the catalog's file.
    pub async fn create_table(
        self: &Arc<Self>,
        definition: TableDefinition,
        if_exists: IfExists,
    ) -> Result<Option<Arc<Table>>, SqlError> {
        if self.is_kept(&definition, if_exists)? {
            return Ok(None);
        }
        let table = self.unpublished(definition)?;
        let changes = Changes::empty(table.schema());
        let published = self.publish(table.clone(), changes, if_exists, None).await?;
        Ok(published.then_some(table))
    }

    /// Makes a table of `rows`: it appears with all of them or not at all. Returns how many there
    /// are; `None` says that a table was there and was kept. `memory` accounts for the rows on
    /// their way.
    ///
    /// # Errors
    /// As [`Catalog::create_table`]; errors of the rows, the pool and the store.
    pub async fn create_table_as(
        self: &Arc<Self>,
        definition: TableDefinition,
        if_exists: IfExists,
        rows: SendableRecordBatchStream,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<Option<u64>, SqlError> {
        if self.is_kept(&definition, if_exists)? {
            return Ok(None);
        }
        let table = self.unpublished(definition)?;
        let changes = write::write_rows(&table, rows, memory).await?;
        let count = changes.rows();
        let published = self.publish(table, changes, if_exists, None).await?;
        Ok(published.then_some(count))
    }

    /// Makes a table of `rows` that takes the place of `replaced`, of the same name, in one step.
    /// Returns how many rows there are.
    ///
    /// # Errors
    /// As [`Catalog::create_table_as`].
    pub(crate) async fn replace_table(
        self: &Arc<Self>,
        definition: TableDefinition,
        replaced: LockedTable,
        rows: SendableRecordBatchStream,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<u64, SqlError> {
        let table = self.unpublished(definition)?;
        let changes = write::write_rows(&table, rows, memory).await?;
        let count = changes.rows();
        self.publish(table, changes, IfExists::Replace, Some(replaced)).await?;
        Ok(count)
    }

    /// Drops a table and gives its space back, now or with its last reader. Returns whether there
    /// was one.
    ///
    /// # Errors
    /// Errors of the catalog's file.
    pub async fn drop_table(self: &Arc<Self>, schema: &str, name: &str) -> Result<bool, SqlError> {
        let Some((table, writer, changes)) = self.lock_table(schema, name).await else {
            return Ok(false);
        };
        self.blocking((writer, changes), move |catalog| {
            catalog.journal.settle(&[], |transaction| transaction.remove_table(table.id()))?;
            if let Some(schema) = catalog.names_mut().schemas.get_mut(table.schema_name()) {
                schema.tables.remove_mut(table.name());
            }
            table.retire();
            catalog.journal.store().trim();
            Ok(true)
        })
        .await
    }

    /// Keeps the text of a view.
    ///
    /// # Errors
    /// [`SqlError::Exists`] when the name is taken by a table, or by a view that is not to be
    /// replaced; [`SqlError::MissingSchema`]; errors of the catalog's file.
    pub async fn put_view(
        self: &Arc<Self>,
        schema: &str,
        name: &str,
        sql: &str,
        replace: bool,
    ) -> Result<(), SqlError> {
        let (schema, name, sql) = (schema.to_owned(), name.to_owned(), sql.to_owned());
        self.change(move |catalog| {
            let taken = catalog.view(&schema, &name).is_some() && !replace;
            if taken || catalog.table(&schema, &name).is_some() {
                return Err(SqlError::Exists { name: format!("{schema}.{name}") });
            }
            catalog.require_schema(&schema)?;
            catalog.journal.settle(&[], |change| change.put_view(&schema, &name, &sql))?;
            if let Some(schema) = catalog.names_mut().schemas.get_mut(&schema) {
                schema.views.insert_mut(name, sql.into());
            }
            Ok(())
        })
        .await
    }

    /// Drops a view. Returns whether there was one.
    ///
    /// # Errors
    /// Errors of the catalog's file.
    pub async fn drop_view(self: &Arc<Self>, schema: &str, name: &str) -> Result<bool, SqlError> {
        let (schema, name) = (schema.to_owned(), name.to_owned());
        self.change(move |catalog| {
            if catalog.view(&schema, &name).is_none() {
                return Ok(false);
            }
            catalog.journal.settle(&[], |change| change.remove_view(&schema, &name))?;
            let mut names = catalog.names_mut();
            Ok(names.schemas.get_mut(&schema).is_some_and(|home| home.views.remove_mut(&name)))
        })
        .await
    }

    /// Whether the statement is done because something of this name exists and is kept.
    fn is_kept(&self, definition: &TableDefinition, if_exists: IfExists) -> Result<bool, SqlError> {
        let TableDefinition { schema_name, name, .. } = definition;
        let view = self.view(schema_name, name).is_some();
        if !view && self.table(schema_name, name).is_none() {
            return Ok(false);
        }
        match if_exists {
            IfExists::Keep => Ok(true),
            IfExists::Replace if !view => Ok(false),
            _ => Err(SqlError::Exists { name: format!("{schema_name}.{name}") }),
        }
    }

    /// A table that no one can find yet.
    fn unpublished(&self, definition: TableDefinition) -> Result<Arc<Table>, SqlError> {
        let TableDefinition { schema_name, name, columns, encoding } = definition;
        self.require_schema(&schema_name)?;
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
        let id = {
            let mut names = self.names_mut();
            names.next_table += 1;
            names.next_table - 1
        };
        let record = TableRecord { schema_name, name, encoding, columns };
        let space = table_space(&self.pool, &record)?;
        Ok(load::table(id, record, space, vec![], &self.journal))
    }

    /// Commits a new table with its rows and makes it known. Returns whether it took its name.
    async fn publish(
        self: &Arc<Self>,
        table: Arc<Table>,
        changes: Changes,
        if_exists: IfExists,
        held: Option<LockedTable>,
    ) -> Result<bool, SqlError> {
        if let Some((replaced, writer)) = held {
            let guards = (writer, self.changes.clone().lock_owned().await);
            return self
                .blocking(guards, move |catalog| {
                    // Without its writer's lock, which is held, nothing could replace or drop it.
                    replaced.refuse_if_dropped()?;
                    catalog.publish_locked(&table, changes, Some(&replaced), if_exists)
                })
                .await;
        }
        let (replaced, guards) = loop {
            let locked = self.lock_table(table.schema_name(), table.name()).await;
            if let Some((replaced, writer, changes)) = locked {
                break (Some(replaced), (Some(writer), changes));
            }
            let changes = self.changes.clone().lock_owned().await;
            if self.table(table.schema_name(), table.name()).is_none() {
                break (None, (None, changes));
            }
        };
        self.blocking(guards, move |catalog| {
            catalog.publish_locked(&table, changes, replaced.as_deref(), if_exists)
        })
        .await
    }

    fn publish_locked(
        &self,
        table: &Arc<Table>,
        changes: Changes,
        replaced: Option<&Table>,
        if_exists: IfExists,
    ) -> Result<bool, SqlError> {
        self.require_schema(table.schema_name())?;
        let view = self.view(table.schema_name(), table.name()).is_some();
        if view || (replaced.is_some() && if_exists != IfExists::Replace) {
            // Someone took the name while the rows were written.
            return match if_exists {
                IfExists::Keep => Ok(false),
                _ => Err(SqlError::Exists { name: table.full_name() }),
            };
        }
        let record = TableRecord {
            schema_name: table.schema_name().to_owned(),
            name: table.name().to_owned(),
            encoding: table.encoding(),
            columns: table.schema().clone(),
        };
        let next_table = self.names().next_table;
        table.settle(changes, |transaction| {
            if let Some(replaced) = replaced {
                transaction.remove_table(replaced.id())?;
            }
            transaction.put_next_table(next_table)?;
            transaction.put_table(table.id(), &record)
        })?;
        if let Some(schema) = self.names_mut().schemas.get_mut(table.schema_name()) {
            schema.tables.insert_mut(table.name().to_owned(), table.clone());
        }
        if let Some(replaced) = replaced {
            replaced.retire();
            self.journal.store().trim();
        }
        Ok(true)
    }

    /// A table, and the lock that keeps it from being changed, replaced or dropped by others.
    pub(crate) async fn lock_writer(&self, schema: &str, name: &str) -> Option<LockedTable> {
        loop {
            let table = self.table(schema, name)?;
            let writer = table.lock_writer().await;
            if !table.is_dropped() {
                return Some((table, writer));
            }
        }
    }

    /// A table with the locks that keep it from being changed, replaced or dropped by others.
    async fn lock_table(
        &self,
        schema: &str,
        name: &str,
    ) -> Option<(Arc<Table>, OwnedMutexGuard<()>, OwnedMutexGuard<()>)> {
        loop {
            let table = self.table(schema, name)?;
            let writer = table.lock_writer().await;
            let changes = self.changes.clone().lock_owned().await;
            if !table.is_dropped() {
                return Some((table, writer, changes));
            }
        }
    }

    /// Runs a change of names that takes no rows.
    async fn change<T: Send + 'static>(
        self: &Arc<Self>,
        change: impl FnOnce(&Self) -> Result<T, SqlError> + Send + 'static,
    ) -> Result<T, SqlError> {
        let guard = self.changes.clone().lock_owned().await;
        self.blocking(guard, change).await
    }

    /// Runs `change` to its end, whether or not the caller still waits for it, and then gives the
    /// guards back.
    async fn blocking<G: Send + 'static, T: Send + 'static>(
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

    /// What was begun and goes on when nobody waits for it.
    pub(crate) fn tasks(&self) -> &Tasks {
        &self.journal.tasks
    }

    /// The tables whose small chunks are to be merged.
    pub(crate) fn merges(&self) -> &MergeQueue {
        &self.journal.merges
    }

    /// Has tests stop at the points of every statement.
    #[cfg(test)]
    pub(crate) fn set_failpoint(&self, hook: Option<crate::failpoint::Hook>) {
        self.journal.failpoints.set(hook);
    }

    fn require_schema(&self, name: &str) -> Result<(), SqlError> {
        match self.has_schema(name) {
            true => Ok(()),
            false => Err(SqlError::MissingSchema { name: name.to_owned() }),
        }
    }

    /// Something that a schema holds.
    fn first_of(&self, schema: &str) -> Option<String> {
        let names = self.names();
        let schema = names.schemas.get(schema)?;
        let table = schema.tables.keys().next().map(|table| format!("table {table}"));
        table.or_else(|| schema.views.keys().next().map(|view| format!("view {view}")))
    }

    fn names(&self) -> RwLockReadGuard<'_, Names> {
        self.names.read().unwrap_or_else(PoisonError::into_inner)
    }

    fn names_mut(&self) -> RwLockWriteGuard<'_, Names> {
        let mut names = self.names.write().unwrap_or_else(PoisonError::into_inner);
        names.changes += 1;
        names
    }
}

impl Drop for Catalog {
    /// Versions read their tables' sketches from the journal, which has the versions.
    fn drop(&mut self) {
        self.journal.versions.clear();
    }
}

impl fmt::Debug for Catalog {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Catalog").field("schemas", &self.schemas()).finish_non_exhaustive()
    }
}

/// The space of the pool that a table's pages are in.
fn table_space(pool: &Pool, record: &TableRecord) -> Result<terrace_pool::Space, SqlError> {
    Ok(pool.create_space(format!("{}.{}", record.schema_name, record.name), None)?)
}
