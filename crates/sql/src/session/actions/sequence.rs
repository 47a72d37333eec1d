//! Running of statements about sequences.

use std::sync::Arc;

use datafusion::execution::SessionState;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::ObjectName;
use terrace_table::catalog::{Draft, Sequence, Snapshot};
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use crate::access::Privilege;
use crate::session::define::Name;
use crate::session::dependencies::{Kind, Object};
use crate::session::notice::Notice;
use crate::session::object_name::refuse_hiding;
use crate::session::refusal::refused;
use crate::session::sequence::SequenceStatement;
use crate::session::sequence_calls::user_of;
use crate::session::sequence_changes::{SequenceChanges, in_bounds};
use crate::session::state::{Planned, Session};

/// Planning state, catalog snapshot and transaction scope of a statement about sequences.
#[derive(Clone, Copy)]
struct At<'a> {
    state: &'a SessionState,
    snapshot: &'a Snapshot,
    scope: &'a Scope,
}

impl Session {
    /// Runs a statement about sequences.
    ///
    /// # Errors
    /// [`SqlError::Missing`], [`SqlError::Exists`], [`SqlError::Denied`]; options that contradict
    /// each other; [`SqlError::Refused`] for a sequence that a default uses; errors of the catalog.
    pub(in crate::session) async fn act_on_sequences(
        &self,
        statement: SequenceStatement,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        self.refuse_change(scope, "a definition")?;
        let (state, snapshot) = self.state_in(scope)?;
        let at = At { state: &state, snapshot: &snapshot, scope };
        match statement {
            SequenceStatement::Create { is_temporary, keep, sequence, changes } => {
                self.create_sequence(at, &sequence, &changes, (keep, is_temporary)).await?;
            }
            SequenceStatement::Alter { if_exists, sequence, changes } => {
                let found = self.altered_sequence(at, &sequence, if_exists, "relation")?;
                if let Some(found) = found {
                    self.alter_sequence(at, &found, &changes).await?;
                }
            }
            SequenceStatement::Rename { if_exists, sequence, to } => {
                let found = self.altered_sequence(at, &sequence, if_exists, "relation")?;
                if let Some(found) = found {
                    refuse_used(&snapshot, &found, "renaming")?;
                    refuse_hiding(&to)?;
                    let after = Arc::new(found.altered(&to, *found.options()));
                    let alter = |draft: &mut Draft| draft.alter_sequence(&found, &after);
                    scope.define(self.engine.catalog(), alter).await?;
                }
            }
            SequenceStatement::Owner { sequence, role } => {
                let text = format!("ALTER SEQUENCE {sequence} OWNER TO {role}");
                self.rights(&snapshot).require_superuser(&text)?;
                let found = self.sequence_of(at, &sequence)?;
                if snapshot.role(&role).is_none() {
                    return Err(SqlError::MissingRole { name: role });
                }
                let (schema, name) = (found.schema_name(), Some(found.name()));
                let own = |draft: &mut Draft| {
                    let known = draft.snapshot().access(schema, name).cloned();
                    let mut access = known.unwrap_or_default();
                    access.owner = Some(role.clone());
                    draft.put_access(schema, name, access)
                };
                scope.define(self.engine.catalog(), own).await?;
            }
            SequenceStatement::Drop { if_exists, sequences, cascades } => {
                return self.drop_sequences(at, &sequences, (if_exists, cascades)).await;
            }
        }
        Ok(Planned::nothing())
    }

    async fn create_sequence(
        &self,
        at: At<'_>,
        name: &ObjectName,
        changes: &SequenceChanges,
        (keep, is_temporary): (bool, bool),
    ) -> Result<(), SqlError> {
        let options = changes.created()?;
        let reference = object_name_to_table_reference(name.clone(), true)?;
        let Name { schema, name } = match is_temporary {
            true => self.make_temporary(at.scope, &reference).await?,
            false => self.name_to_make(at.state, at.snapshot, reference, false)?,
        };
        let catalog = self.engine.catalog();
        let sequence = catalog.unnamed_sequence(&schema, &name, options);
        let owner = self.role();
        let put = |draft: &mut Draft| draft.put_sequence(&sequence, keep, owner.as_deref());
        if !at.scope.define(catalog, put).await? {
            self.notice(Notice::relation_exists(&name));
        }
        Ok(())
    }

