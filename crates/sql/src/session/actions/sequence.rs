//! Running of statements about sequences.

use std::sync::Arc;

use datafusion::common::plan_datafusion_err;
use datafusion::execution::SessionState;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::ObjectName;
use terrace_table::catalog::{Catalog, Draft, Properties, Sequence, Snapshot};
use terrace_table::error::SqlError;
use terrace_table::table::Table;
use terrace_table::transaction::Scope;

use super::property_change::{PropertyChange, planned};
use crate::access::Privilege;
use crate::session::define::Name;
use crate::session::dependencies::{Kind, Object};
use crate::session::notice::Notice;
use crate::session::object_name::{refuse_hiding, split_column};
use crate::session::owned_sequences::owner_of;
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
                return self.create_sequence(at, &sequence, &changes, (keep, is_temporary)).await;
            }
            SequenceStatement::Alter { if_exists, sequence, changes } => {
                let found = self.altered_sequence(at, &sequence, if_exists, "relation")?;
                if let Some(found) = found {
                    return self.alter_sequence(at, &found, &changes).await;
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
    ) -> Result<Planned, SqlError> {
        let options = changes.created()?;
        let reference = object_name_to_table_reference(name.clone(), true)?;
        let Name { schema, name } = match is_temporary {
            true => self.make_temporary(at.scope, &reference).await?,
            false => self.name_to_make(at.state, at.snapshot, reference, false)?,
        };
        let catalog = self.engine.catalog();
        let sequence = catalog.unnamed_sequence(&schema, &name, options);
        let owner = self.role();
        let is_kept = keep && at.snapshot.has_object(&schema, &name);
        if let (Some(Some(column)), false) = (changes.owner(), is_kept) {
            let (table, column) = self.owning_column(at, &sequence, column)?;
            let after = Arc::clone(&sequence);
            let role = owner.as_deref().map(str::to_owned);
            let change = Ownership { before: None, after, role, column, is_owned: true };
            change.change(&table, &mut table.properties().clone())?;
            return Ok(planned(OWNERSHIP, Arc::clone(catalog), &table, change));
        }
        let put = |draft: &mut Draft| draft.put_sequence(&sequence, keep, owner.as_deref());
        if !at.scope.define(catalog, put).await? {
            self.notice(Notice::relation_exists(&name));
        }
        Ok(Planned::nothing())
    }

    async fn alter_sequence(
        &self,
        at: At<'_>,
        before: &Arc<Sequence>,
        changes: &SequenceChanges,
    ) -> Result<Planned, SqlError> {
        let catalog = self.engine.catalog();
        let after = altered(catalog, before, changes)?;
        let owner = owner_of(at.snapshot, before);
        let owned = match (changes.owner(), owner) {
            (Some(_), Some((table, column))) if table.properties().identity(&column).is_some() => {
                let text = "cannot change ownership of identity sequence";
                return Err(plan_datafusion_err!("{text} \"{}\"", before.name()).into());
            }
            (Some(Some(column)), owner) => {
                let (table, column) = self.owning_column(at, before, column)?;
                match owner {
                    Some((own, of)) if own.id() == table.id() && of == column => None,
                    Some((own, of)) => {
                        let name = before.full_name();
                        return Err(refused(
                            &format!(
                                "sequence {name} for two columns: column {of} of table {} owns it",
                                own.full_name()
                            ),
                            &format!("say ALTER SEQUENCE {name} OWNED BY NONE first"),
                        ));
                    }
                    None => Some((table, column, true)),
                }
            }
            (Some(None), Some((table, column))) => Some((table, column, false)),
            (Some(None), None) | (None, _) => None,
        };
        if let Some((table, column, is_owned)) = owned {
            let before = Some(Arc::clone(before));
            let change = Ownership { before, after, role: None, column, is_owned };
            change.change(&table, &mut table.properties().clone())?;
            return Ok(planned(OWNERSHIP, Arc::clone(catalog), &table, change));
        }
        let alter = |draft: &mut Draft| draft.alter_sequence(before, &after);
        at.scope.define(catalog, alter).await?;
        Ok(Planned::nothing())
    }

    /// The table and the column of OWNED BY, which are in the schema of the sequence and whose
    /// table the role must own.
    fn owning_column(
        &self,
        at: At<'_>,
        sequence: &Sequence,
        column: &ObjectName,
    ) -> Result<(Arc<Table>, String), SqlError> {
        let Some((table, column)) = split_column(column) else {
            return Err(plan_datafusion_err!(
                "OWNED BY {column} has no table; say OWNED BY table.column, or OWNED BY NONE"
            )
            .into());
        };
        let reference = object_name_to_table_reference(table, true)?;
        let Name { schema, name } = self.own_name(at.state, reference)?;
        let found = at.snapshot.table(&schema, &name);
        let (table, _) =
            found.ok_or_else(|| SqlError::Missing { name: format!("{schema}.{name}") })?;
        self.rights(at.snapshot).require_owner("altering it", &schema, Some(&name))?;
        if schema != sequence.schema_name() {
            let text = "sequence must be in same schema as table it is linked to";
            return Err(plan_datafusion_err!("{text}").into());
        }
        Ok((table, column))
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
        let found: Vec<_> = found.into_iter().flatten().collect();
        for sequence in &found {
            if user_of(at.snapshot, sequence.schema_name(), sequence.name())?.is_none() {
                refuse_owned(at.snapshot, sequence, "dropping")?;
            }
        }
        let found = found.iter();
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

/// The sequence after an ALTER SEQUENCE of its options.
///
/// # Errors
/// Options that contradict each other.
pub(super) fn altered(
    catalog: &Catalog,
    before: &Arc<Sequence>,
    changes: &SequenceChanges,
) -> Result<Arc<Sequence>, SqlError> {
    let options = changes.altered(before.options())?;
    match changes.restart(&options) {
        Some(value) => {
            in_bounds("RESTART", value, &options)?;
            Ok(catalog.restarted_sequence(before, options, value))
        }
        None => {
            in_bounds("RESTART", before.last().0, &options)?;
            Ok(Arc::new(before.altered(before.name(), options)))
        }
    }
}

/// Name of the plan of a change of the column that owns a sequence.
const OWNERSHIP: &str = "SequenceOwnerExec";

/// A change of the column that owns a sequence.
struct Ownership {
    /// The sequence before the change; `None` for a new one.
    before: Option<Arc<Sequence>>,
    after: Arc<Sequence>,
    /// The role that owns a new sequence.
    role: Option<String>,
    column: String,
    /// False for OWNED BY NONE.
    is_owned: bool,
}

impl PropertyChange for Ownership {
    fn change(&self, table: &Table, properties: &mut Properties) -> Result<(), SqlError> {
        let (column, sequence) = (&self.column, self.after.name());
        if table.schema().field_with_name(column).is_err() {
            let table = table.name().to_owned();
            return Err(SqlError::MissingColumn { table, column: column.clone() });
        }
        let own = properties.of(column).and_then(|own| own.sequence.clone());
        match own {
            Some(own) if self.is_owned && own != sequence => {
                let other = format!("{}.{own}", table.schema_name());
                return Err(refused(
                    &format!("a second sequence of column {column}, which owns {other}"),
                    &format!("say ALTER SEQUENCE {other} OWNED BY NONE first"),
                ));
            }
            _ => {}
        }
        let sequence = self.is_owned.then(|| sequence.to_owned());
        properties.change(column, |own| own.sequence = sequence);
        Ok(())
    }

    fn beside(&self, draft: &mut Draft) -> Result<(), SqlError> {
        match &self.before {
            None => draft.put_sequence(&self.after, false, self.role.as_deref()).map(drop),
            Some(before) => draft.alter_sequence(before, &self.after),
        }
    }
}

/// Refuses a change of a sequence that belongs to a column.
fn refuse_owned(snapshot: &Snapshot, sequence: &Sequence, what: &str) -> Result<(), SqlError> {
    let Some((table, column)) = owner_of(snapshot, sequence) else { return Ok(()) };
    let (name, table) = (sequence.full_name(), table.full_name());
    Err(refused(
        &format!("{what} sequence {name}, which column {column} of table {table} owns"),
        &format!("say ALTER SEQUENCE {name} OWNED BY NONE first"),
    ))
}

/// Refuses a change of the name of a sequence that a default uses, or that a column owns.
fn refuse_used(snapshot: &Snapshot, sequence: &Sequence, what: &str) -> Result<(), SqlError> {
    match user_of(snapshot, sequence.schema_name(), sequence.name())? {
        None => refuse_owned(snapshot, sequence, what),
        Some((table, column)) => Err(refused(
            &format!(
                "{what} sequence {}, which the default of column {column} of table {table} uses",
                sequence.full_name()
            ),
            &format!("say ALTER TABLE {table} ALTER {column} DROP DEFAULT first, or drop it"),
        )),
    }
}
