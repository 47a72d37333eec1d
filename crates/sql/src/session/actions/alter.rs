//! Running of ALTER TABLE.

use std::sync::Arc;

use datafusion::execution::{SessionState, TaskContext};
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{AlterTable, AlterTableOperation};
use futures::FutureExt as _;
use terrace_table::catalog::{Catalog, Draft, KnownViews, Snapshot};
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;
use terrace_table::write::CountExec;

use crate::names::SearchPath;
use crate::session::alter::Alteration;
use crate::session::dependencies::{Kind, Object, details, released};
use crate::session::dependents::{Lost, lost};
use crate::session::notice::Notice;
use crate::session::sequence_calls;
use crate::session::state::{Planned, Session};
use crate::view;

/// A planned ALTER TABLE: runs when its plan is executed.
struct Alter {
    catalog: Arc<Catalog>,
    state: SessionState,
    schema: String,
    name: String,
    operations: Vec<AlterTableOperation>,
    /// The views that planning has checked for uses of lost columns or names; `None` if nothing is
    /// lost. The commit fails if the catalog has other views by then.
    views: Option<Arc<KnownViews>>,
    /// The dependent objects that CASCADE drops.
    released: Vec<Object>,
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
        self.alter_table_with(state, snapshot, alter, vec![], scope).await
    }

    /// Plans an ALTER TABLE that also drops the objects of `beside`, in the same change of the
    /// catalog.
    ///
    /// # Errors
    /// As [`Session::alter_table`].
    pub(super) async fn alter_table_with(
        &self,
        state: SessionState,
        snapshot: &Snapshot,
        alter: &AlterTable,
        beside: Vec<Object>,
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
                None if alter.if_exists => {
                    let (schema, name) = (&own.schema, &own.name);
                    self.notice(Notice::missing_relation(snapshot, "relation", schema, name));
                    Ok(Planned::nothing())
                }
                None => Err(SqlError::Missing { name }),
            };
        };
        self.rights(snapshot).require_owner("altering it", &own.schema, Some(&own.name))?;
        self.refuse_change(scope, "a definition")?;
        let all_lost = lost(&own.name, &alter.operations);
        let is_checked = !all_lost.is_empty() || !beside.is_empty();
        let views = is_checked.then(|| Arc::new(KnownViews::of(snapshot)));
        let (types, others): (Vec<_>, Vec<_>) = all_lost.into_iter().partition(|it| it.is_type);
        let refuse_used = |all_lost: Vec<Lost>| {
            let mut released = Vec::new();
            for lost in all_lost {
                released.extend(released_by(&state, snapshot, (&own.schema, &own.name), lost)?);
            }
            Ok::<_, SqlError>(released)
        };
        let mut released = refuse_used(others)?;
        released.extend(beside);
        // Errors of the actions appear before the statement waits for locks.
        let operations = &alter.operations;
        let operations = sequence_calls::in_operations(&state, snapshot, &own.schema, operations)?;
        let altered = Alteration::of(&state, &table, &operations).await?;
        altered.skipped().iter().for_each(|notice| self.notice(notice.clone()));
        refuse_used(types)?;
        let what = format!("AlterTableExec: table={}", table.full_name());
        let alter = Arc::new(Alter {
            catalog: Arc::clone(self.engine.catalog()),
            state,
            schema: own.schema,
            name: own.name,
            operations,
            views,
            released,
        });
        let plan = CountExec::definition(what, move |context| {
            let alter = Arc::clone(&alter);
            async move { Ok(alter.run(&context).await?) }.boxed()
        });
        Ok(Planned { plan, watched: None })
    }
}

/// The objects that CASCADE drops with the `lost` column or name of a table: the views that use
/// it, and their dependents.
///
/// # Errors
/// [`Lost::refused`] without CASCADE, if a view uses it.
fn released_by(
    state: &SessionState,
    snapshot: &Snapshot,
    table: (&str, &str),
    lost: Lost,
) -> Result<Vec<Object>, SqlError> {
    let column = lost.column.as_deref().map(|column| (column, lost.is_dropped));
    let users = view::users_of(state, snapshot, table, column)?;
    let users: Vec<_> =
        users.iter().map(|(schema, name)| Object::new(Kind::View, schema, name)).collect();
    if users.is_empty() {
        return Ok(users);
    }
    if lost.cascades {
        let mut all = released(state, snapshot, &users, true)?;
        all.extend(users);
        return Ok(all);
    }
    let path = match lost.is_dropped && !lost.is_type {
        true => SearchPath::of(state.config_options()),
        false => SearchPath::default(),
    };
    let names: Vec<_> = users.iter().map(|view| view.named(&path, snapshot)).collect();
    Err(lost.refused(&names, details(state, snapshot, &users)?))
}

impl Alter {
    async fn run(&self, context: &TaskContext) -> Result<(), SqlError> {
        let scope = Scope::of(context);
        let rewrite = scope.rewrite_named(&self.catalog, &self.schema, &self.name).await?;
        let before = Arc::clone(rewrite.table());
        let mut altered = Alteration::of(&self.state, &before, &self.operations).await?;
        altered.release(&self.released);
        let after = self.catalog.altered(&before, altered.definition())?;
        let (version, sketches) = (Arc::clone(rewrite.version()), rewrite.sketches()?);
        let memory = context.memory_pool();
        let changes = before.alter(&version, &after, altered.sources(), &sketches, memory).await?;
        drop(version);
        let added: Vec<_> = changes.added().map(Arc::clone).collect();
        for check in altered.unchecked()? {
            check.check_chunks(&after, &added).await?;
        }
        match &self.views {
            None => rewrite.alter(&self.catalog, &after, changes).await,
            Some(views) => {
                let release = |draft: &mut Draft| {
                    self.released.iter().try_for_each(|object| object.drop_from(draft))
                };
                rewrite.alter_beside(&self.catalog, &after, changes, views, release).await
            }
        }
    }
}
