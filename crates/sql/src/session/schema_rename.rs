//! ALTER SCHEMA RENAME: replaces the name of a schema in all definitions.
//!
//! ```text
//! ALTER SCHEMA sales RENAME TO orders
//! ```
//!
//! The tables are replaced by new ones with the same rows, sequences keep their current values, and
//! the definitions that name the schema get the new name, all in one commit of the catalog.

mod names;

use std::sync::Arc;

use datafusion::arrow::datatypes::{Field, FieldRef, Fields, Schema};
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{
    AlterSchema, AlterSchemaOperation, ObjectName, Statement as SqlStatement,
};
use terrace_table::catalog::{
    Draft, SchemaText, Snapshot, TableDefinition, TextKind, named_type, with_named_type,
};
use terrace_table::error::SqlError;
use terrace_table::table::Table;

use super::dependencies::{Kind, Object, refuse_users};
use super::enums::enum_type::EnumType;
use super::enums::names::find;
use super::object_name::other_catalog;
use super::refusal::refused;
use super::routines::syntax::parts;
use crate::names::{CATALOG, SearchPath};
use names::SchemaNames;

/// An ALTER SCHEMA RENAME.
pub(super) struct SchemaRename {
    pub(super) from: String,
    pub(super) to: String,
    /// True for IF EXISTS.
    pub(super) if_exists: bool,
}

/// Returns the ALTER SCHEMA RENAME of a statement; `None` for any other.
///
/// # Errors
/// [`SqlError::Refused`] for a schema of another catalog.
pub(super) fn of(statement: &Statement) -> Result<Option<SchemaRename>, SqlError> {
    let Statement::Statement(statement) = statement else { return Ok(None) };
    let SqlStatement::AlterSchema(AlterSchema { name, if_exists, operations }) = statement.as_ref()
    else {
        return Ok(None);
    };
    let [AlterSchemaOperation::Rename { name: to }] = operations.as_slice() else {
        return Ok(None);
    };
    let (from, to, if_exists) = (schema_of(name)?, schema_of(to)?, *if_exists);
    Ok(Some(SchemaRename { from, to, if_exists }))
}

fn schema_of(name: &ObjectName) -> Result<String, SqlError> {
    match parts(name) {
        Some((None, name)) => Ok(name),
        Some((Some(catalog), name)) if catalog == CATALOG => Ok(name),
        Some((Some(catalog), _)) => Err(other_catalog(&catalog)),
        None => Err(refused(&format!("a schema {name}"), "a schema has a name of one part")),
    }
}

