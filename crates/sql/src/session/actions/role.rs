//! Changes of roles.

use terrace_table::catalog::{Membership, Role, Snapshot};
use terrace_table::error::SqlError;

use crate::access::Rights;
use crate::session::notice::Notice;
use crate::session::role::{Grantor, RoleOption, RoleStatement};
use crate::session::state::{Planned, Session};

/// Returns `role` with `options` applied. `grantor` is recorded as the grantor of its new
/// memberships.
fn with_options(mut role: Role, options: Vec<RoleOption>, grantor: Option<&str>) -> Role {
    for option in options {
        match option {
            RoleOption::Login(can) => role.can_login = can,
            RoleOption::Superuser(is) => role.is_superuser = is,
            RoleOption::Password(verifier) => role.verifier = verifier,
            RoleOption::Tenant(tenant) => role.tenant = tenant,
            RoleOption::Inherit(does) => role.inherits = does,
            RoleOption::InRoles(roles) => {
                role.member_of.extend(roles.into_iter().map(|of| (of, granted(false, grantor))));
            }
            // They are memberships of other roles.
            RoleOption::Members(_) | RoleOption::Admins(_) => {}
        }
    }
    role
}

/// The members that the ROLE and ADMIN options give to a new role, with their memberships.
fn members_of(options: &[RoleOption], grantor: Option<&str>) -> Vec<(String, Membership)> {
    let mut all = Vec::new();
    for option in options {
        let (members, is_admin) = match option {
            RoleOption::Members(members) => (members, false),
            RoleOption::Admins(members) => (members, true),
            _ => continue,
        };
        all.extend(members.iter().map(|member| (member.clone(), granted(is_admin, grantor))));
    }
    all
}

fn granted(is_admin: bool, grantor: Option<&str>) -> Membership {
    Membership { is_admin, grantor: grantor.map(str::to_owned) }
}

