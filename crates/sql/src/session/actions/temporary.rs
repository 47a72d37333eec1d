//! Temporary objects of a session.
//!
//! They are in a schema of the session, which name resolution searches before the search path. The
//! schema is dropped when the session ends or, after a crash, when the database is opened again.

use std::sync::atomic::Ordering;

use datafusion::common::TableReference;
use terrace_table::catalog::{Draft, OnCommit};
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use crate::names::TEMPORARY;
use crate::session::define::Name;
use crate::session::refusal::refused;
use crate::session::state::Session;

impl Session {
    /// Returns the schema and name of a new temporary object; the schema exists from then on.
    ///
    /// # Errors
    /// [`SqlError::Refused`] for a name in another schema; errors of the catalog.
    pub(in crate::session) async fn make_temporary(
        &self,
        scope: &Scope,
        reference: &TableReference,
    ) -> Result<Name, SqlError> {
        let schema = self.names.temporary();
        if reference.schema().is_some_and(|named| named != TEMPORARY && named != schema) {
            let what = format!("the temporary object {reference}");
            return Err(refused(&what, "say its name without a schema"));
        }
        scope
            .define(self.engine.catalog(), |draft: &mut Draft| draft.create_schema(schema, true))
            .await?;
        Ok(Name { schema: schema.to_owned(), name: reference.table().to_owned() })
    }

    /// Records that the session has a temporary table with an ON COMMIT action, if `effect` is one.
    pub(in crate::session) fn note_on_commit(&self, effect: Option<OnCommit>) {
        if effect.is_some() {
            self.ends_rows.store(true, Ordering::Relaxed);
        }
    }

    /// Applies ON COMMIT DELETE ROWS and ON COMMIT DROP to the session's temporary tables, outside
    /// of a transaction. COMMIT calls this, and every statement outside of a transaction block
    /// before it begins, because the statement before it may have committed by itself.
    ///
    /// # Errors
    /// Errors of the store and of the catalog's file.
    pub(in crate::session) async fn end_temporary_rows(&self) -> Result<(), SqlError> {
        if !self.ends_rows.load(Ordering::Relaxed) || self.transaction().is_some() {
            return Ok(());
        }
        let (catalog, schema) = (self.engine.catalog(), self.names.temporary());
        let snapshot = catalog.snapshot();
        for name in snapshot.table_names(schema) {
            let Some((table, version)) = snapshot.table(schema, &name) else { continue };
            match table.properties().on_commit {
                Some(OnCommit::Drop) => drop(catalog.drop_table(schema, &name).await?),
                Some(OnCommit::DeleteRows) if version.rows() > 0 => drop(table.truncate().await?),
                _ => {}
            }
        }
        Ok(())
    }
}
