//! Draft: the catalog with uncommitted changes.
//!
//! A draft begins as a snapshot. Definitions and row changes go into its maps, which share all
//! unchanged parts with the snapshot's, and into lists that a commit applies to the catalog as it
//! is then. So the statements of a transaction read their own changes, a savepoint is a clone, and
//! a rollback drops the draft: chunks that no commit names free their space. The lists are
//! persistent: a clone takes the same time after any number of statements.

use std::collections::BTreeMap;
use std::sync::Arc;

use rpds::VectorSync;

use super::definition::{Definition, Replaced};
use super::dependency::{Dependency, KnownViews};
use super::snapshot::Snapshot;
use super::table_definition::IfExists;
use crate::access::Access;
use crate::error::SqlError;
use crate::sketch::Sketch;
use crate::table::{Table, TableVersion};
use crate::write::Changes;

/// A snapshot of the catalog and the changes made to it since.
#[derive(Clone)]
pub struct Draft {
    pub(super) snapshot: Snapshot,
    pub(super) definitions: VectorSync<Definition>,
    /// By table id.
    pub(super) tables: BTreeMap<u64, ChangedTable>,
    /// True if the draft belongs to a transaction of several statements, and is committed later
    /// than it is made.
    is_of_transaction: bool,
}

/// A table whose rows a draft changes, and the changes.
#[derive(Clone)]
pub(super) struct ChangedTable {
    pub(super) table: Arc<Table>,
    /// True if the draft itself created the table.
    pub(super) is_new: bool,
    /// Version that the changes apply to.
    base: Arc<TableVersion>,
    pub(super) changes: Changes,
}

impl Draft {
    /// Returns a draft without changes, for an autocommit statement.
    pub fn new(snapshot: Snapshot) -> Self {
        let is_of_transaction = false;
        let (definitions, tables) = (VectorSync::new_sync(), BTreeMap::new());
        Self { snapshot, definitions, tables, is_of_transaction }
    }

    /// Returns a draft without changes, for a transaction of several statements.
    pub(crate) fn of_transaction(snapshot: Snapshot) -> Self {
        Self { is_of_transaction: true, ..Self::new(snapshot) }
    }