impl Session {
    /// The rights of the session's role under a snapshot.
    pub(in crate::session) fn rights<'a>(&self, snapshot: &'a Snapshot) -> Rights<'a> {
        Rights::new(snapshot, self.role())
    }

    /// Runs a statement about roles. A role may change its own password, and the members of roles
    /// on which it has the ADMIN OPTION; everything else requires a superuser.
    pub(in crate::session) async fn act_on_roles(
        &self,
        statement: RoleStatement,
    ) -> Result<Planned, SqlError> {
        let (catalog, role) = (self.engine.catalog(), self.role());
        let grantor = role.as_deref();
        self.check_role_statement(&statement)?;
        match statement {
            RoleStatement::Create { name, keep, options } => {
                refuse_reserved(&name)?;
                let members = members_of(&options, grantor);
                let role = with_options(Role::default(), options, grantor);
                if !catalog.create_role(&name, role, members, keep).await? {
                    self.notice(Notice::exists("42710", format_args!("role \"{name}\"")));
                }
            }
            RoleStatement::Alter { name, options } => {
                let change = |role| Ok(with_options(role, options, None));
                catalog.alter_role(&name, change).await?;
            }
            RoleStatement::Grant { roles, members, is_admin, grantor } => {
                let before = catalog.snapshot();
                let grantor = self.grantor(grantor.as_ref(), &before)?;
                let membership = granted(is_admin, grantor.as_deref());
                catalog.grant_roles(roles.clone(), members.clone(), membership).await?;
                for (member, role) in pairs(&members, &roles) {
                    let known = membership_of(&before, member, role);
                    if known.is_some_and(|known| known.is_admin || !is_admin) {
                        self.notice(Notice::is_member(member, role));
                    }
                }
            }
            RoleStatement::Revoke { roles, members, is_admin_option, grantor } => {
                let before = catalog.snapshot();
                // Of the memberships of a role in another there is one, whichever role granted it.
                if let Some(Grantor::Role(name)) = &grantor {
                    require_role(&before, name)?;
                }
                catalog.revoke_roles(roles.clone(), members.clone(), is_admin_option).await?;
                for (member, role) in pairs(&members, &roles) {
                    if membership_of(&before, member, role).is_none() {
                        self.notice(Notice::is_no_member(member, role));
                    }
                }
            }
            RoleStatement::Drop { names, if_exists } => {
                let is_own = |name: &&String| {
                    [&role, &self.login_role]
                        .iter()
                        .any(|own| own.as_deref() == Some(name.as_str()))
                };
                if let Some(name) = names.iter().find(is_own) {
                    return Err(SqlError::Refused {
                        what: format!("dropping role {name}, which this session has"),
                        instead: "log in with another superuser".to_owned(),
                    });
                }
                for name in catalog.drop_roles(names, if_exists).await? {
                    self.notice(Notice::missing(format_args!("role \"{name}\"")));
                }
            }
        }
        Ok(Planned::nothing())
    }

    /// The role that grants a membership; `None` for a session without a role.
    ///
    /// # Errors
    /// [`SqlError::MissingRole`]; [`SqlError::Denied`] for another role, unless a superuser names
    /// it.
    fn grantor(
        &self,
        named: Option<&Grantor>,
        snapshot: &Snapshot,
    ) -> Result<Option<String>, SqlError> {
        let own = self.role().as_deref().map(str::to_owned);
        match named {
            None | Some(Grantor::Current) => Ok(own),
            Some(Grantor::Session) => Ok(self.login_role.as_deref().map(str::to_owned)),
            Some(Grantor::Role(name)) => {
                require_role(snapshot, name)?;
                if own.as_ref() != Some(name) {
                    let rights = self.rights(snapshot);
                    rights.require_superuser("must be superuser to set grantor: GRANTED BY")?;
                }
                Ok(Some(name.clone()))
            }
        }
    }

    /// Refuses a statement about roles that the session's role may not run.
    fn check_role_statement(&self, statement: &RoleStatement) -> Result<(), SqlError> {
        let snapshot = self.engine.catalog().snapshot();
        let rights = self.rights(&snapshot);
        match statement {
            RoleStatement::Grant { roles, members, .. }
            | RoleStatement::Revoke { roles, members, .. } => {
                refuse_public(roles.iter().chain(members), statement)?;
                roles.iter().try_for_each(|role| rights.require_admin(role))
            }
            RoleStatement::Alter { name, options }
                if Some(name.as_str()) == self.role().as_deref() && options.iter().all(is_own) =>
            {
                Ok(())
            }
            _ => rights.require_superuser("a statement about roles"),
        }
    }
}

/// Requires a role to exist.
fn require_role(snapshot: &Snapshot, name: &str) -> Result<(), SqlError> {
    match snapshot.role(name) {
        Some(_) => Ok(()),
        None => Err(SqlError::MissingRole { name: name.to_owned() }),
    }
}

/// Each of the members, with each of the roles.
fn pairs<'a>(
    members: &'a [String],
    roles: &'a [String],
) -> impl Iterator<Item = (&'a str, &'a str)> {
    let of = |role: &'a String| members.iter().map(move |member| (member.as_str(), role.as_str()));
    roles.iter().flat_map(of)
}

/// The direct membership of a role in another.
fn membership_of(snapshot: &Snapshot, member: &str, role: &str) -> Option<Membership> {
    snapshot.role(member)?.member_of.get(role).cloned()
}

/// True for an option that a role may set for itself.
fn is_own(option: &RoleOption) -> bool {
    matches!(option, RoleOption::Password(Some(_)))
}

/// Refuses PUBLIC, which is every role, as a role with members or as a member.
fn refuse_public<'a>(
    mut names: impl Iterator<Item = &'a String>,
    statement: &RoleStatement,
) -> Result<(), SqlError> {
    match names.any(|name| name == "public") {
        false => Ok(()),
        true => Err(SqlError::Refused {
            what: statement.to_string(),
            instead: "PUBLIC is every role, and has no members; name roles".to_owned(),
        }),
    }
}

/// Refuses the empty name, and `public` and `none`, which have another meaning in GRANT and SET
/// ROLE.
fn refuse_reserved(name: &str) -> Result<(), SqlError> {
    match name {
        "public" | "none" | "" => Err(SqlError::Refused {
            what: format!("a role of the name {name:?}"),
            instead: "it is reserved; name it otherwise".to_owned(),
        }),
        _ => Ok(()),
    }
}
