//! DROP of tables and views: all of them or none.

use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::{ObjectName, ObjectType, Statement as SqlStatement};
use terrace_table::catalog::{Draft, Snapshot};
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use crate::names::SearchPath;
use crate::session::alter;
use crate::session::dependencies::{Kind, Object, drop_all, parts_of_table};
use crate::session::notice::Notice;
use crate::session::object_name::Name;
use crate::session::parse::parse;
use crate::session::refusal::refused;
use crate::session::state::{Planned, Session};
use crate::session::statement::SessionStatement;

/// A DROP of tables or views.
pub(in crate::session) struct Drops {
    kind: Kind,
    if_exists: bool,
    /// True for CASCADE.
    cascades: bool,
    names: Vec<ObjectName>,
}

/// The DROP of tables or views; `None` for any other statement.
pub(in crate::session) fn of(statement: &Statement) -> Option<Drops> {
    let Statement::Statement(statement) = statement else { return None };
    let SqlStatement::Drop { object_type, if_exists, names, cascade, .. } = statement.as_ref()
    else {
        return None;
    };
    let kind = match object_type {
        ObjectType::Table => Kind::Table,
        ObjectType::View => Kind::View,
        _ => return None,
    };
    let (if_exists, cascades, names) = (*if_exists, *cascade, names.clone());
    Some(Drops { kind, if_exists, cascades, names })
}

impl Session {
    /// Drops the objects in one change of the catalog, with CASCADE those that depend on them too.
    ///
    /// # Errors
    /// [`SqlError::Missing`]; [`SqlError::Denied`]; [`SqlError::Dependents`] if others depend on
    /// one; [`SqlError::Refused`] for an object of another kind; errors of the catalog.
    pub(in crate::session) async fn drop_relations(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        drops: Drops,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        self.refuse_change(scope, "a definition")?;
        let (mut names, mut external) = (Vec::new(), Vec::new());
        for name in &drops.names {
            let reference = object_name_to_table_reference(name.clone(), true)?;
            let Name { schema, name } = self.own_name(state, reference)?;
            if snapshot.has_object(&schema, &name) {
                self.rights(snapshot).require_owner("dropping it", &schema, Some(&name))?;
            }
            match drops.kind == Kind::Table && self.names.has_external(&schema, &name) {
                true => external.push((schema, name)),
                false => names.push((schema, name)),
            }
        }
        let take = |draft: &mut Draft| {
            let found = names.iter().map(|name| drops.found(draft.snapshot(), name));
            let found: Vec<_> = found.collect::<Result<_, SqlError>>()?;
            let found: Vec<_> = found.into_iter().flatten().collect();
            drop_all(state, draft, &found, drops.cascades)
        };
        let others = scope.define(self.engine.catalog(), take).await?;
        self.note_cascade(state, snapshot, &others);
        for (schema, name) in &external {
            self.names.drop_external(schema, name);
        }
        let kind = keyword(&drops.kind).to_lowercase();
        for (schema, name) in &names {
            if Object::relation(snapshot, schema, name).is_none() {
                self.notice(Notice::missing_relation(snapshot, &kind, schema, name));
            }
        }
        Ok(Planned::nothing())
    }

    /// Drops objects in one change of the catalog, with CASCADE those that depend on them too. If
    /// CASCADE drops columns, defaults or constraints of one table, the returned plan alters the
    /// table and drops the objects; nothing is dropped before it runs.
    ///
    /// # Errors
    /// [`SqlError::Dependents`]; [`SqlError::TypeInUse`] for parts of several tables; errors of the
    /// catalog.
    pub(super) async fn drop_objects(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        (objects, cascades): (&[Object], bool),
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        if cascades && let Some(parts) = parts_of_table(state, snapshot, objects)? {
            let statement = parse(&parts.alter)?.pop().and_then(SessionStatement::into_sql);
            let alter = statement.as_ref().and_then(alter::of);
            let alter = alter.ok_or_else(|| SqlError::Task(parts.alter.clone()))?;
            let mut released = parts.others;
            released.extend_from_slice(objects);
            return self.alter_table_with(state.clone(), snapshot, alter, released, scope).await;
        }
        let take = |draft: &mut Draft| drop_all(state, draft, objects, cascades);
        let others = scope.define(self.engine.catalog(), take).await?;
        self.note_cascade(state, snapshot, &others);
        Ok(Planned::nothing())
    }

    /// Tells the client about objects that CASCADE has dropped.
    pub(in crate::session) fn note_cascade(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        others: &[Object],
    ) {
        let path = SearchPath::of(state.config_options());
        let names: Vec<_> = others.iter().map(|it| it.named(&path, snapshot)).collect();
        if let Some(notice) = Notice::cascades(&names) {
            self.notice(notice);
        }
    }
}

impl Drops {
    /// The object to drop by a name; `None` if it is missing and the statement has IF EXISTS.
    fn found(
        &self,
        snapshot: &Snapshot,
        (schema, name): &(String, String),
    ) -> Result<Option<Object>, SqlError> {
        let found = Object::relation(snapshot, schema, name);
        let full = format!("{schema}.{name}");
        match found {
            None if self.if_exists => Ok(None),
            None => Err(SqlError::Missing { name: full }),
            Some(found) if *found.kind() == self.kind => Ok(Some(found)),
            Some(found) => {
                let (noun, other) = (keyword(&self.kind), keyword(found.kind()));
                let what = format!("DROP {noun} of the {} {full}", other.to_lowercase());
                Err(refused(&what, &format!("say DROP {other}")))
            }
        }
    }
}

fn keyword(kind: &Kind) -> &'static str {
    match kind {
        Kind::View => "VIEW",
        Kind::Sequence => "SEQUENCE",
        _ => "TABLE",
    }
}
