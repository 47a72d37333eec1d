//! Definitions of objects that the catalog stores as text.

use std::sync::Arc;

use super::definition::Definition;
use super::dependency::Dependency;
use super::draft::Draft;
use super::schema_text::{SchemaText, TextKind};
use super::snapshot::Snapshot;
use crate::error::SqlError;

impl Snapshot {
    /// Returns the function or type of this name; the name of a function is its key.
    #[must_use]
    pub fn text(&self, kind: TextKind, schema: &str, name: &str) -> Option<Arc<SchemaText>> {
        self.schemas.get(schema)?.texts.get(&(kind, name.to_owned())).cloned()
    }

    /// Returns the names and texts of the objects of a kind in a schema, by name.
    #[must_use]
    pub fn texts(&self, kind: TextKind, schema: &str) -> Vec<(String, Arc<SchemaText>)> {
        let Some(schema) = self.schemas.get(schema) else { return Vec::new() };
        let all = schema.texts.iter().filter(|((of, _), _)| *of == kind);
        all.map(|((_, name), object)| (name.clone(), Arc::clone(object))).collect()
    }

    /// Returns true if any schema has an object of this kind.
    #[must_use]
    pub fn has_texts(&self, kind: TextKind) -> bool {
        let first = (kind, String::new());
        self.schemas.values().any(|schema| {
            let mut from_first = schema.texts.range(first.clone()..);
            from_first.next().is_some_and(|((of, _), _)| *of == kind)
        })
    }
}

impl Draft {
    /// Returns the kinds and names of all objects of a schema that are stored as text.
    pub(super) fn texts_of(&self, schema: &str) -> Vec<(TextKind, String)> {
        let schema = self.snapshot.schemas.get(schema);
        schema.map_or_else(Vec::new, |schema| schema.texts.keys().cloned().collect())
    }

    /// Stores an object as text. An object that it replaces keeps its owner and its comment.
    ///
    /// # Errors
    /// [`SqlError::Exists`] if the name is taken and the object is not to be replaced;
    /// [`SqlError::MissingSchema`].
    pub fn put_text(
        &mut self,
        kind: TextKind,
        (schema, name): (&str, &str),
        object: SchemaText,
        replace: bool,
    ) -> Result<(), SqlError> {
        if !self.snapshot.has_schema(schema) {
            return Err(SqlError::MissingSchema { name: schema.to_owned() });
        }
        let replaced = self.snapshot.text(kind, schema, name);
        if replaced.is_some() && !replace {
            let noun = kind.noun();
            return Err(SqlError::Exists { name: format!("{noun} {schema}.{name}") });
        }
        let object = match &replaced {
            Some(replaced) => SchemaText {
                owner: replaced.owner.clone(),
                comment: replaced.comment.clone(),
                ..object
            },
            None => object,
        };
        let object = Some(Arc::new(object));
        let (schema, name) = (schema.to_owned(), name.to_owned());
        self.define(Definition::PutText { kind, schema, name, object, replaced })
    }

    /// Changes an object that is stored as text, possibly its name and its schema. Returns true if
    /// it existed.
    ///
    /// # Errors
    /// [`SqlError::Exists`] if the new name is taken; [`SqlError::MissingSchema`].
    pub fn alter_text(
        &mut self,
        kind: TextKind,
        before: (&str, &str),
        after: (&str, &str),
        object: SchemaText,
    ) -> Result<bool, SqlError> {
        let Some(replaced) = self.snapshot.text(kind, before.0, before.1) else {
            return Ok(false);
        };
        let (schema, name) = (after.0.to_owned(), after.1.to_owned());
        if before == after {
            let (object, replaced) = (Some(Arc::new(object)), Some(replaced));
            self.define(Definition::PutText { kind, schema, name, object, replaced })?;
            return Ok(true);
        }
        self.put_text(kind, after, object, false)?;
        self.drop_text(kind, before)
    }

    /// Makes the definitions of the draft depend on an object that is stored as text. It must not
    /// change before they are committed.
    ///
    /// # Errors
    /// [`SqlError::Conflict`] if it has changed already.
    pub fn depend_on_text(
        &mut self,
        kind: TextKind,
        (schema, name): (&str, &str),
        object: &Arc<SchemaText>,
    ) -> Result<(), SqlError> {
        let (schema, name) = (schema.to_owned(), name.to_owned());
        let object = Arc::clone(object);
        self.define(Definition::Depend(Dependency::Text { kind, schema, name, object }))
    }

