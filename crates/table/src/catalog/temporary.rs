//! Schemas of temporary objects, which end with their session.

use std::sync::Arc;

use tokio::runtime::Handle;

use super::draft::Draft;
use super::state::Catalog;
use crate::error::SqlError;

/// Prefix of the names of schemas of temporary objects.
const PREFIX: &str = "pg_temp_";

impl Catalog {
    /// Drops a schema with all of its objects, in a task that runs to completion even if the caller
    /// does not wait. Without an asynchronous runtime, the schema remains until the database is
    /// opened again.
    pub fn drop_schema_later(self: &Arc<Self>, name: &str) {
        let Ok(runtime) = Handle::try_current() else { return };
        let (catalog, name) = (Arc::clone(self), name.to_owned());
        let dropped = self.journal.tasks.spawn(move || {
            if let Err(error) = runtime.block_on(catalog.drop_schema(&name, true)) {
                tracing::warn!(%error, "schema {name} of an ended session remains");
            }
        });
        drop(dropped);
    }

    /// Drops the schemas of temporary objects that sessions have left, when the database is opened.
    ///
    /// # Errors
    /// Errors of the catalog's file.
    pub(super) fn drop_temporary_schemas(&self) -> Result<(), SqlError> {
        let mut draft = Draft::new(self.snapshot());
        for schema in self.schemas().iter().filter(|schema| schema.starts_with(PREFIX)) {
            draft.drop_schema(schema, true)?;
        }
        if draft.is_empty() { Ok(()) } else { self.settle(draft) }
    }
}