    /// Returns the catalog as a statement sees it.
    pub fn snapshot(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Returns true if the draft has no changes.
    pub fn is_empty(&self) -> bool {
        self.definitions.is_empty() && self.tables.is_empty()
    }

    /// Returns the tables that the commit removes and that existed before the draft.
    pub fn dropped(&self) -> impl Iterator<Item = &Arc<Table>> {
        self.definitions.iter().filter_map(Definition::dropped).filter(|table| !self.made(table))
    }

    /// Returns true if the draft created the table.
    pub fn made(&self, table: &Table) -> bool {
        let mut made = self.definitions.iter().filter_map(Definition::made);
        made.any(|made| made.id() == table.id())
    }

    /// Creates a schema. Returns true if it is new.
    ///
    /// # Errors
    /// [`SqlError::SchemaExists`] unless `keep` is set.
    pub fn create_schema(&mut self, name: &str, keep: bool) -> Result<bool, SqlError> {
        if self.snapshot.has_schema(name) {
            let exists = || SqlError::SchemaExists { name: name.to_owned() };
            return if keep { Ok(false) } else { Err(exists()) };
        }
        self.define(Definition::CreateSchema { name: name.to_owned() })?;
        Ok(true)
    }

    /// Drops a schema, with `cascade` all of its objects too. Returns true if it existed.
    ///
    /// # Errors
    /// [`SqlError::SchemaNotEmpty`] without `cascade`.
    pub fn drop_schema(&mut self, name: &str, cascade: bool) -> Result<bool, SqlError> {
        if !self.snapshot.has_schema(name) {
            return Ok(false);
        }
        let (tables, views) = (self.snapshot.table_names(name), self.snapshot.view_names(name));
        let held = tables.first().map(|table| format!("table {table}"));
        let held = held.or_else(|| views.first().map(|view| format!("view {view}")));
        let texts = self.texts_of(name);
        let held =
            held.or_else(|| texts.first().map(|(kind, text)| format!("{} {text}", kind.noun())));
        let sequences = self.snapshot.sequences(name);
        let held = held.or_else(|| sequences.first().map(|it| format!("sequence {}", it.name())));
        if let Some(held) = held.filter(|_| !cascade) {
            return Err(SqlError::SchemaNotEmpty { name: name.to_owned(), held });
        }
        for table in tables {
            self.drop_table(name, &table)?;
        }
        for view in views {
            self.drop_view(name, &view)?;
        }
        for sequence in self.snapshot.sequences(name) {
            self.drop_sequence(name, sequence.name())?;
        }
        for (kind, text) in texts {
            self.drop_text(kind, (name, &text))?;
        }
        self.define(Definition::DropSchema { name: name.to_owned() })?;
        Ok(true)
    }

    /// Adds a new table with its rows. Returns true if it took its name, false if an existing table
    /// was kept.
    ///
    /// # Errors
    /// [`SqlError::Exists`], [`SqlError::MissingSchema`].
    pub(crate) fn put_table(
        &mut self,
        table: &Arc<Table>,
        changes: Changes,
        if_exists: IfExists,
    ) -> Result<bool, SqlError> {
        let (schema, name) = (table.schema_name(), table.name());
        self.require_schema(schema)?;
        let replaced = self.snapshot.table(schema, name).map(|(table, version)| Replaced {
            number: (self.is_of_transaction && !self.made(&table)).then_some(version.number),
            table,
        });
        let is_other = replaced.is_none() && self.snapshot.has_object(schema, name);
        if is_other || (replaced.is_some() && if_exists != IfExists::Replace) {
            return match if_exists {
                IfExists::Keep => Ok(false),
                _ => Err(SqlError::Exists { name: table.full_name() }),
            };
        }
        if let Some(replaced) = &replaced {
            self.forget(&replaced.table);
            self.drop_owned_sequences(&replaced.table, Some(table))?;
        }
        self.define(Definition::PutTable { table: Arc::clone(table), replaced })?;
        self.put_rows(table, changes);
        Ok(true)
    }

    /// Adds a table as [`Draft::put_table`] does, and makes a role its owner unless it replaces a
    /// table that has an owner.
    ///
    /// # Errors
    /// As [`Draft::put_table`].
    pub(crate) fn put_owned_table(
        &mut self,
        table: &Arc<Table>,
        changes: Changes,
        if_exists: IfExists,
        owner: Option<&str>,
    ) -> Result<bool, SqlError> {
        let is_made = self.put_table(table, changes, if_exists)?;
        if is_made {
            self.own(table.schema_name(), Some(table.name()), owner)?;
        }
        Ok(is_made)
    }

    /// Replaces a table by one with the same rows, which `changes` adds. The new table may have
    /// another name, and be in another schema.
    ///
    /// # Errors
    /// [`SqlError::Dropped`]; [`SqlError::Exists`] if the new name is taken.
    pub(crate) fn alter_table(
        &mut self,
        before: &Arc<Table>,
        table: &Arc<Table>,
        changes: Changes,
    ) -> Result<(), SqlError> {
        self.replace_table(before, table, changes)?;
        self.drop_owned_sequences(before, Some(table))
    }

    /// Replaces a table as [`Draft::alter_table`] does, but keeps the sequences that belong to no
    /// column any more.
    ///
    /// # Errors
    /// As [`Draft::alter_table`].
    pub(crate) fn replace_table(
        &mut self,
        before: &Arc<Table>,
        table: &Arc<Table>,
        changes: Changes,
    ) -> Result<(), SqlError> {
        let (schema, name) = (before.schema_name(), before.name());
        let now = self.snapshot.table(schema, name).filter(|(now, _)| Arc::ptr_eq(now, before));
        let (_, version) = now.ok_or_else(|| SqlError::Dropped { name: before.full_name() })?;
        let to = (table.schema_name(), table.name());
        if (schema, name) != to && self.snapshot.has_object(to.0, to.1) {
            return Err(SqlError::Exists { name: table.full_name() });
        }
        let number = (self.is_of_transaction && !self.made(before)).then_some(version.number);
        let replaced = Replaced { table: Arc::clone(before), number };
        self.forget(before);
        self.define(Definition::AlterTable { replaced, table: Arc::clone(table) })?;
        self.put_rows(table, changes);
        Ok(())
    }

    /// Returns the sketches of the rows that the draft adds to a table.
    pub(crate) fn sketches(&self, table: &Table) -> Option<&[Sketch]> {
        self.tables.get(&table.id()).map(|changed| changed.changes.sketches())
    }

    /// Adds a new table to the tables with row changes, with `changes` that add its rows.
    fn put_rows(&mut self, table: &Arc<Table>, changes: Changes) {
        let (base, is_new) = (table.snapshot(), true);
        let changed = ChangedTable { table: Arc::clone(table), is_new, base, changes };
        self.tables.insert(table.id(), changed);
        self.show(table);
    }

    /// Drops a table. Returns true if it existed.
    ///
    /// # Errors
    /// None, except for a draft that contradicts itself.
    pub fn drop_table(&mut self, schema: &str, name: &str) -> Result<bool, SqlError> {
        let Some((table, _)) = self.snapshot.table(schema, name) else { return Ok(false) };
        self.forget(&table);
        self.drop_owned_sequences(&table, None)?;
        self.define(Definition::DropTable { table })?;
        Ok(true)
    }

    /// Stores the text of a view.
    ///
    /// # Errors
    /// [`SqlError::Exists`] if the name is taken by a table, or by a view that is not to be
    /// replaced; [`SqlError::MissingSchema`].
    pub fn put_view(
        &mut self,
        schema: &str,
        name: &str,
        sql: &str,
        replace: bool,
    ) -> Result<(), SqlError> {
        let replaced = self.snapshot.view(schema, name);
        let is_other = replaced.is_none() && self.snapshot.has_object(schema, name);
        if is_other || (replaced.is_some() && !replace) {
            return Err(SqlError::Exists { name: format!("{schema}.{name}") });
        }
        self.require_schema(schema)?;
        let (schema, name, sql) = (schema.to_owned(), name.to_owned(), sql.into());
        self.define(Definition::PutView { schema, name, sql, replaced })
    }

    /// Makes the definitions of the draft depend on a table, which must not change before they are
    /// committed.
    ///
    /// # Errors
    /// [`SqlError::Conflict`] if it has changed already.
    pub fn depend_on_table(&mut self, table: &Arc<Table>) -> Result<(), SqlError> {
        self.define(Definition::Depend(Dependency::Table(Arc::clone(table))))
    }

    /// Makes the definitions of the draft conflict with the creation of any view that is not among
    /// `views`.
    ///
    /// # Errors
    /// [`SqlError::Conflict`] if there are others already.
    pub fn depend_on_views(&mut self, views: &Arc<KnownViews>) -> Result<(), SqlError> {
        self.define(Definition::Depend(Dependency::Views(Arc::clone(views))))
    }

    /// Makes the definitions of the draft conflict with the creation of any view that is not in
    /// `snapshot`.
    ///
    /// # Errors
    /// As [`Draft::depend_on_views`].
    pub fn depend_on_views_of(&mut self, snapshot: &Snapshot) -> Result<(), SqlError> {
        self.depend_on_views(&Arc::new(KnownViews::of(snapshot)))
    }

    /// Drops a view. Returns true if it existed.
    ///
    /// # Errors
    /// None, except for a draft that contradicts itself.
    pub fn drop_view(&mut self, schema: &str, name: &str) -> Result<bool, SqlError> {
        let Some(sql) = self.snapshot.view(schema, name) else { return Ok(false) };
        let (schema, name) = (schema.to_owned(), name.to_owned());
        self.define(Definition::DropView { schema, name, sql })?;
        Ok(true)
    }

    /// Changes rows of a table. `read` is the version that a statement which rewrites rows has
    /// read.
    ///
    /// # Errors
    /// [`SqlError::Dropped`], and [`SqlError::Refused`] if another statement of the same
    /// transaction has changed the table since `read`.
    pub(crate) fn change_rows(
        &mut self,
        table: &Arc<Table>,
        read: Option<&Arc<TableVersion>>,
        changes: Changes,
    ) -> Result<(), SqlError> {
        let now = self.snapshot.table(table.schema_name(), table.name());
        let now = now.filter(|(now, _)| Arc::ptr_eq(now, table)).map(|(_, version)| version);
        let now = now.ok_or_else(|| SqlError::Dropped { name: table.full_name() })?;
        if read.is_some_and(|read| !Arc::ptr_eq(&now, read)) {
            return Err(SqlError::Refused {
                what: format!("changing rows of {} in two statements at once", table.full_name()),
                instead: "read one statement of a transaction to its end, then run the next"
                    .to_owned(),
            });
        }
        match self.tables.get_mut(&table.id()) {
            Some(changed) => changed.changes.then(changes, &now),
            None => {
                let mut all = Changes::empty(table.schema());
                all.then(changes, &now);
                let (table, is_new) = (Arc::clone(table), false);
                let changed = ChangedTable { table, is_new, base: now, changes: all };
                self.tables.insert(changed.table.id(), changed);
            }
        }
        self.show(table);
        Ok(())
    }

    /// Returns the version that changes of a table apply to; `None` for a table that is not in the
    /// draft.
    pub fn base(&self, table: &Table) -> Option<Arc<TableVersion>> {
        match self.tables.get(&table.id()) {
            Some(changed) => Some(Arc::clone(&changed.base)),
            None => self.snapshot.version(table),
        }
    }

    /// Moves the changes of a table to `base`, which has the same rows as the previous base in
    /// other chunks.
    pub(crate) fn rebase(&mut self, table: &Arc<Table>, base: Arc<TableVersion>) {
        match self.tables.get_mut(&table.id()) {
            Some(changed) => changed.base = base,
            None => self.snapshot.put_version(table.id(), base),
        }
        self.show(table);
    }

    /// Makes a role the owner of an object that has neither owner nor grants; without `owner`, or
    /// for any other object, changes nothing.
    ///
    /// # Errors
    /// None, except for a draft that contradicts itself.
    pub fn own(
        &mut self,
        schema: &str,
        object: Option<&str>,
        owner: Option<&str>,
    ) -> Result<(), SqlError> {
        let Some(owner) = owner else { return Ok(()) };
        let is_new = self.snapshot.shared_access(schema, object).is_none();
        let access = Access { owner: Some(owner.to_owned()), ..Access::default() };
        if is_new { self.put_access(schema, object, access) } else { Ok(()) }
    }

    /// Sets the owner and grants of a table, view or sequence, or of the schema if `object` is
    /// `None`.
    ///
    /// # Errors
    /// [`SqlError::Missing`], [`SqlError::MissingSchema`].
    pub fn put_access(
        &mut self,
        schema: &str,
        object: Option<&str>,
        access: Access,
    ) -> Result<(), SqlError> {
        self.require_schema(schema)?;
        if let Some(name) = object.filter(|name| !self.snapshot.has_object(schema, name)) {
            return Err(SqlError::Missing { name: format!("{schema}.{name}") });
        }
        let replaced = self.snapshot.shared_access(schema, object).map(Arc::clone);
        let (schema, object) = (schema.to_owned(), object.map(str::to_owned));
        self.define(Definition::PutAccess { schema, object, access: Arc::new(access), replaced })
    }

    pub(super) fn define(&mut self, definition: Definition) -> Result<(), SqlError> {
        self.snapshot.change_names(|schemas| definition.apply(schemas))?;
        self.definitions.push_back_mut(definition);
        Ok(())
    }

    /// Updates the version of a table in the snapshot to include its changes.
    fn show(&mut self, table: &Arc<Table>) {
        if let Some(ChangedTable { base, changes, .. }) = self.tables.get(&table.id()) {
            let version = table.version(base.number, base.rewrites, changes.kept_later(base));
            self.snapshot.put_version(table.id(), Arc::new(version));
        }
    }

    /// Discards the row changes of a table that is dropped or replaced.
    fn forget(&mut self, table: &Table) {
        self.tables.remove(&table.id());
    }

    pub(super) fn require_schema(&self, name: &str) -> Result<(), SqlError> {
        match self.snapshot.has_schema(name) {
            true => Ok(()),
            false => Err(SqlError::MissingSchema { name: name.to_owned() }),
        }
    }
}
