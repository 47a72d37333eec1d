//! Changes of the names of a schema. Each takes the object that it replaces, and fails if another
//! commit has changed that object.

use std::sync::Arc;

use super::comment_records::Comments;
use super::names::{SchemaNames, Schemas};
use super::schema_text::{SchemaText, TextKind};
use super::sequence::Sequence;
use crate::access::Access;
use crate::error::SqlError;
use crate::table::Table;

impl SchemaNames {
    /// Adds a table in the place of `replaced`.
    ///
    /// # Errors
    /// [`SqlError::Conflict`] if the name is not that of `replaced`, or if it is taken although
    /// nothing is replaced.
    pub(super) fn put_table(
        &mut self,
        table: &Arc<Table>,
        replaced: Option<&Arc<Table>>,
    ) -> Result<(), SqlError> {
        let there = self.tables.get(table.name());
        let is_same = match (there, replaced) {
            (Some(there), Some(replaced)) => Arc::ptr_eq(there, replaced),
            (there, replaced) => there.is_none() && replaced.is_none(),
        };
        if !is_same || (there.is_none() && self.has(Some(table.name()))) {
            return Err(changed(&table.full_name()));
        }
        self.tables.insert_mut(table.name().to_owned(), Arc::clone(table));
        Ok(())
    }

    /// Removes a table.
    ///
    /// # Errors
    /// [`SqlError::Conflict`] if it is not there.
    pub(super) fn remove_table(&mut self, table: &Arc<Table>) -> Result<(), SqlError> {
        let there = self.tables.get(table.name());
        if !there.is_some_and(|there| Arc::ptr_eq(there, table)) {
            return Err(changed(&table.full_name()));
        }
        self.tables.remove_mut(table.name());
        self.access.remove_mut(table.name());
        Ok(())
    }

    /// Adds a view in the place of `replaced`. Returns false if the name is not that of `replaced`,
    /// or is taken without `replaced`.
    pub(super) fn put_view(
        &mut self,
        name: &str,
        sql: &Arc<str>,
        replaced: Option<&Arc<str>>,
    ) -> bool {
        let is_new = replaced.is_none();
        if self.views.get(name) != replaced || (is_new && self.has(Some(name))) {
            return false;
        }
        self.views.insert_mut(name.to_owned(), Arc::clone(sql));
        true
    }

    /// Removes a view. Returns false if it is not there with this text.
    pub(super) fn remove_view(&mut self, name: &str, sql: &Arc<str>) -> bool {
        if self.views.get(name) != Some(sql) {
            return false;
        }
        self.views.remove_mut(name);
        self.access.remove_mut(name);
        self.comments.remove_mut(name);
        true
    }

    /// Replaces the access to an object, or to the schema itself (`None`). Returns false if the
    /// current access is not `replaced`, or there is no such object.
    pub(super) fn replace_access(
        &mut self,
        object: Option<&str>,
        access: &Arc<Access>,
        replaced: Option<&Arc<Access>>,
    ) -> bool {
        let there = object.map_or(self.own.as_ref(), |object| self.access.get(object));
        if there != replaced || !self.has(object) {
            return false;
        }
        match object {
            Some(object) => self.access.insert_mut(object.to_owned(), Arc::clone(access)),
            None => self.own = Some(Arc::clone(access)),
        }
        true
    }

    /// Replaces an object that is stored as text; `object` of `None` removes it. Returns false if
    /// the current one is not `replaced`.
    pub(super) fn replace_text(
        &mut self,
        key: (TextKind, String),
        object: Option<&Arc<SchemaText>>,
        replaced: Option<&Arc<SchemaText>>,
    ) -> bool {
        if self.texts.get(&key) != replaced {
            return false;
        }
        match object {
            Some(object) => self.texts.insert_mut(key, Arc::clone(object)),
            None => {
                self.texts.remove_mut(&key);
            }
        }
        true
    }