    async fn alter_sequence(
        &self,
        at: At<'_>,
        before: &Arc<Sequence>,
        changes: &SequenceChanges,
    ) -> Result<(), SqlError> {
        let options = changes.altered(before.options())?;
        let catalog = self.engine.catalog();
        let after = match changes.restart(&options) {
            Some(value) => {
                in_bounds("RESTART", value, &options)?;
                catalog.restarted_sequence(before, options, value)
            }
            None => {
                in_bounds("RESTART", before.last().0, &options)?;
                Arc::new(before.altered(before.name(), options))
            }
        };
        let alter = |draft: &mut Draft| draft.alter_sequence(before, &after);
        at.scope.define(catalog, alter).await
    }

    async fn drop_sequences(
        &self,
        at: At<'_>,
        names: &[ObjectName],
        (if_exists, cascades): (bool, bool),
    ) -> Result<Planned, SqlError> {
        let found = names.iter();
        let found = found.map(|name| self.altered_sequence(at, name, if_exists, "sequence"));
        let found = found.collect::<Result<Vec<_>, SqlError>>()?;
        let found = found.into_iter().flatten();
        let found: Vec<_> =
            found.map(|it| Object::new(Kind::Sequence, it.schema_name(), it.name())).collect();
        self.drop_objects(at.state, at.snapshot, (&found, cascades), at.scope).await
    }

    /// The sequence of a name, which the role must own. If it is missing and `if_exists` holds,
    /// returns `None` and sends a notice, which calls it a `kind`.
    fn altered_sequence(
        &self,
        at: At<'_>,
        name: &ObjectName,
        if_exists: bool,
        kind: &str,
    ) -> Result<Option<Arc<Sequence>>, SqlError> {
        let found = match self.sequence_of(at, name) {
            Err(SqlError::Missing { .. }) if if_exists => {
                let reference = object_name_to_table_reference(name.clone(), true)?;
                let Name { schema, name } = self.own_name(at.state, reference)?;
                self.notice(Notice::missing_relation(at.snapshot, kind, &schema, &name));
                return Ok(None);
            }
            found => found?,
        };
        let (schema, name) = (found.schema_name(), Some(found.name()));
        self.rights(at.snapshot).require_owner("altering or dropping it", schema, name)?;
        Ok(Some(found))
    }

    /// The sequence of a name, on whose schema the role must have USAGE.
    fn sequence_of(&self, at: At<'_>, name: &ObjectName) -> Result<Arc<Sequence>, SqlError> {
        let reference = object_name_to_table_reference(name.clone(), true)?;
        let Name { schema, name } = self.own_name(at.state, reference)?;
        if let Some(found) = at.snapshot.sequence(&schema, &name) {
            self.rights(at.snapshot).require(Privilege::Usage, &schema, None)?;
            return Ok(found);
        }
        match at.snapshot.has_object(&schema, &name) {
            true => Err(refused(
                &format!("a statement about the sequence {schema}.{name}, which is none"),
                "name a sequence, or say TABLE or VIEW",
            )),
            false => Err(SqlError::Missing { name: format!("{schema}.{name}") }),
        }
    }
}

/// Refuses a change of the name of a sequence that a default uses.
fn refuse_used(snapshot: &Snapshot, sequence: &Sequence, what: &str) -> Result<(), SqlError> {
    match user_of(snapshot, sequence.schema_name(), sequence.name())? {
        None => Ok(()),
        Some((table, column)) => Err(refused(
            &format!(
                "{what} sequence {}, which the default of column {column} of table {table} uses",
                sequence.full_name()
            ),
            &format!("say ALTER TABLE {table} ALTER {column} DROP DEFAULT first, or drop it"),
        )),
    }
}
