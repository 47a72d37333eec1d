//! Running of ALTER TABLE.

use std::sync::Arc;

use datafusion::execution::{SessionState, TaskContext};
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{AlterTable, AlterTableOperation};
use futures::FutureExt as _;
use terrace_table::catalog::{Catalog, KnownViews, Snapshot};
use terrace_table::error::SqlError;
use terrace_table::transaction::{Rewrite, Scope};
use terrace_table::write::CountExec;

use crate::session::alter::Alteration;
use crate::session::dependents::{Lost, lost};
use crate::session::sequence_calls;
use crate::session::state::{Planned, Session};
use crate::view;

/// An ALTER TABLE of a table of the database.
struct Alter {
    catalog: Arc<Catalog>,
    state: SessionState,
    schema: String,
    name: String,
    operations: Vec<AlterTableOperation>,
    /// The views that have been checked, if columns or names are lost that a view may use.
    views: Option<Arc<KnownViews>>,
}

impl Session {
    /// Plans an ALTER TABLE.
    ///
    /// # Errors
    /// [`SqlError::Missing`]; [`SqlError::Denied`]; [`SqlError::InUse`] if a view depends on what
    /// changes; errors of the actions.
    pub(in crate::session) async fn alter_table(
        &self,
        state: SessionState,
        snapshot: &Snapshot,
        alter: &AlterTable,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        let reference = object_name_to_table_reference(alter.name.clone(), true)?;
        let own = self.own_name(&state, reference)?;
        let Some((table, _)) = snapshot.table(&own.schema, &own.name) else {
            let name = format!("{}.{}", own.schema, own.name);
            return match snapshot.view(&own.schema, &own.name) {
                Some(_) => Err(SqlError::Refused {
                    what: format!("ALTER TABLE of the view {name}"),
                    instead: "replace it by CREATE OR REPLACE VIEW".to_owned(),
                }),
                None if alter.if_exists => Ok(Planned::nothing()),
                None => Err(SqlError::Missing { name }),
            };
        };
        self.rights(snapshot).require_owner("altering it", &own.schema, Some(&own.name))?;
        self.refuse_change(scope, "a definition")?;
        let all_lost = lost(&own.name, &alter.operations);
        let views = (!all_lost.is_empty()).then(|| Arc::new(KnownViews::of(snapshot)));
        let (types, others): (Vec<_>, Vec<_>) = all_lost.into_iter().partition(|it| it.is_type);
        let refuse_used = |all_lost: Vec<Lost>| {
            all_lost.into_iter().try_for_each(|lost| {
                let column = lost.column.as_deref().map(|column| (column, lost.is_dropped));
                let table = (own.schema.as_str(), own.name.as_str());
                match view::user_of(&state, snapshot, table, column)? {
                    Some(view) => Err(lost.refused(view)),
                    None => Ok(()),
                }
            })
        };
        refuse_used(others)?;
        // Errors of the actions appear before the statement waits for others.
        let operations = sequence_calls::in_operations(&state, snapshot, &alter.operations)?;
        Alteration::of(&state, &table, &operations).await?;
        refuse_used(types)?;
        let what = format!("AlterTableExec: table={}", table.full_name());
        let alter = Arc::new(Alter {
            catalog: Arc::clone(self.engine.catalog()),
            state,
            schema: own.schema,
            name: own.name,
            operations,
            views,
        });
        let plan = CountExec::definition(what, move |context| {
            let alter = Arc::clone(&alter);
            async move { Ok(alter.run(&context).await?) }.boxed()
        });
        Ok(Planned { plan, watched: None })
    }
}

impl Alter {
    async fn run(&self, context: &TaskContext) -> Result<(), SqlError> {
        let rewrite = self.lock(&Scope::of(context)).await?;
        let before = Arc::clone(rewrite.table());
        let altered = Alteration::of(&self.state, &before, &self.operations).await?;
        let after = self.catalog.altered(&before, altered.definition())?;
        let (version, sketches) = (Arc::clone(rewrite.version()), rewrite.sketches()?);
        let memory = context.memory_pool();
        let changes = before.alter(&version, &after, altered.sources(), &sketches, memory).await?;
        drop(version);
        for check in altered.unchecked()? {
            check.check_chunks(&after, changes.added()).await?;
        }
        match &self.views {
            None => rewrite.alter(&self.catalog, &after, changes).await,
            Some(views) => rewrite.alter_beside(&self.catalog, &after, changes, views).await,
        }
    }

    /// Locks the table that currently has the name.
    async fn lock(&self, scope: &Scope) -> Result<Rewrite, SqlError> {
        loop {
            let found = scope.snapshot(&self.catalog)?.table(&self.schema, &self.name);
            let name = format!("{}.{}", self.schema, self.name);
            let (table, _) = found.ok_or(SqlError::Dropped { name })?;
            match scope.rewrite(&table).await {
                Err(SqlError::Dropped { .. }) => {}
                locked => return locked,
            }
        }
    }
}
