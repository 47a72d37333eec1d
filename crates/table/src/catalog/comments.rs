//! Comments on schemas, views and sequences. Those on tables and their columns are among the
//! properties of the table.

use std::sync::Arc;

use super::comment_records::{COMMENTS, Comments, OBJECT, SCHEMA, to_bytes};
use super::definition::Definition;
use super::draft::Draft;
use super::file::FileTransaction;
use super::snapshot::Snapshot;
use crate::error::SqlError;

impl Snapshot {
    /// Returns the comments on a view or sequence, or on the schema if `object` is `None`.
    #[must_use]
    pub fn comments(&self, schema: &str, object: Option<&str>) -> Option<&Comments> {
        self.shared_comments(schema, object).map(Arc::as_ref)
    }

    fn shared_comments(&self, schema: &str, object: Option<&str>) -> Option<&Arc<Comments>> {
        let names = self.schemas.get(schema)?;
        object.map_or(names.comment.as_ref(), |object| names.comments.get(object))
    }
}

impl Draft {
    /// Sets the comments on a view or sequence, or on the schema if `object` is `None`.
    ///
    /// # Errors
    /// [`SqlError::Missing`], [`SqlError::MissingSchema`].
    pub fn put_comments(
        &mut self,
        schema: &str,
        object: Option<&str>,
        comments: Comments,
    ) -> Result<(), SqlError> {
        self.require_schema(schema)?;
        if let Some(name) = object.filter(|name| !self.snapshot.has_object(schema, name)) {
            return Err(SqlError::Missing { name: format!("{schema}.{name}") });
        }
        let replaced = self.snapshot.shared_comments(schema, object).map(Arc::clone);
        let (schema, object) = (schema.to_owned(), object.map(str::to_owned));
        let comments = Arc::new(comments);
        self.define(Definition::PutComments { schema, object, comments, replaced })
    }
}

impl FileTransaction<'_> {
    /// Stores the comments on an object, or on the schema if `object` is `None`; removes them if
    /// there are none.
    pub(super) fn put_comments(
        &self,
        schema: &str,
        object: Option<&str>,
        comments: &Comments,
    ) -> Result<(), SqlError> {
        let key = object.map_or((schema, SCHEMA, ""), |object| (schema, OBJECT, object));
        self.change(|write| {
            let mut table = write.open_table(COMMENTS)?;
            match comments == &Comments::default() {
                true => table.remove(key).map(drop)?,
                false => table.insert(key, to_bytes(comments).as_slice()).map(drop)?,
            }
            Ok(())
        })
    }

    /// Moves the comments on a sequence from one schema and name to another.
    pub(super) fn rename_comments(
        &self,
        from: (&str, &str),
        to: (&str, &str),
    ) -> Result<(), SqlError> {
        self.change(|write| {
            let mut table = write.open_table(COMMENTS)?;
            let record = table.remove((from.0, OBJECT, from.1))?.map(|it| it.value().to_vec());
            if let Some(record) = record {
                table.insert((to.0, OBJECT, to.1), record.as_slice())?;
            }
            Ok(())
        })
    }
}
