//! Roles, their memberships and their privileges.

use terrace_sql::access::Privilege;

use super::oids;
use super::source::Source;
use super::value::Row;

/// The owner of objects that were created without a role, for example by `terrace sql`.
const OWNER: &str = "terrace";

/// A role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) oid: i64,
    pub(super) name: String,
    /// True if the role has all privileges.
    pub(super) is_superuser: bool,
    /// True if the role has the privileges of the roles that it is a member of.
    pub(super) inherits: bool,
    pub(super) can_log_in: bool,
}

/// Returns the roles of the database, with the owner of objects without a role first. In a database
/// without roles, that is the user of the connection.
pub(super) fn roles(source: &Source) -> Vec<Role> {
    let known = source.names.roles();
    let (name, can_log_in) = match known.is_empty() {
        true => (source.facts.user.clone(), true),
        false => (OWNER.to_owned(), false),
    };
    let owner = Role { oid: oids::OWNER, name, is_superuser: true, inherits: true, can_log_in };
    let known = known.into_iter().map(|(name, role)| Role {
        oid: oid(&name),
        is_superuser: role.is_superuser,
        inherits: role.inherits,
        can_log_in: role.can_login,
        name,
    });
    std::iter::once(owner).chain(known).collect()
}

fn oid(name: &str) -> i64 {
    oids::hashed(&["role", name])
}

/// Returns the OID of the owner of a table or view, or of the schema if `object` is `None`.
pub(super) fn owner_oid(source: &Source, schema: &str, object: Option<&str>) -> i64 {
    let access = source.names.access(schema, object);
    access.and_then(|access| access.owner).map_or(oids::OWNER, |owner| oid(&owner))
}

/// Returns the name of the owner of a table or view, or of the schema if `object` is `None`.
pub(super) fn owner(source: &Source, schema: &str, object: Option<&str>) -> Option<String> {
    let oid = owner_oid(source, schema, object);
    roles(source).into_iter().find(|role| role.oid == oid).map(|role| role.name)
}

/// True for a role with all privileges, and for a connection without a role (`name` is `None`).
pub(super) fn is_superuser(source: &Source, name: Option<&str>) -> bool {
    // A role that was created with the name of the owner comes after it in the list, and counts.
    name.is_none_or(|name| {
        let roles = roles(source);
        let role = roles.iter().rfind(|role| role.name == name);
        role.is_some_and(|role| role.is_superuser) || (role.is_none() && name == OWNER)
    })
}

/// True if a role has a privilege on a table or view, or on the schema if `object` is `None`.
pub(super) fn allows(
    source: &Source,
    role: Option<&str>,
    privilege: Privilege,
    schema: &str,
    object: Option<&str>,
) -> bool {
    if is_superuser(source, role) {
        return true;
    }
    let access = source.names.access(schema, object);
    role.zip(access).is_some_and(|(role, access)| {
        source.names.inherited(role).iter().any(|role| access.allows(role, privilege))
    })
}

/// True if a role has the privileges of another; `role` is `None` for a connection without a role.
pub(super) fn has_privileges_of(source: &Source, role: Option<&str>, other: &str) -> bool {
    is_superuser(source, role)
        || role.is_some_and(|role| source.names.inherited(role).contains(other))
}

/// True if a role is another or its member, directly or through others, or a superuser.
pub(super) fn is_member(source: &Source, role: Option<&str>, other: &str) -> bool {
    is_superuser(source, role)
        || role.is_some_and(|role| source.names.memberships(role).contains(other))
}

/// True if a role may change the members of another.
pub(super) fn administers(source: &Source, role: Option<&str>, other: &str) -> bool {
    is_superuser(source, role) || role.is_some_and(|role| source.names.administers(role, other))
}

/// True if the user of the connection may see and end statements of `user`. Those of a superuser
/// take a superuser.
pub(super) fn may_control(source: &Source, user: &str) -> bool {
    let role = source.facts.acting_role();
    let role = role.as_deref();
    role == Some(user)
        || is_superuser(source, role)
        || (has_privileges_of(source, role, user) && !is_superuser(source, Some(user)))
}

/// Returns the names of the roles whose privileges the user of the connection has.
pub(super) fn enabled(source: &Source) -> Vec<String> {
    match source.facts.acting_role().as_deref() {
        Some(role) if !is_superuser(source, Some(role)) => {
            source.names.inherited(role).into_iter().collect()
        }
        _ => roles(source).into_iter().map(|role| role.name).collect(),
    }
}

/// A direct membership of a role in another, by their names.
pub(super) struct Membership {
    pub(super) role: String,
    pub(super) member: String,
    /// True if the member has the privileges of the role.
    inherits: bool,
    pub(super) is_admin: bool,
    /// The OID of the role that has granted the membership.
    grantor: i64,
}

/// Returns all direct memberships.
pub(super) fn memberships(source: &Source) -> Vec<Membership> {
    let mut all = Vec::new();
    for (member, role) in source.names.roles() {
        all.extend(role.member_of.iter().map(|(of, membership)| Membership {
            role: of.clone(),
            member: member.clone(),
            inherits: role.inherits,
            is_admin: membership.is_admin,
            grantor: membership.grantor.as_deref().map_or(oids::OWNER, oid),
        }));
    }
    all
}

/// Returns the names of the role with the OID `of` and of all roles that it is a member of.
pub(super) fn membership_names(source: &Source, of: i64) -> Vec<String> {
    let role = roles(source).into_iter().find(|role| role.oid == of);
    role.map_or_else(Vec::new, |role| source.names.memberships(&role.name).into_iter().collect())
}

/// Returns a row of `pg_auth_members`. Every member may act as the role by SET ROLE.
pub(super) fn membership(membership: &Membership) -> Row {
    let Membership { role, member, inherits, is_admin, grantor } = membership;
    vec![
        ("oid", oids::hashed(&["membership", role, member]).into()),
        ("roleid", oid(role).into()),
        ("member", oid(member).into()),
        ("grantor", (*grantor).into()),
        ("admin_option", (*is_admin).into()),
        ("inherit_option", (*inherits).into()),
        ("set_option", true.into()),
    ]
}

/// Returns a row of `pg_roles`.
pub(super) fn role(role: &Role) -> Row {
    vec![
        ("oid", role.oid.into()),
        ("rolname", role.name.as_str().into()),
        ("rolsuper", role.is_superuser.into()),
        ("rolinherit", role.inherits.into()),
        ("rolcreaterole", role.is_superuser.into()),
        ("rolcreatedb", false.into()),
        ("rolcanlogin", role.can_log_in.into()),
        ("rolconnlimit", (-1).into()),
        ("rolpassword", "********".into()),
    ]
}

/// Returns a row of `pg_user`.
pub(super) fn user(role: &Role) -> Row {
    vec![
        ("usename", role.name.as_str().into()),
        ("usesysid", role.oid.into()),
        ("usecreatedb", false.into()),
        ("usesuper", role.is_superuser.into()),
        ("passwd", "********".into()),
    ]
}
