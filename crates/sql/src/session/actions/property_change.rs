//! Changes of the properties of a table, whose rows and columns stay.

use std::sync::Arc;

use datafusion::execution::memory_pool::MemoryPool;
use futures::FutureExt as _;
use terrace_table::catalog::{Catalog, Draft, Properties, TableDefinition};
use terrace_table::error::SqlError;
use terrace_table::table::Table;
use terrace_table::transaction::Scope;
use terrace_table::write::{ColumnSource, CountExec};

use crate::session::state::Planned;

/// A change of the properties of a table, and of other objects in the same commit.
pub(super) trait PropertyChange: Send + Sync + 'static {
    /// Changes the properties of the table, as it is once it is locked.
    ///
    /// # Errors
    /// Properties that contradict the change.
    fn change(&self, table: &Table, properties: &mut Properties) -> Result<(), SqlError>;

    /// Changes other objects.
    ///
    /// # Errors
    /// Errors of the catalog.
    fn beside(&self, _draft: &mut Draft) -> Result<(), SqlError> {
        Ok(())
    }
}

/// A plan that makes the change of a table, which `name` names in the plan.
pub(super) fn planned(
    name: &str,
    catalog: Arc<Catalog>,
    table: &Table,
    change: impl PropertyChange,
) -> Planned {
    let what = format!("{name}: table={}", table.full_name());
    let (schema, name) = (table.schema_name().to_owned(), table.name().to_owned());
    let shared = Arc::new((catalog, schema, name, change));
    let plan = CountExec::definition(what, move |context| {
        let shared = Arc::clone(&shared);
        async move {
            let (catalog, schema, name, change) = shared.as_ref();
            let scope = Scope::of(&context);
            Ok(run(catalog, &scope, (schema, name), change, context.memory_pool()).await?)
        }
        .boxed()
    });
    Planned { plan, watched: None }
}

/// Locks a table, and makes the change.
async fn run(
    catalog: &Arc<Catalog>,
    scope: &Scope,
    (schema, name): (&str, &str),
    change: &impl PropertyChange,
    memory: &Arc<dyn MemoryPool>,
) -> Result<(), SqlError> {
    let rewrite = scope.rewrite_named(catalog, schema, name).await?;
    let before = Arc::clone(rewrite.table());
    let mut properties = before.properties().clone();
    change.change(&before, &mut properties)?;
    let definition = TableDefinition {
        schema_name: schema.to_owned(),
        name: name.to_owned(),
        columns: Arc::clone(before.schema()),
        encoding: before.encoding(),
        properties,
        owner: None,
    };
    let after = catalog.altered(&before, definition)?;
    let (version, sketches) = (Arc::clone(rewrite.version()), rewrite.sketches()?);
    let sources: Vec<_> = (0..before.schema().fields().len()).map(ColumnSource::Kept).collect();
    let changes = before.alter(&version, &after, &sources, &sketches, memory).await?;
    drop(version);
    rewrite.alter_properties(catalog, &after, changes, |draft| change.beside(draft)).await
}
