//! Statements that change privileges and owners.
//!
//! ```text
//! GRANT SELECT, INSERT ON orders, lines TO ada;
//! GRANT SELECT ON ALL TABLES IN SCHEMA sales TO PUBLIC;
//! GRANT USAGE, CREATE ON SCHEMA sales TO ada;
//! REVOKE ALL ON orders FROM ada;
//! ALTER TABLE orders OWNER TO ada;
//! ALTER SCHEMA sales OWNER TO ada;
//! ```

use std::fmt;

use datafusion::common::Result as DataFusionResult;
use datafusion::sql::parser::Statement;
use datafusion::sql::planner::{IdentNormalizer, object_name_to_table_reference};
use datafusion::sql::sqlparser::ast::{
    Action, AlterSchemaOperation, AlterTableOperation, GrantObjects, Grantee as AstGrantee,
    GranteeName, GranteesType, ObjectName, Owner, Privileges as AstPrivileges,
    Statement as SqlStatement,
};

use super::{Planned, Session};
use crate::access::{Access, Grantee, Privilege, Privileges};
use crate::catalog::{Draft, Snapshot};
use crate::error::SqlError;
use crate::transaction::Scope;

/// A statement that changes privileges or an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantStatement {
    /// The change.
    pub change: AccessChange,
    objects: Objects,
    text: String,
}

/// A change of privileges or of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessChange {
    /// Gives the grantees the privileges; `None` means all that the object has.
    Grant(Option<Privileges>, Vec<Grantee>),
    /// Takes the privileges from the grantees; `None` means all.
    Revoke(Option<Privileges>, Vec<Grantee>),
    /// Changes the owner.
    Owner(String),
}

/// The objects of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Objects {
    /// Tables and views.
    Tables(Vec<ObjectName>),
    /// All tables and views of schemas.
    TablesIn(Vec<ObjectName>),
    /// Schemas.
    Schemas(Vec<ObjectName>),
}

impl fmt::Display for GrantStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// Converts a statement that changes privileges or an owner; `None` for any other.
///
/// # Errors
/// [`SqlError::Refused`] for a change that is not supported.
pub(super) fn of(statement: &Statement) -> Result<Option<GrantStatement>, SqlError> {
    let Statement::Statement(statement) = statement else { return Ok(None) };
    let text = statement.to_string();
    let (change, objects) = match statement.as_ref() {
        SqlStatement::Grant(grant) => {
            if grant.with_grant_option {
                return Err(refused(&text, "owners and superusers give privileges; make them one"));
            }
            let (objects, privileges) = parts(&text, grant.objects.as_ref(), &grant.privileges)?;
            (AccessChange::Grant(privileges, grantees(&text, &grant.grantees)?), objects)
        }
        SqlStatement::Revoke(revoke) => {
            let (objects, privileges) = parts(&text, revoke.objects.as_ref(), &revoke.privileges)?;
            (AccessChange::Revoke(privileges, grantees(&text, &revoke.grantees)?), objects)
        }
        SqlStatement::AlterTable(alter) => {
            let [AlterTableOperation::OwnerTo { new_owner }] = alter.operations.as_slice() else {
                return Ok(None);
            };
            let objects = Objects::Tables(vec![alter.name.clone()]);
            (AccessChange::Owner(owner(&text, new_owner)?), objects)
        }
        SqlStatement::AlterSchema(alter) => {
            let [AlterSchemaOperation::OwnerTo { owner: new }] = alter.operations.as_slice() else {
                return Ok(None);
            };
            let objects = Objects::Schemas(vec![alter.name.clone()]);
            (AccessChange::Owner(owner(&text, new)?), objects)
        }
        _ => return Ok(None),
    };
    Ok(Some(GrantStatement { change, objects, text }))
}

fn owner(text: &str, owner: &Owner) -> Result<String, SqlError> {
    match owner {
        Owner::Ident(name) => Ok(IdentNormalizer::default().normalize(name.clone())),
        _ => Err(refused(text, "name the role")),
    }
}

/// The objects and the privileges of a GRANT or REVOKE; `None` means all privileges.
fn parts(
    text: &str,
    objects: Option<&GrantObjects>,
    privileges: &AstPrivileges,
) -> Result<(Objects, Option<Privileges>), SqlError> {
    let objects = match objects {
        Some(GrantObjects::Tables(names) | GrantObjects::Views(names)) => {
            Objects::Tables(names.clone())
        }
        Some(GrantObjects::AllTablesInSchema { schemas }) => Objects::TablesIn(schemas.clone()),
        Some(GrantObjects::Schemas(names)) => Objects::Schemas(names.clone()),
        None => return Err(refused(text, "roles are no members of roles; name ON and an object")),
        Some(_) => {
            let instead = "objects are tables and views, ALL TABLES IN SCHEMA s, and SCHEMA s";
            return Err(refused(text, instead));
        }
    };
    let possible = match objects {
        Objects::Schemas(_) => Privileges::of_schemas(),
        _ => Privileges::of_tables(),
    };
    let AstPrivileges::Actions(actions) = privileges else { return Ok((objects, None)) };
    let privilege = |action: &Action| {
        let privilege = match action {
            Action::Select { columns: None } => Some(Privilege::Select),
            Action::Insert { columns: None } => Some(Privilege::Insert),
            Action::Update { columns: None } => Some(Privilege::Update),
            Action::Delete => Some(Privilege::Delete),
            Action::Usage => Some(Privilege::Usage),
            Action::Create { obj_type: None } => Some(Privilege::Create),
            _ => None,
        };
        let privilege = privilege.filter(|privilege| possible.contains(*privilege));
        privilege.ok_or_else(|| {
            refused(text, &format!("{action} is none of the privileges here: {possible}"))
        })
    };
    let privileges = actions.iter().map(privilege).collect::<Result<_, _>>()?;
    Ok((objects, Some(privileges)))
}

fn grantees(text: &str, grantees: &[AstGrantee]) -> Result<Vec<Grantee>, SqlError> {
    let grantee = |grantee: &AstGrantee| match (&grantee.grantee_type, &grantee.name) {
        (GranteesType::Public, _) => Ok(Grantee::Public),
        (
            GranteesType::None | GranteesType::Role | GranteesType::User,
            Some(GranteeName::ObjectName(name)),
        ) => match name.0.as_slice() {
            [part] if part.as_ident().is_some() => {
                let name =
                    part.as_ident().cloned().map(|it| IdentNormalizer::default().normalize(it));
                let name = name.unwrap_or_default();
                Ok(if name == "public" { Grantee::Public } else { Grantee::Role(name) })
            }
            _ => Err(refused(text, "a role has a name of one part")),
        },
        _ => Err(refused(text, "a privilege is given to a role, or to PUBLIC")),
    };
    grantees.iter().map(grantee).collect()
}

fn refused(text: &str, instead: &str) -> SqlError {
    SqlError::Refused { what: text.to_owned(), instead: instead.to_owned() }
}

/// A table or view, or a schema.
struct Object {
    schema: String,
    name: Option<String>,
}

impl Session {
    /// Runs a change of privileges, which requires the owner or a superuser, or of an owner, which
    /// requires a superuser.
    pub(super) async fn change_access(
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