impl SchemaRename {
    fn names(&self) -> SchemaNames<'_> {
        SchemaNames::new(&self.from, &self.to)
    }

    /// Refuses the change if the name cannot be replaced in all definitions.
    ///
    /// # Errors
    /// [`SqlError::InUse`]; if a stored text is damaged.
    pub(super) fn check(&self, snapshot: &Snapshot) -> Result<(), SqlError> {
        let (names, mut unclear) = (self.names(), Vec::new());
        for schema in snapshot.schemas() {
            for name in snapshot.table_names(&schema) {
                let Some((table, _)) = snapshot.table(&schema, &name) else { continue };
                self.definition(&names, &table)?;
                if names.take_unclear() {
                    unclear.push(Object::new(Kind::Table, &schema, &name));
                }
            }
            for (key, object) in snapshot.texts(TextKind::Function, &schema) {
                names.routine(&object.text)?;
                if names.take_unclear() {
                    unclear.push(Object::new(Kind::Routine, &schema, &key));
                }
            }
            for name in snapshot.view_names(&schema) {
                let Some(text) = snapshot.view(&schema, &name) else { continue };
                names.view(&text)?;
                if names.take_unclear() {
                    unclear.push(Object::new(Kind::View, &schema, &name));
                }
            }
        }
        let what = format!("rename schema {}", self.from);
        refuse_users(&what, &SearchPath::default(), snapshot, unclear)
    }

    /// The tables that get another definition: those of the schema, and others that name it.
    ///
    /// # Errors
    /// If a stored text is damaged.
    pub(super) fn tables(&self, snapshot: &Snapshot) -> Result<Vec<Arc<Table>>, SqlError> {
        let (names, mut found) = (self.names(), Vec::new());
        for schema in snapshot.schemas() {
            for name in snapshot.table_names(&schema) {
                let Some((table, _)) = snapshot.table(&schema, &name) else { continue };
                let after = self.definition(&names, &table)?;
                let is_same = schema != self.from
                    && after.columns == *table.schema()
                    && after.properties == *table.properties();
                if !is_same {
                    found.push(table);
                }
            }
        }
        Ok(found)
    }

    /// The definition of a table after the change.
    ///
    /// # Errors
    /// If a stored text is damaged.
    pub(super) fn definition_of(&self, table: &Table) -> Result<TableDefinition, SqlError> {
        self.definition(&self.names(), table)
    }

    fn definition(
        &self,
        names: &SchemaNames<'_>,
        table: &Table,
    ) -> Result<TableDefinition, SqlError> {
        let mut properties = table.properties().clone();
        for column in properties.columns.values_mut() {
            for text in [&mut column.default, &mut column.generated].into_iter().flatten() {
                *text = names.expression(text)?;
            }
        }
        for text in properties.checks.values_mut() {
            *text = names.expression(text)?;
        }
        let metadata = table.schema().metadata().clone();
        let fields: Fields =
            table.schema().fields().iter().map(|field| self.field(field)).collect();
        Ok(TableDefinition {
            schema_name: names.schema(table.schema_name()).to_owned(),
            name: table.name().to_owned(),
            columns: Arc::new(Schema::new_with_metadata(fields, metadata)),
            encoding: table.encoding(),
            properties,
            owner: None,
        })
    }

    /// A column of a table, which may be of a type of the schema.
    fn field(&self, field: &FieldRef) -> FieldRef {
        match named_type(field) {
            Some((schema, name)) if schema == self.from => {
                Arc::new(with_named_type(&Field::clone(field), Some((self.to.as_str(), name))))
            }
            _ => Arc::clone(field),
        }
    }

    /// Makes the schema, its types and its sequences under the new name.
    ///
    /// # Errors
    /// [`SqlError::SchemaExists`], [`SqlError::Conflict`]; if a stored text is damaged.
    pub(super) fn begin(&self, draft: &mut Draft) -> Result<(), SqlError> {
        let Self { from, to, .. } = self;
        let snapshot = draft.snapshot().clone();
        self.check(&snapshot)?;
        draft.depend_on_views_of(&snapshot)?;
        draft.create_schema(to, false)?;
        if let Some(access) = snapshot.access(from, None) {
            draft.put_access(to, None, access.clone())?;
        }
        if let Some(comments) = snapshot.comments(from, None) {
            draft.put_comments(to, None, comments.clone())?;
        }
        for (name, object) in snapshot.texts(TextKind::Type, from) {
            let Some(of) = find(&snapshot, from, &name)? else { continue };
            let text = EnumType::new(to, &name, of.labels().to_vec())?.to_string();
            let object = SchemaText { text, ..SchemaText::clone(&object) };
            draft.put_text(TextKind::Type, (to, &name), object, false)?;
        }
        for sequence in snapshot.sequences(from) {
            draft.alter_sequence(&sequence, &Arc::new(sequence.moved(to)))?;
        }
        Ok(())
    }

    /// Moves the functions and views, and drops the schema with the former name, whose tables have
    /// been moved.
    ///
    /// # Errors
    /// [`SqlError::SchemaNotEmpty`], [`SqlError::Conflict`]; if a stored text is damaged.
    pub(super) fn finish(&self, draft: &mut Draft) -> Result<(), SqlError> {
        let (names, snapshot) = (self.names(), draft.snapshot().clone());
        for schema in snapshot.schemas() {
            for (key, object) in snapshot.texts(TextKind::Function, &schema) {
                let (text, home) = (names.routine(&object.text)?, names.schema(&schema));
                if text != object.text || home != schema {
                    let (before, after) = ((schema.as_str(), key.as_str()), (home, key.as_str()));
                    let object = SchemaText { text, ..SchemaText::clone(&object) };
                    draft.alter_text(TextKind::Function, before, after, object)?;
                }
            }
            for name in snapshot.view_names(&schema) {
                self.change_view(draft, &names, (&schema, &name))?;
            }
        }
        for (name, _) in snapshot.texts(TextKind::Type, &self.from) {
            draft.drop_text(TextKind::Type, (&self.from, &name))?;
        }
        draft.drop_schema(&self.from, false).map(drop)
    }

    fn change_view(
        &self,
        draft: &mut Draft,
        names: &SchemaNames<'_>,
        (schema, name): (&str, &str),
    ) -> Result<(), SqlError> {
        let Some(before) = draft.snapshot().view(schema, name) else { return Ok(()) };
        let after = names.view(&before)?;
        if schema != self.from {
            return match after == *before {
                true => Ok(()),
                false => draft.put_view(schema, name, &after, true),
            };
        }
        let access = draft.snapshot().access(schema, Some(name)).cloned();
        let comments = draft.snapshot().comments(schema, Some(name)).cloned();
        draft.put_view(&self.to, name, &after, false)?;
        draft.drop_view(schema, name)?;
        if let Some(access) = access {
            draft.put_access(&self.to, Some(name), access)?;
        }
        match comments {
            Some(comments) => draft.put_comments(&self.to, Some(name), comments),
            None => Ok(()),
        }
    }
}
