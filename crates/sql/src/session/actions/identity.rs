//! Running of ALTER TABLE of the identity of a column.

use std::sync::Arc;

use datafusion::common::plan_datafusion_err;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::ObjectName;
use terrace_table::catalog::{Draft, Identity, Properties, Sequence, Snapshot};
use terrace_table::error::SqlError;
use terrace_table::table::Table;
use terrace_table::transaction::Scope;

use super::property_change::{PropertyChange, planned};
use super::sequence::altered;
use crate::session::define::Name;
use crate::session::identity::{IdentityChange, IdentityStatement};
use crate::session::notice::Notice;
use crate::session::object_name::refuse_hiding;
use crate::session::owned_sequences::{free_name, number_type};
use crate::session::sequence_calls::next_of;
use crate::session::sequence_changes::SequenceChanges;
use crate::session::state::{Planned, Session};

impl Session {
    /// Plans an ALTER TABLE of the identity of a column.
    ///
    /// # Errors
    /// [`SqlError::Missing`], [`SqlError::MissingColumn`], [`SqlError::Denied`],
    /// [`SqlError::Exists`]; a column that has an identity, a default or nulls already, or no
    /// identity; options that contradict each other; errors of the catalog.
    pub(in crate::session) fn change_identity(
        &self,
        statement: IdentityStatement,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        self.refuse_change(scope, "a definition")?;
        let (state, snapshot) = self.state_in(scope)?;
        let IdentityStatement { if_exists, table, column, change } = statement;
        let reference = object_name_to_table_reference(table, true)?;
        let Name { schema, name } = self.own_name(&state, reference)?;
        let Some((table, _)) = snapshot.table(&schema, &name) else {
            if if_exists && !snapshot.has_object(&schema, &name) {
                self.notice(Notice::missing_relation(&snapshot, "relation", &schema, &name));
                return Ok(Planned::nothing());
            }
            return Err(SqlError::Missing { name: format!("{schema}.{name}") });
        };
        self.rights(&snapshot).require_owner("altering it", &schema, Some(&name))?;
        let catalog = Arc::clone(self.engine.catalog());
        let name = "IdentityExec";
        match change {
            IdentityChange::Add { identity, sequence, options } => {
                let sequence = self.made_sequence(&snapshot, &table, &column, sequence, options)?;
                let owner = snapshot.access(&schema, Some(table.name()));
                let owner = owner.and_then(|access| access.owner.clone());
                let added = Added { column, identity, sequence, owner };
                added.change(&table, &mut table.properties().clone())?;
                Ok(planned(name, catalog, &table, added))
            }
            IdentityChange::Set { identity, options } => {
                let before = sequence_of(&snapshot, &table, &column)?;
                let after = match options == SequenceChanges::default() {
                    true => Arc::clone(&before),
                    false => altered(&catalog, &before, &options)?,
                };
                Ok(planned(name, catalog, &table, Set { column, identity, before, after }))
            }
            IdentityChange::Drop { if_exists } => {
                let is_there = table.properties().identity(&column).is_some();
                if if_exists && !is_there && table.schema().field_with_name(&column).is_ok() {
                    let what = no_identity(&column, table.name());
                    self.notice(Notice::skipped(&what));
                    return Ok(Planned::nothing());
                }
                let sequence = sequence_of(&snapshot, &table, &column)?;
                Ok(planned(name, catalog, &table, Dropped { column, sequence }))
            }
        }
    }

    /// The sequence for a new identity, which no commit names yet.
    fn made_sequence(
        &self,
        snapshot: &Snapshot,
        table: &Table,
        column: &str,
        named: Option<ObjectName>,
        options: SequenceChanges,
    ) -> Result<Arc<Sequence>, SqlError> {
        let field = table.schema().field_with_name(column);
        let field = field.map_err(|_| missing_column(table, column))?;
        let data_type = number_type(column, field.data_type())?;
        if options.owner().is_some() {
            let text = "OWNED BY is not an option of an identity: its column owns the sequence";
            return Err(plan_datafusion_err!("{text}").into());
        }
        let options = options.with_type(data_type).created()?;
        let schema = table.schema_name();
        let name = match named {
            None => {
                let is_taken = |name: &str| snapshot.has_object(schema, name);
                free_name(&format!("{}_{column}_seq", table.name()), is_taken)
            }
            Some(name) => {
                let has_schema = name.0.len() > 1;
                let reference = object_name_to_table_reference(name, true)?;
                let own = reference.table().to_owned();
                if has_schema && reference.schema().is_some_and(|name| name != schema) {
                    let text = "the sequence of an identity must be in the schema of its table";
                    return Err(plan_datafusion_err!("{text}: {schema}.{own}").into());
                }
                refuse_hiding(&own)?;
                if snapshot.has_object(schema, &own) {
                    return Err(SqlError::Exists { name: format!("{schema}.{own}") });
                }
                own
            }
        };
        Ok(self.engine.catalog().unnamed_sequence(schema, &name, options))
    }
}

