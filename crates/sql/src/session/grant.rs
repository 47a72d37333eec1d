//! Statements that change privileges and owners.
//!
//! ```text
//! GRANT SELECT, INSERT ON orders, lines TO ada;
//! GRANT SELECT ON ALL TABLES IN SCHEMA sales TO PUBLIC;
//! GRANT USAGE, CREATE ON SCHEMA sales TO ada;
//! GRANT USAGE ON SEQUENCE numbers TO ada;
//! REVOKE ALL ON orders FROM ada GRANTED BY CURRENT_USER;
//! ALTER TABLE orders OWNER TO ada;
//! ALTER SCHEMA sales OWNER TO ada;
//! ```

use std::fmt;

use datafusion::sql::parser::Statement;
use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::{
    Action, AlterSchemaOperation, AlterTableOperation, GrantObjects, Grantee as AstGrantee,
    GranteeName, GranteesType, ObjectName, Owner, Privileges as AstPrivileges,
    Statement as SqlStatement,
};
use terrace_table::error::SqlError;

use super::role::Grantor;
use crate::access::{Grantee, Privilege, Privileges};

/// A statement that changes privileges or an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GrantStatement {
    /// The change of privileges or of the owner.
    pub change: AccessChange,
    pub(super) objects: Objects,
    /// The role of GRANTED BY, which has to be the current one.
    pub(super) grantor: Option<Grantor>,
    /// True for ALTER TABLE IF EXISTS: a table that does not exist is a notice.
    pub(super) if_exists: bool,
    /// The text of the statement, for errors.
    pub(super) text: String,
}

/// A change of privileges or of an owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AccessChange {
    /// Grants privileges to the grantees; `None` stands for ALL, those that objects of this kind
    /// have.
    Grant(Option<Privileges>, Vec<Grantee>),
    /// Revokes privileges from the grantees; `None` stands for ALL.
    Revoke(Option<Privileges>, Vec<Grantee>),
    /// Makes the role of this name the owner.
    Owner(String),
}

/// The objects of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Objects {
    /// Tables and views.
    Tables(Vec<ObjectName>),
    /// All tables and views of schemas.
    TablesIn(Vec<ObjectName>),
    /// Sequences.
    Sequences(Vec<ObjectName>),
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
    let (mut grantor, mut if_exists) = (None, false);
    let (change, objects) = match statement.as_ref() {
        SqlStatement::Grant(grant) => {
            if grant.with_grant_option {
                return Err(refused(&text, "owners and superusers give privileges; make them one"));
            }
            if grant.as_grantor.is_some() || grant.current_grants.is_some() {
                return Err(refused(&text, "name the grantor by GRANTED BY, or leave it out"));
            }
            grantor = grant.granted_by.clone().map(Grantor::of);
            let (objects, privileges) = parts(&text, grant.objects.as_ref(), &grant.privileges)?;
            (AccessChange::Grant(privileges, grantees(&text, &grant.grantees)?), objects)
        }
        SqlStatement::Revoke(revoke) => {
            grantor = revoke.granted_by.clone().map(Grantor::of);
            let (objects, privileges) = parts(&text, revoke.objects.as_ref(), &revoke.privileges)?;
            (AccessChange::Revoke(privileges, grantees(&text, &revoke.grantees)?), objects)
        }
        SqlStatement::AlterTable(alter) => {
            let [AlterTableOperation::OwnerTo { new_owner }] = alter.operations.as_slice() else {
                return Ok(None);
            };
            if_exists = alter.if_exists;
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
    Ok(Some(GrantStatement { change, objects, grantor, if_exists, text }))
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
        Some(GrantObjects::Sequences(names)) => Objects::Sequences(names.clone()),
        Some(GrantObjects::Schemas(names)) => Objects::Schemas(names.clone()),
        None => return Err(refused(text, "name ON and an object")),
        Some(_) => {
            let instead = "objects are tables and views, ALL TABLES IN SCHEMA s, SEQUENCE s, and \
                SCHEMA s";
            return Err(refused(text, instead));
        }
    };
    let possible = match objects {
        Objects::Schemas(_) => Privileges::of_schemas(),
        Objects::Sequences(_) => Privileges::of_sequences(),
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
