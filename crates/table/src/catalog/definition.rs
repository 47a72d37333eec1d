//! Definitions of schemas, tables and views, as applied by a commit.

use std::sync::Arc;

use super::file::FileTransaction;
use super::names::{SchemaNames, Schemas};
use super::record::TableRecord;
use crate::access::Access;
use crate::error::SqlError;
use crate::table::Table;

/// A change of the names of a catalog.
#[derive(Clone)]
pub(super) enum Definition {
    CreateSchema {
        name: String,
    },
    /// The schema is empty when this is applied.
    DropSchema {
        name: String,
    },
    PutTable {
        table: Arc<Table>,
        replaced: Option<Replaced>,
    },
    DropTable {
        table: Arc<Table>,
    },
    /// Replaces a table by one with the same rows, possibly under another name in the schema.
    AlterTable {
        replaced: Replaced,
        table: Arc<Table>,
    },
    PutView {
        schema: String,
        name: String,
        sql: Arc<str>,
        replaced: Option<Arc<str>>,
    },
    DropView {
        schema: String,
        name: String,
        sql: Arc<str>,
    },
    /// Owner and grants of a table or view, or of the schema if `object` is `None`.
    PutAccess {
        schema: String,
        object: Option<String>,
        access: Arc<Access>,
        replaced: Option<Arc<Access>>,
    },
}

/// A table that is replaced by another.
#[derive(Clone)]
pub(super) struct Replaced {
    pub(super) table: Arc<Table>,
    /// Number of the version that the transaction has read: rows committed by another transaction
    /// since then would be lost with the table.
    pub(super) number: Option<u64>,
}

impl Definition {
    /// Applies the definition to the names of a catalog.
    ///
    /// # Errors
    /// [`SqlError::Conflict`] if the names are not those that the definition was made for.
    pub(super) fn apply(&self, schemas: &mut Schemas) -> Result<(), SqlError> {
        match self {
            Self::CreateSchema { name } => {
                if schemas.contains_key(name) {
                    return Err(conflict(format_args!("schema {name} was made")));
                }
                schemas.insert_mut(name.clone(), SchemaNames::default());
            }
            Self::DropSchema { name } => {
                let schema = schemas.get(name);
                if !schema.is_some_and(|s| s.tables.is_empty() && s.views.is_empty()) {
                    return Err(conflict(format_args!("schema {name} was changed")));
                }
                schemas.remove_mut(name);
            }
            Self::PutTable { table, replaced } => {
                let names = names_of(schemas, table.schema_name())?;
                let there = names.tables.get(table.name());
                let is_same = match (there, replaced) {
                    (Some(there), Some(replaced)) => Arc::ptr_eq(there, &replaced.table),
                    (there, replaced) => there.is_none() && replaced.is_none(),
                };
                if !is_same || names.views.contains_key(table.name()) {
                    return Err(changed(&table.full_name()));
                }
                names.tables.insert_mut(table.name().to_owned(), Arc::clone(table));
            }
            Self::DropTable { table } => {
                let names = names_of(schemas, table.schema_name())?;
                let there = names.tables.get(table.name());
                if !there.is_some_and(|there| Arc::ptr_eq(there, table)) {
                    return Err(changed(&table.full_name()));
                }
                names.tables.remove_mut(table.name());
                names.access.remove_mut(table.name());
            }
            Self::AlterTable { replaced, table } => alter(schemas, &replaced.table, table)?,
            Self::PutView { schema, name, sql, replaced } => {
                let names = names_of(schemas, schema)?;
                if names.views.get(name) != replaced.as_ref() || names.tables.contains_key(name) {
                    return Err(changed(&format!("{schema}.{name}")));
                }
                names.views.insert_mut(name.clone(), Arc::clone(sql));
            }
            Self::DropView { schema, name, sql } => {
                let names = names_of(schemas, schema)?;
                if names.views.get(name) != Some(sql) {
                    return Err(changed(&format!("{schema}.{name}")));
                }
                names.views.remove_mut(name);
                names.access.remove_mut(name);
            }
            Self::PutAccess { schema, object, access, replaced } => {
                let names = names_of(schemas, schema)?;
                let there = match object {
                    Some(object) => names.access.get(object),
                    None => names.own.as_ref(),
                };
                if there != replaced.as_ref() || !names.has(object.as_deref()) {
                    return Err(changed(object.as_deref().unwrap_or(schema)));
                }
                match object {
                    Some(object) => names.access.insert_mut(object.clone(), Arc::clone(access)),
                    None => names.own = Some(Arc::clone(access)),
                }
            }
        }
        Ok(())
    }

