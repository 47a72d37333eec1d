//! Running of ALTER SCHEMA RENAME.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use futures::FutureExt as _;
use terrace_table::catalog::{Catalog, Snapshot};
use terrace_table::error::SqlError;
use terrace_table::transaction::{Rewrites, Scope};
use terrace_table::write::{ColumnSource, CountExec};

use crate::session::notice::Notice;
use crate::session::object_name::{refuse_reserved, refuse_schema_name};
use crate::session::refusal::refused;
use crate::session::schema_rename::SchemaRename;
use crate::session::state::{Planned, Session};

impl Session {
    /// Plans an ALTER SCHEMA RENAME.
    ///
    /// # Errors
    /// [`SqlError::MissingSchema`]; [`SqlError::Denied`]; [`SqlError::SchemaExists`];
    /// [`SqlError::Refused`] for a name that a schema may not have; [`SqlError::InUse`] if the name
    /// cannot be replaced in a definition.
    pub(in crate::session) fn rename_schema(
        &self,
        snapshot: &Snapshot,
        rename: SchemaRename,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        self.refuse_change(scope, "a definition")?;
        refuse_reserved(&rename.from)?;
        refuse_schema_name(&rename.from)?;
        if !snapshot.has_schema(&rename.from) {
            if rename.if_exists {
                self.notice(Notice::missing(format_args!("schema \"{}\"", rename.from)));
                return Ok(Planned::nothing());
            }
            return Err(SqlError::MissingSchema { name: rename.from });
        }
        self.rights(snapshot).require_superuser("renaming a schema")?;
        refuse_reserved(&rename.to)?;
        refuse_schema_name(&rename.to)?;
        if snapshot.has_schema(&rename.to) {
            return Err(SqlError::SchemaExists { name: rename.to });
        }
        if let Some(table) = self.names.external_of(&rename.from) {
            let what = format!("renaming schema {} with the external table {table}", rename.from);
            return Err(refused(&what, "drop the external table first"));
        }
        rename.check(snapshot)?;
        let (catalog, rename) = (Arc::clone(self.engine.catalog()), Arc::new(rename));
        let what = format!("AlterSchemaExec: schema={}, name={}", rename.from, rename.to);
        let plan = CountExec::definition(what, move |context| {
            let (catalog, rename) = (Arc::clone(&catalog), Arc::clone(&rename));
            async move { Ok(run(&catalog, &rename, &context).await?) }.boxed()
        });
        Ok(Planned { plan, watched: None })
    }
}

async fn run(
    catalog: &Arc<Catalog>,
    rename: &SchemaRename,
    context: &TaskContext,
) -> Result<(), SqlError> {
    let rewrites = lock(catalog, rename, &Scope::of(context)).await?;
    let mut altered = Vec::with_capacity(rewrites.tables().len());
    for (before, version) in rewrites.tables() {
        let after = catalog.altered(before, rename.definition_of(before)?)?;
        let columns = before.schema().fields().len();
        let sources: Vec<_> = (0..columns).map(ColumnSource::Kept).collect();
        let sketches = rewrites.sketches(before)?;
        let memory = context.memory_pool();
        let changes = before.alter(version, &after, &sources, &sketches, memory).await?;
        altered.push((after, changes));
    }
    rewrites
        .alter(catalog, &altered, |draft| rename.begin(draft), |draft| rename.finish(draft))
        .await
}

/// Locks the tables that the rename has to rewrite.
async fn lock(
    catalog: &Arc<Catalog>,
    rename: &SchemaRename,
    scope: &Scope,
) -> Result<Rewrites, SqlError> {
    loop {
        let tables = rename.tables(&scope.snapshot(catalog)?)?;
        match scope.rewrite_all(catalog, &tables).await {
            Err(SqlError::Dropped { .. }) => {}
            locked => return locked,
        }
    }
}
