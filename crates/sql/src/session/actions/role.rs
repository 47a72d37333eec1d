//! Changes of roles.

use terrace_table::catalog::{Role, Snapshot};
use terrace_table::error::SqlError;

use crate::access::Rights;
use crate::session::role::{RoleOption, RoleStatement};
use crate::session::state::{Planned, Session};

fn with_options(mut role: Role, options: Vec<RoleOption>) -> Role {
    for option in options {
        match option {
            RoleOption::Login(can) => role.can_login = can,
            RoleOption::Superuser(is) => role.is_superuser = is,
            RoleOption::Password(verifier) => role.verifier = verifier,
            RoleOption::Tenant(tenant) => role.tenant = tenant,
        }
    }
    role
}

impl Session {
    /// The rights of the session's role under a snapshot.
    pub(in crate::session) fn rights<'a>(&'a self, snapshot: &'a Snapshot) -> Rights<'a> {
        Rights::new(snapshot, self.role())
    }

    /// Runs a statement about roles. A role may change its own password; everything else requires a
    /// superuser.
    pub(in crate::session) async fn act_on_roles(
        &self,
        statement: RoleStatement,
    ) -> Result<Planned, SqlError> {
        let catalog = self.engine.catalog();
        let snapshot = catalog.snapshot();
        let is_own = match &statement {
            RoleStatement::Alter { name, options } => {
                let own = |option: &RoleOption| matches!(option, RoleOption::Password(Some(_)));
                Some(name.as_str()) == self.role() && options.iter().all(own)
            }
            _ => false,
        };
        if !is_own {
            self.rights(&snapshot).require_superuser("a statement about roles")?;
        }
        match statement {
            RoleStatement::Create { name, keep, options } => {
                refuse_reserved(&name)?;
                let role = with_options(Role::default(), options);
                catalog.create_role(&name, role, keep).await?;
            }
            RoleStatement::Alter { name, options } => {
                let change = |role| Ok(with_options(role, options));
                catalog.alter_role(&name, change).await?;
            }
            RoleStatement::Drop { names, if_exists } => {
                for name in names {
                    if self.role() == Some(name.as_str()) {
                        return Err(SqlError::Refused {
                            what: format!("dropping role {name} by itself"),
                            instead: "log in with another superuser".to_owned(),
                        });
                    }
                    if !catalog.drop_role(&name).await? && !if_exists {
                        return Err(SqlError::MissingRole { name });
                    }
                }
            }
        }
        Ok(Planned::nothing())
    }
}

/// Refuses names that have another meaning in GRANT, and names reserved by PostgreSQL.
fn refuse_reserved(name: &str) -> Result<(), SqlError> {
    match name {
        "public" | "none" | "" => Err(SqlError::Refused {
            what: format!("a role of the name {name:?}"),
            instead: "it is reserved; name it otherwise".to_owned(),
        }),
        _ => Ok(()),
    }
}