    /// Writes the definition to the catalog's file.
    ///
    /// # Errors
    /// Errors of the file.
    pub(super) fn write(&self, transaction: &FileTransaction<'_>) -> Result<(), SqlError> {
        match self {
            Self::CreateSchema { name } => transaction.put_schema(name),
            Self::DropSchema { name } => {
                transaction.put_access(name, None, None)?;
                transaction.remove_schema(name)
            }
            Self::PutTable { table, replaced } => {
                if let Some(replaced) = replaced {
                    transaction.remove_table(replaced.table.id())?;
                }
                transaction.put_table(table.id(), &record_of(table))
            }
            Self::DropTable { table } => {
                transaction.put_access(table.schema_name(), Some(table.name()), None)?;
                transaction.remove_table(table.id())
            }
            Self::AlterTable { replaced: Replaced { table: before, .. }, table } => {
                transaction.remove_table(before.id())?;
                let (schema, name) = (before.schema_name(), before.name());
                transaction.rename_access(schema, name, table.name())?;
                transaction.put_table(table.id(), &record_of(table))
            }
            Self::PutView { schema, name, sql, .. } => transaction.put_view(schema, name, sql),
            Self::DropView { schema, name, .. } => {
                transaction.put_access(schema, Some(name), None)?;
                transaction.remove_view(schema, name)
            }
            Self::PutAccess { schema, object, access, .. } => {
                transaction.put_access(schema, object.as_deref(), Some(access))
            }
        }
    }

    /// Refuses to replace a table whose rows have changed since the transaction read it. The caller
    /// holds the lock of its writer.
    ///
    /// # Errors
    /// [`SqlError::Conflict`].
    pub(super) fn refuse_unseen_rows(&self) -> Result<(), SqlError> {
        let (Self::PutTable { replaced: Some(replaced), .. } | Self::AlterTable { replaced, .. }) =
            self
        else {
            return Ok(());
        };
        let Replaced { table, number: Some(number) } = replaced else { return Ok(()) };
        match table.snapshot().number == *number {
            true => Ok(()),
            false => Err(conflict(format_args!("{} was changed", table.full_name()))),
        }
    }

    /// Returns the table that the definition makes.
    pub(super) fn made(&self) -> Option<&Arc<Table>> {
        match self {
            Self::PutTable { table, .. } | Self::AlterTable { table, .. } => Some(table),
            _ => None,
        }
    }

    /// Returns the table that the definition removes.
    pub(super) fn dropped(&self) -> Option<&Arc<Table>> {
        match self {
            Self::PutTable { replaced, .. } => replaced.as_ref().map(|replaced| &replaced.table),
            Self::AlterTable { replaced, .. } => Some(&replaced.table),
            Self::DropTable { table } => Some(table),
            _ => None,
        }
    }
}

impl SchemaNames {
    /// Returns true if there is the table or view; always true for the schema itself (`None`).
    fn has(&self, object: Option<&str>) -> bool {
        object.is_none_or(|it| self.tables.contains_key(it) || self.views.contains_key(it))
    }
}

/// Replaces a table by `table`, which may have another name in the schema.
///
/// # Errors
/// As [`Definition::apply`].
fn alter(schemas: &mut Schemas, before: &Arc<Table>, table: &Arc<Table>) -> Result<(), SqlError> {
    let names = names_of(schemas, before.schema_name())?;
    let there = names.tables.get(before.name());
    let is_there = there.is_some_and(|there| Arc::ptr_eq(there, before));
    let is_renamed = table.name() != before.name();
    if !is_there || (is_renamed && names.has(Some(table.name()))) {
        return Err(changed(&before.full_name()));
    }
    names.tables.remove_mut(before.name());
    names.tables.insert_mut(table.name().to_owned(), Arc::clone(table));
    if let (true, Some(access)) = (is_renamed, names.access.get(before.name())) {
        let access = Arc::clone(access);
        names.access.remove_mut(before.name());
        names.access.insert_mut(table.name().to_owned(), access);
    }
    Ok(())
}

fn record_of(table: &Table) -> TableRecord {
    TableRecord {
        schema_name: table.schema_name().to_owned(),
        name: table.name().to_owned(),
        encoding: table.encoding(),
        columns: Arc::clone(table.schema()),
        properties: table.properties().clone(),
    }
}

fn names_of<'a>(schemas: &'a mut Schemas, name: &str) -> Result<&'a mut SchemaNames, SqlError> {
    let missing = || conflict(format_args!("schema {name} was dropped"));
    schemas.get_mut(name).ok_or_else(missing)
}

fn changed(name: &str) -> SqlError {
    conflict(format_args!("{name} was made, replaced or dropped"))
}

fn conflict(what: std::fmt::Arguments<'_>) -> SqlError {
    SqlError::Conflict { what: what.to_string() }
}