/// The sequence of the identity of a column.
fn sequence_of(
    snapshot: &Snapshot,
    table: &Table,
    column: &str,
) -> Result<Arc<Sequence>, SqlError> {
    if table.schema().field_with_name(column).is_err() {
        return Err(missing_column(table, column));
    }
    let own = table.properties().of(column).filter(|own| own.identity.is_some());
    let name = own.and_then(|own| own.sequence.as_deref());
    let found = name.and_then(|name| snapshot.sequence(table.schema_name(), name));
    found.ok_or_else(|| plan_datafusion_err!("{}", no_identity(column, table.name())).into())
}

fn missing_column(table: &Table, column: &str) -> SqlError {
    SqlError::MissingColumn { table: table.name().to_owned(), column: column.to_owned() }
}

/// The message for a column without an identity, as PostgreSQL has it.
fn no_identity(column: &str, table: &str) -> String {
    format!("column \"{column}\" of relation \"{table}\" is not an identity column")
}

/// ADD GENERATED.
struct Added {
    column: String,
    identity: Identity,
    sequence: Arc<Sequence>,
    /// The owner of the table.
    owner: Option<String>,
}

impl PropertyChange for Added {
    fn change(&self, table: &Table, properties: &mut Properties) -> Result<(), SqlError> {
        let column = &self.column;
        let field = table.schema().field_with_name(column);
        let field = field.map_err(|_| missing_column(table, column))?;
        let own = properties.of(column);
        let of = format!("column \"{column}\" of relation \"{}\"", table.name());
        let fault = if own.is_some_and(|own| own.identity.is_some()) {
            Some("is already an identity column")
        } else if own.is_some_and(|own| own.default.is_some() || own.generated.is_some()) {
            Some("already has a default value")
        } else if own.is_some_and(|own| own.sequence.is_some()) {
            Some("already owns a sequence: say ALTER SEQUENCE ... OWNED BY NONE first")
        } else if field.is_nullable() {
            Some("must be declared NOT NULL before identity can be added")
        } else {
            None
        };
        if let Some(fault) = fault {
            return Err(plan_datafusion_err!("{of} {fault}").into());
        }
        properties.change(column, |own| {
            own.default = Some(next_of(self.sequence.schema_name(), self.sequence.name()));
            own.identity = Some(self.identity);
            own.sequence = Some(self.sequence.name().to_owned());
        });
        Ok(())
    }

    fn beside(&self, draft: &mut Draft) -> Result<(), SqlError> {
        draft.put_sequence(&self.sequence, false, self.owner.as_deref()).map(drop)
    }
}

/// SET and RESTART.
struct Set {
    column: String,
    identity: Option<Identity>,
    before: Arc<Sequence>,
    after: Arc<Sequence>,
}

impl PropertyChange for Set {
    fn change(&self, table: &Table, properties: &mut Properties) -> Result<(), SqlError> {
        if properties.identity(&self.column).is_none() {
            return Err(plan_datafusion_err!("{}", no_identity(&self.column, table.name())).into());
        }
        if let Some(identity) = self.identity {
            properties.change(&self.column, |own| own.identity = Some(identity));
        }
        Ok(())
    }

    fn beside(&self, draft: &mut Draft) -> Result<(), SqlError> {
        match Arc::ptr_eq(&self.before, &self.after) {
            true => Ok(()),
            false => draft.alter_sequence(&self.before, &self.after),
        }
    }
}

/// DROP IDENTITY.
struct Dropped {
    column: String,
    sequence: Arc<Sequence>,
}

impl PropertyChange for Dropped {
    fn change(&self, table: &Table, properties: &mut Properties) -> Result<(), SqlError> {
        if properties.identity(&self.column).is_none() {
            return Err(plan_datafusion_err!("{}", no_identity(&self.column, table.name())).into());
        }
        properties.change(&self.column, |own| {
            own.default = None;
            own.identity = None;
            own.sequence = None;
        });
        Ok(())
    }

    fn beside(&self, draft: &mut Draft) -> Result<(), SqlError> {
        draft.drop_sequence(self.sequence.schema_name(), self.sequence.name()).map(drop)
    }
}