    /// Returns true if the schema has no objects.
    pub(super) fn is_empty(&self) -> bool {
        self.tables.is_empty()
            && self.views.is_empty()
            && self.texts.is_empty()
            && self.sequences.is_empty()
    }

    /// Returns true if there is the table, view or sequence; always true for the schema itself
    /// (`None`).
    pub(super) fn has(&self, object: Option<&str>) -> bool {
        object.is_none_or(|it| {
            self.tables.contains_key(it)
                || self.views.contains_key(it)
                || self.sequences.contains_key(it)
        })
    }

    /// Adds a sequence.
    ///
    /// # Errors
    /// [`SqlError::Conflict`] if its name is taken.
    pub(super) fn add_sequence(&mut self, sequence: &Arc<Sequence>) -> Result<(), SqlError> {
        if self.has(Some(sequence.name())) {
            return Err(changed(&sequence.full_name()));
        }
        self.sequences.insert_mut(sequence.name().to_owned(), Arc::clone(sequence));
        Ok(())
    }

    /// Replaces the comments on an object, or on the schema itself (`None`). Returns false if the
    /// current comments are not `replaced`, or there is no such object.
    pub(super) fn replace_comments(
        &mut self,
        object: Option<&str>,
        comments: &Arc<Comments>,
        replaced: Option<&Arc<Comments>>,
    ) -> bool {
        let there = object.map_or(self.comment.as_ref(), |object| self.comments.get(object));
        if there != replaced || !self.has(object) {
            return false;
        }
        match object {
            Some(object) => self.comments.insert_mut(object.to_owned(), Arc::clone(comments)),
            None => self.comment = Some(Arc::clone(comments)),
        }
        true
    }

    /// Removes a sequence.
    ///
    /// # Errors
    /// [`SqlError::Conflict`] if it is not there.
    pub(super) fn remove_sequence(&mut self, sequence: &Arc<Sequence>) -> Result<(), SqlError> {
        let there = self.sequences.get(sequence.name());
        if !there.is_some_and(|there| Arc::ptr_eq(there, sequence)) {
            return Err(changed(&sequence.full_name()));
        }
        self.sequences.remove_mut(sequence.name());
        Ok(())
    }
}

/// Moves the access to an object and the comments on it from one schema and name to another.
///
/// # Errors
/// [`SqlError::Conflict`] if a schema does not exist.
pub(super) fn move_notes(
    schemas: &mut Schemas,
    from: (&str, &str),
    to: (&str, &str),
) -> Result<(), SqlError> {
    if from == to {
        return Ok(());
    }
    let names = names_of(schemas, from.0)?;
    let access = names.access.get(from.1).map(Arc::clone);
    let comments = names.comments.get(from.1).map(Arc::clone);
    names.access.remove_mut(from.1);
    names.comments.remove_mut(from.1);
    let names = names_of(schemas, to.0)?;
    if let Some(access) = access {
        names.access.insert_mut(to.1.to_owned(), access);
    }
    if let Some(comments) = comments {
        names.comments.insert_mut(to.1.to_owned(), comments);
    }
    Ok(())
}

/// Returns the names of a schema.
///
/// # Errors
/// [`SqlError::Conflict`] if it does not exist.
pub(super) fn names_of<'a>(
    schemas: &'a mut Schemas,
    name: &str,
) -> Result<&'a mut SchemaNames, SqlError> {
    let missing = || conflict(format_args!("schema {name} was dropped"));
    schemas.get_mut(name).ok_or_else(missing)
}

/// Returns the error for an object that is not the expected one.
pub(super) fn changed(name: &str) -> SqlError {
    conflict(format_args!("{name} was made, replaced or dropped"))
}

/// Returns the error for names that are not the expected ones.
pub(super) fn conflict(what: std::fmt::Arguments<'_>) -> SqlError {
    SqlError::Conflict { what: what.to_string() }
}
