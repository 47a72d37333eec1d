//! Objects that a definition depends on without changing them.
//!
//! A view depends on the tables and functions of its query, and the change of a table's columns on
//! the views that it has been checked against. If another transaction changes them before the
//! definition is committed, the definition conflicts with it.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::names::Schemas;
use super::schema_text::{SchemaText, TextKind};
use super::snapshot::Snapshot;
use crate::error::SqlError;
use crate::table::Table;

/// The views of a catalog at one time: the texts by schema and name.
#[derive(Clone, Debug, Default)]
pub struct KnownViews(BTreeMap<(String, String), Arc<str>>);

/// An object that a definition depends on.
#[derive(Clone)]
pub(super) enum Dependency {
    /// The table must be there, unchanged.
    Table(Arc<Table>),
    /// The object that is stored as text must be there, unchanged.
    Text { kind: TextKind, schema: String, name: String, object: Arc<SchemaText> },
    /// There must be no other views than these.
    Views(Arc<KnownViews>),
}

impl KnownViews {
    /// Returns the views of a snapshot.
    #[must_use]
    pub fn of(snapshot: &Snapshot) -> Self {
        let mut views = BTreeMap::new();
        for schema in snapshot.schemas() {
            for name in snapshot.view_names(&schema) {
                if let Some(text) = snapshot.view(&schema, &name) {
                    views.insert((schema.clone(), name), text);
                }
            }
        }
        Self(views)
    }

    fn has(&self, schema: &str, name: &str, text: &Arc<str>) -> bool {
        self.0.get(&(schema.to_owned(), name.to_owned())) == Some(text)
    }
}

impl Dependency {
    /// Checks the object in the names of a catalog.
    ///
    /// # Errors
    /// [`SqlError::Conflict`] if another transaction has changed it.
    pub(super) fn check(&self, schemas: &Schemas) -> Result<(), SqlError> {
        match self {
            Self::Table(table) => {
                let names = schemas.get(table.schema_name());
                let there = names.and_then(|names| names.tables.get(table.name()));
                match there.is_some_and(|there| Arc::ptr_eq(there, table)) {
                    true => Ok(()),
                    false => Err(conflict(&format!("table {} was changed", table.full_name()))),
                }
            }
            Self::Text { kind, schema, name, object } => {
                let there = schemas.get(schema);
                let there = there.and_then(|names| names.texts.get(&(*kind, name.clone())));
                match there == Some(object) {
                    true => Ok(()),
                    false => {
                        let noun = kind.noun();
                        Err(conflict(&format!("{noun} {schema}.{name} was changed")))
                    }
                }
            }
            Self::Views(known) => {
                for (schema, names) in schemas {
                    let mut views = names.views.iter();
                    if let Some((name, _)) =
                        views.find(|(name, text)| !known.has(schema, name, text))
                    {
                        return Err(conflict(&format!("view {schema}.{name} was made")));
                    }
                }
                Ok(())
            }
        }
    }
}

fn conflict(what: &str) -> SqlError {
    SqlError::Conflict { what: what.to_owned() }
}
