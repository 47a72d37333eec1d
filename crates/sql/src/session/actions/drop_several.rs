//! DROP of several tables or views: all of them or none.

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType, Statement as SqlStatement};
use terrace_table::catalog::{Draft, Snapshot};
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use crate::session::object_name::Name;
use crate::session::state::{Planned, Session};

/// A DROP of several objects.
pub(in crate::session) struct DropSeveral {
    is_of_views: bool,
    if_exists: bool,
    names: Vec<ObjectName>,
}

/// The DROP of several tables or views; `None` for any other statement.
pub(in crate::session) fn of(statement: &Statement) -> Option<DropSeveral> {
    let Statement::Statement(statement) = statement else { return None };
    let SqlStatement::Drop { object_type, if_exists, names, .. } = statement.as_ref() else {
        return None;
    };
    let is_of_views = match object_type {
        ObjectType::Table => false,
        ObjectType::View => true,
        _ => return None,
    };
    let (if_exists, names) = (*if_exists, names.clone());
    (names.len() > 1).then_some(DropSeveral { is_of_views, if_exists, names })
}

impl Session {
    /// Drops the objects in one change of the catalog.
    pub(in crate::session) async fn drop_several(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        drop: DropSeveral,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        self.refuse_change(scope, "a definition")?;
        let mut names = Vec::new();
        for name in drop.names {
            let reference = object_name_to_table_reference(name, true)?;
            let Name { schema, name } = self.own_name(state, reference)?;
            if snapshot.has_object(&schema, &name) {
                self.rights(snapshot).require_owner("dropping it", &schema, Some(&name))?;
            }
            names.push((schema, name));
        }
        let take = |draft: &mut Draft| {
            for (schema, name) in &names {
                let is_dropped = match drop.is_of_views {
                    true => draft.drop_view(schema, name)?,
                    false => draft.drop_table(schema, name)?,
                };
                if !is_dropped && !drop.if_exists {
                    return Err(SqlError::Missing { name: format!("{schema}.{name}") });
                }
            }
            Ok(())
        };
        scope.define(self.engine.catalog(), take).await?;
        Ok(Planned::nothing())
    }
}