    /// Drops an object that is stored as text. Returns true if it existed.
    ///
    /// # Errors
    /// None, except for a draft that contradicts itself.
    pub fn drop_text(
        &mut self,
        kind: TextKind,
        (schema, name): (&str, &str),
    ) -> Result<bool, SqlError> {
        let replaced = self.snapshot.text(kind, schema, name);
        if replaced.is_none() {
            return Ok(false);
        }
        let (schema, name) = (schema.to_owned(), name.to_owned());
        self.define(Definition::PutText { kind, schema, name, object: None, replaced })?;
        Ok(true)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::{DataType, Field, Schema};
    use terrace_store::MemoryBlocks;

    use super::super::named_type::with_named_type;
    use super::*;
    use crate::test_support::Database;

    fn object(text: &str) -> SchemaText {
        let (text, owner) = (text.to_owned(), Some("ada".to_owned()));
        SchemaText { text, owner, comment: None }
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn objects_survive_a_restart_and_older_files_have_none() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("catalog.redb");
        let blocks = Arc::new(MemoryBlocks::new(1 << 30));
        drop(Database::open(&path, blocks.clone()).expect("made"));
        // A file of a program without functions and types.
        let file = redb::Database::open(&path).expect("file");
        let write = file.begin_write().expect("write");
        let texts: redb::TableDefinition<'_, (&str, u8, &str), &[u8]> =
            redb::TableDefinition::new("texts");
        assert!(write.delete_table(texts).expect("deleted"));
        write.commit().expect("committed");
        drop(file);
        {
            let database = Database::open(&path, blocks.clone()).expect("open");
            assert!(!database.catalog.snapshot().has_texts(TextKind::Function));
            let put = |draft: &mut Draft| {
                draft.put_text(TextKind::Function, ("public", "f/1"), object("f"), false)?;
                draft.put_text(TextKind::Type, ("public", "f/1"), object("t"), false)
            };
            database.catalog.define(put).await.expect("stored");
            let error = database.catalog.define(put).await.expect_err("they exist");
            assert!(error.to_string().contains("function public.f/1"), "{error}");
        }
        let database = Database::open(&path, blocks).expect("open");
        let snapshot = database.catalog.snapshot();
        let found = snapshot.text(TextKind::Function, "public", "f/1").expect("a function");
        assert_eq!(*found, object("f"));
        assert_eq!(snapshot.texts(TextKind::Type, "public").len(), 1);
        let take = |draft: &mut Draft| draft.drop_text(TextKind::Function, ("public", "f/1"));
        assert!(database.catalog.define(take).await.expect("dropped"));
        assert!(!database.catalog.define(take).await.expect("nothing"));
        assert!(!database.catalog.snapshot().has_texts(TextKind::Function));
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_type_with_a_column_is_not_dropped() {
        let directory = tempfile::tempdir().expect("directory");
        let path = directory.path().join("catalog.redb");
        let blocks = Arc::new(MemoryBlocks::new(1 << 30));
        let database = Database::open(&path, blocks).expect("open");
        let catalog = &database.catalog;
        catalog.create_schema("s", false).await.expect("schema");
        let put =
            |draft: &mut Draft| draft.put_text(TextKind::Type, ("s", "e"), object("e"), false);
        catalog.define(put).await.expect("a type");
        let field = Field::new("m", DataType::Utf8View, true);
        let field = with_named_type(&field, Some(("s", "e")));
        database.table("t", &Arc::new(Schema::new(vec![field]))).await;
        let take = |draft: &mut Draft| draft.drop_text(TextKind::Type, ("s", "e"));
        for error in [
            catalog.define(take).await.expect_err("it is used"),
            catalog.drop_schema("s", true).await.expect_err("its type is used"),
        ] {
            assert!(error.to_string().contains("column m of table public.t"), "{error}");
        }
        let error = catalog.drop_schema("s", false).await.expect_err("it holds a type");
        assert!(error.to_string().contains("still holds type e"), "{error}");
        assert!(catalog.drop_table("public", "t").await.expect("dropped"));
        assert!(catalog.drop_schema("s", true).await.expect("dropped"));
    }
}
