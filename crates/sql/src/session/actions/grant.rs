//! Changes of privileges and owners.

use datafusion::common::Result as DataFusionResult;
use datafusion::sql::planner::object_name_to_table_reference;
use datafusion::sql::sqlparser::ast::ObjectName;
use terrace_table::catalog::{Draft, Snapshot};
use terrace_table::error::SqlError;
use terrace_table::transaction::Scope;

use crate::access::{Access, Grantee, Privileges};
use crate::session::grant::{AccessChange, GrantStatement, Objects};
use crate::session::state::{Planned, Session};

/// A table or view, or a schema.
struct Object {
    schema: String,
    name: Option<String>,
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
        for object in &objects {
            let (schema, name) = (object.schema.as_str(), object.name.as_deref());
            self.rights(&snapshot).require_owner(&statement.text, schema, name)?;
        }
        refuse_missing_roles(&statement.change, &snapshot)?;
        let change = |draft: &mut Draft| {
            for Object { schema, name } in &objects {
                let known = draft.snapshot().access(schema, name.as_deref()).cloned();
                let is_schema = name.is_none();
                let access = changed(known.unwrap_or_default(), &statement.change, is_schema);
                draft.put_access(schema, name.as_deref(), access)?;
            }
            Ok(())
        };
        scope.define(self.engine.catalog(), change).await?;
        Ok(Planned::nothing())
    }

    fn objects_of(&self, objects: &Objects, snapshot: &Snapshot) -> Result<Vec<Object>, SqlError> {
        let (Objects::Tables(names) | Objects::TablesIn(names) | Objects::Schemas(names)) = objects;
        let mut found = Vec::new();
        for name in names {
            match objects {
                Objects::Tables(_) => found.push(self.object_of(name)?),
                Objects::Schemas(_) => found.push(Object { schema: schema(name)?, name: None }),
                Objects::TablesIn(_) => {
                    let schema = schema(name)?;
                    if !snapshot.has_schema(&schema) {
                        return Err(SqlError::MissingSchema { name: schema });
                    }
                    let tables = snapshot.table_names(&schema).into_iter();
                    let all = tables.chain(snapshot.view_names(&schema));
                    found.extend(
                        all.map(|name| Object { schema: schema.clone(), name: Some(name) }),
                    );
                }
            }
        }
        Ok(found)
    }

    fn object_of(&self, name: &ObjectName) -> Result<Object, SqlError> {
        let reference = object_name_to_table_reference(name.clone(), true)?;
        let own = self.own_name(&self.context.state(), reference)?;
        Ok(Object { schema: own.schema, name: Some(own.name) })
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

fn changed(mut access: Access, change: &AccessChange, is_schema: bool) -> Access {
    let all = if is_schema { Privileges::of_schemas() } else { Privileges::of_tables() };
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
