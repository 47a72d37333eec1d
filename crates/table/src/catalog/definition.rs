//! Definitions of schemas, tables and views, as applied by a commit.

use std::sync::Arc;

use super::comment_records::Comments;
use super::dependency::Dependency;
use super::file::FileTransaction;
use super::name_changes::{changed, conflict, move_notes, names_of};
use super::named_type::{missing_type, user_of};
use super::names::{SchemaNames, Schemas};
use super::record::TableRecord;
use super::schema_text::{SchemaText, TextKind};
use super::sequence::Sequence;
use crate::access::Access;
use crate::error::SqlError;
use crate::table::Table;

/// One change of the names of a catalog. It has the objects that it replaces: if these are not the
/// current ones when it is applied, another commit has changed them.
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
    /// Replaces a table by one with the same rows, possibly under another name or in another
    /// schema.
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
    /// An object that is stored as text; `None` drops it.
    PutText {
        kind: TextKind,
        schema: String,
        name: String,
        object: Option<Arc<SchemaText>>,
        replaced: Option<Arc<SchemaText>>,
    },
    PutSequence {
        sequence: Arc<Sequence>,
    },
    DropSequence {
        sequence: Arc<Sequence>,
    },
    /// Replaces a sequence, possibly by one with another name or in another schema.
    AlterSequence {
        before: Arc<Sequence>,
        after: Arc<Sequence>,
    },
    /// Comments on a view or sequence, or on the schema if `object` is `None`.
    PutComments {
        schema: String,
        object: Option<String>,
        comments: Arc<Comments>,
        replaced: Option<Arc<Comments>>,
    },
    /// Changes nothing, and conflicts with a change of what it depends on.
    Depend(Dependency),
    /// Owner and grants of a table, view or sequence, or of the schema if `object` is `None`.
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
        if let Some(missing) = self.made().and_then(|table| missing_type(schemas, table)) {
            return Err(conflict(format_args!("type {missing} was dropped")));
        }
        match self {
            Self::CreateSchema { name } => {
                if schemas.contains_key(name) {
                    return Err(conflict(format_args!("schema {name} was made")));
                }
                schemas.insert_mut(name.clone(), SchemaNames::default());
            }
            Self::DropSchema { name } => {
                let schema = schemas.get(name);
                if !schema.is_some_and(SchemaNames::is_empty) {
                    return Err(conflict(format_args!("schema {name} was changed")));
                }
                schemas.remove_mut(name);
            }
            Self::PutTable { table, replaced } => {
                let replaced = replaced.as_ref().map(|replaced| &replaced.table);
                names_of(schemas, table.schema_name())?.put_table(table, replaced)?;
            }
            Self::DropTable { table } => {
                names_of(schemas, table.schema_name())?.remove_table(table)?;
            }
            Self::AlterTable { replaced, table } => alter(schemas, &replaced.table, table)?,
            Self::Depend(dependency) => dependency.check(schemas)?,
            Self::PutView { schema, name, sql, replaced } => {
                if !names_of(schemas, schema)?.put_view(name, sql, replaced.as_ref()) {
                    return Err(changed(&format!("{schema}.{name}")));
                }
            }
            Self::DropView { schema, name, sql } => {
                if !names_of(schemas, schema)?.remove_view(name, sql) {
                    return Err(changed(&format!("{schema}.{name}")));
                }
            }
            Self::PutText { kind, schema, name, object, replaced } => {
                put_text(schemas, (*kind, schema, name), object.as_ref(), replaced.as_ref())?;
            }
            Self::PutSequence { sequence } => {
                names_of(schemas, sequence.schema_name())?.add_sequence(sequence)?;
            }
            Self::DropSequence { sequence } => {
                let names = names_of(schemas, sequence.schema_name())?;
                names.remove_sequence(sequence)?;
                names.access.remove_mut(sequence.name());
                names.comments.remove_mut(sequence.name());
            }
            Self::AlterSequence { before, after } => {
                names_of(schemas, before.schema_name())?.remove_sequence(before)?;
                names_of(schemas, after.schema_name())?.add_sequence(after)?;
                let from = (before.schema_name(), before.name());
                move_notes(schemas, from, (after.schema_name(), after.name()))?;
            }
            Self::PutComments { schema, object, comments, replaced } => {
                let (names, object) = (names_of(schemas, schema)?, object.as_deref());
                if !names.replace_comments(object, comments, replaced.as_ref()) {
                    return Err(changed(object.unwrap_or(schema)));
                }
            }
            Self::PutAccess { schema, object, access, replaced } => {
                let (names, object) = (names_of(schemas, schema)?, object.as_deref());
                if !names.replace_access(object, access, replaced.as_ref()) {
                    return Err(changed(object.unwrap_or(schema)));
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
                transaction.put_comments(name, None, &Comments::default())?;
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
                let from = (before.schema_name(), before.name());
                transaction.rename_access(from, (table.schema_name(), table.name()))?;
                transaction.put_table(table.id(), &record_of(table))
            }
            Self::Depend(_) => Ok(()),
            Self::PutView { schema, name, sql, .. } => transaction.put_view(schema, name, sql),
            Self::DropView { schema, name, .. } => {
                transaction.put_access(schema, Some(name), None)?;
                transaction.put_comments(schema, Some(name), &Comments::default())?;
                transaction.remove_view(schema, name)
            }
            Self::PutSequence { sequence } => sequence.write(transaction),
            Self::DropSequence { sequence } => {
                let (schema, name) = (sequence.schema_name(), Some(sequence.name()));
                transaction.put_access(schema, name, None)?;
                transaction.put_comments(schema, name, &Comments::default())?;
                transaction.remove_sequence(sequence.id())
            }
            Self::AlterSequence { before, after } => {
                let from = (before.schema_name(), before.name());
                let to = (after.schema_name(), after.name());
                transaction.rename_access(from, to)?;
                transaction.rename_comments(from, to)?;
                if before.id() == after.id() {
                    return after.write_definition(transaction);
                }
                transaction.remove_sequence(before.id())?;
                after.write(transaction)
            }
            Self::PutComments { schema, object, comments, .. } => {
                transaction.put_comments(schema, object.as_deref(), comments)
            }
            Self::PutText { kind, schema, name, object, .. } => {
                transaction.put_text(*kind, schema, name, object.as_deref())
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

    /// Returns the table that the definition adds to the catalog, if it adds one.
    pub(super) fn made(&self) -> Option<&Arc<Table>> {
        match self {
            Self::PutTable { table, .. } | Self::AlterTable { table, .. } => Some(table),
            _ => None,
        }
    }

    /// Returns the table that the definition removes from the catalog, if it removes one.
    pub(super) fn dropped(&self) -> Option<&Arc<Table>> {
        match self {
            Self::PutTable { replaced, .. } => replaced.as_ref().map(|replaced| &replaced.table),
            Self::AlterTable { replaced, .. } => Some(&replaced.table),
            Self::DropTable { table } => Some(table),
            _ => None,
        }
    }
}

/// Replaces a table by `table`, which may have another name or be in another schema.
///
/// # Errors
/// As [`Definition::apply`].
fn alter(schemas: &mut Schemas, before: &Arc<Table>, table: &Arc<Table>) -> Result<(), SqlError> {
    let from = (before.schema_name(), before.name());
    let to = (table.schema_name(), table.name());
    let names = names_of(schemas, from.0)?;
    let there = names.tables.get(from.1);
    if !there.is_some_and(|there| Arc::ptr_eq(there, before)) {
        return Err(changed(&before.full_name()));
    }
    names.tables.remove_mut(from.1);
    let names = names_of(schemas, to.0)?;
    if names.has(Some(to.1)) {
        return Err(changed(&table.full_name()));
    }
    names.tables.insert_mut(to.1.to_owned(), Arc::clone(table));
    move_notes(schemas, from, to)
}

/// Replaces an object that is stored as text by `object`; `None` drops it.
///
/// # Errors
/// As [`Definition::apply`]; [`SqlError::TypeInUse`] for a type that a column is of.
fn put_text(
    schemas: &mut Schemas,
    (kind, schema, name): (TextKind, &str, &str),
    object: Option<&Arc<SchemaText>>,
    replaced: Option<&Arc<SchemaText>>,
) -> Result<(), SqlError> {
    if let (TextKind::Type, None) = (kind, object)
        && let Some(column) = user_of(schemas, (schema, name))
    {
        return Err(SqlError::TypeInUse { what: format!("drop type {name}"), column });
    }
    let names = names_of(schemas, schema)?;
    match names.replace_text((kind, name.to_owned()), object, replaced) {
        true => Ok(()),
        false => Err(changed(&format!("{} {schema}.{name}", kind.noun()))),
    }
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
