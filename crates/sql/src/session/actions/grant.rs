//! Changes of privileges and owners.

use datafusion::common::Result as DataFusionResult;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::ObjectName;
use terrace_table::catalog::{Draft, Snapshot};
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use crate::access::{Access, Grantee, Privileges};
use crate::session::grant::{AccessChange, GrantStatement, Objects};
use crate::session::notice::Notice;
use crate::session::refusal::refused;
use crate::session::role::Grantor;
use crate::session::state::{Planned, Session};

/// An object whose privileges or owner change.
struct Object {
    schema: String,
    /// A table, view or sequence; `None` for the schema itself.
    name: Option<String>,
    /// The privileges that ALL stands for on an object of its kind.
    all: Privileges,
}

impl Session {
    /// Runs a change of privileges, which requires the owner or a superuser, or of an owner, which
    /// requires a superuser.
    pub(in crate::session) async fn change_access(
        &self,
        statement: GrantStatement,
        scope: &Scope,
    ) -> Result<Planned, SqlError> {
        self.refuse_change(scope, "a change of privileges")?;
        let snapshot = scope.snapshot(self.engine.catalog())?;
        // A new owner's rights would apply to everything that a view reads.
        if let AccessChange::Owner(_) = statement.change {
            self.rights(&snapshot).require_superuser(&statement.text)?;
        }
        let objects = self.objects_of(&statement.objects, &snapshot)?;
        if let (true, [Object { schema, name: Some(name), .. }]) =
            (statement.if_exists, objects.as_slice())
            && !snapshot.has_object(schema, name)
        {
            self.notice(Notice::missing_relation(&snapshot, "relation", schema, name));
            return Ok(Planned::nothing());
        }
        for object in &objects {
            let (schema, name) = (object.schema.as_str(), object.name.as_deref());
            self.rights(&snapshot).require_owner(&statement.text, schema, name)?;
        }
        refuse_missing_roles(&statement.change, &snapshot)?;
        self.refuse_other_grantor(statement.grantor.as_ref(), &snapshot)?;
        let change = |draft: &mut Draft| {
            for Object { schema, name, all } in &objects {
                let known = draft.snapshot().access(schema, name.as_deref()).cloned();
                let access = changed(known.unwrap_or_default(), &statement.change, *all);
                draft.put_access(schema, name.as_deref(), access)?;
            }
            Ok(())
        };
        scope.define(self.engine.catalog(), change).await?;
        Ok(Planned::nothing())
    }

    /// Refuses GRANTED BY of another role than the current one, as PostgreSQL does.
    fn refuse_other_grantor(
        &self,
        grantor: Option<&Grantor>,
        snapshot: &Snapshot,
    ) -> Result<(), SqlError> {
        let role = self.role();
        let is_current = match grantor {
            None | Some(Grantor::Current) => true,
            Some(Grantor::Session) => self.login_role == role,
            Some(Grantor::Role(name)) if snapshot.role(name).is_none() => {
                return Err(SqlError::MissingRole { name: name.clone() });
            }
            Some(Grantor::Role(name)) => role.as_deref() == Some(name.as_str()),
        };
        match is_current {
            true => Ok(()),
            false => Err(refused(
                "a grant of privileges by another role than the current one",
                "grantor must be current user: leave GRANTED BY out, or say SET ROLE first",
            )),
        }
    }

    fn objects_of(&self, objects: &Objects, snapshot: &Snapshot) -> Result<Vec<Object>, SqlError> {
        let (Objects::Tables(names)
        | Objects::TablesIn(names)
        | Objects::Sequences(names)
        | Objects::Schemas(names)) = objects;
        let (of_tables, of_schemas) = (Privileges::of_tables(), Privileges::of_schemas());
        let mut found = Vec::new();
        for name in names {
            match objects {
                Objects::Tables(_) => found.push(self.object_of(name, snapshot)?),
                Objects::Sequences(_) => {
                    let object = self.object_of(name, snapshot)?;
                    let is_sequence = object.all == Privileges::of_sequences();
                    found.extend(is_sequence.then_some(object));
                    if !is_sequence {
                        let what = format!("GRANT or REVOKE ON SEQUENCE {name}, which is none");
                        return Err(refused(&what, "name a sequence, or leave SEQUENCE out"));
                    }
                }
                Objects::Schemas(_) => {
                    found.push(Object { schema: schema(name)?, name: None, all: of_schemas });
                }
                Objects::TablesIn(_) => {
                    let schema = schema(name)?;
                    if !snapshot.has_schema(&schema) {
                        return Err(SqlError::MissingSchema { name: schema });
                    }
                    let tables = snapshot.table_names(&schema).into_iter();
                    let all = tables.chain(snapshot.view_names(&schema));
                    found.extend(all.map(|name| {
                        let (schema, name) = (schema.clone(), Some(name));
                        Object { schema, name, all: of_tables }
                    }));
                }
            }
        }
        Ok(found)
    }

    fn object_of(&self, name: &ObjectName, snapshot: &Snapshot) -> Result<Object, SqlError> {
        let reference = object_name_to_table_reference(name.clone(), true)?;
        let own = self.own_name(&self.context.state(), reference)?;
        let all = match snapshot.sequence(&own.schema, &own.name) {
            Some(_) => Privileges::of_sequences(),
            None => Privileges::of_tables(),
        };
        Ok(Object { schema: own.schema, name: Some(own.name), all })
    }
}

/// The name of a schema.
fn schema(name: &ObjectName) -> DataFusionResult<String> {
    let reference = object_name_to_table_reference(name.clone(), true)?;
    Ok(reference.table().to_owned())
}

fn refuse_missing_roles(change: &AccessChange, snapshot: &Snapshot) -> Result<(), SqlError> {
    let roles: Vec<String> = match change {
        AccessChange::Owner(role) => vec![role.clone()],
        AccessChange::Grant(_, grantees) | AccessChange::Revoke(_, grantees) => {
            let role = |grantee: &Grantee| match grantee {
                Grantee::Role(name) => Some(name.clone()),
                Grantee::Public => None,
            };
            grantees.iter().filter_map(role).collect()
        }
    };
    match roles.into_iter().find(|role| snapshot.role(role).is_none()) {
        Some(name) => Err(SqlError::MissingRole { name }),
        None => Ok(()),
    }
}

fn changed(mut access: Access, change: &AccessChange, all: Privileges) -> Access {
    match change {
        AccessChange::Owner(role) => access.owner = Some(role.clone()),
        AccessChange::Grant(privileges, grantees) => {
            for grantee in grantees {
                access.grant(grantee.clone(), privileges.unwrap_or(all));
            }
        }
        AccessChange::Revoke(privileges, grantees) => {
            for grantee in grantees {
                access.revoke(grantee, privileges.unwrap_or(all));
            }
        }
    }
    access
}
