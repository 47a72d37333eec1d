//! Roles.

use super::value::Row;
use super::{Source, oids};

/// A role.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Role {
    pub(super) oid: i64,
    pub(super) name: String,
    /// It may do everything.
    pub(super) is_owner: bool,
    pub(super) can_log_in: bool,
}

/// The roles of the database: the user of the connection, who owns it.
pub(super) fn roles(source: &Source) -> Vec<Role> {
    let name = source.facts.user.clone();
    vec![Role { oid: oids::OWNER, name, is_owner: true, can_log_in: true }]
}

/// A row of `pg_roles`.
pub(super) fn role(role: &Role) -> Row {
    vec![
        ("oid", role.oid.into()),
        ("rolname", role.name.as_str().into()),
        ("rolsuper", role.is_owner.into()),
        ("rolinherit", true.into()),
        ("rolcreaterole", role.is_owner.into()),
        ("rolcreatedb", false.into()),
        ("rolcanlogin", role.can_log_in.into()),
        ("rolconnlimit", (-1).into()),
        ("rolpassword", "********".into()),
    ]
}

/// A row of `pg_user`.
pub(super) fn user(role: &Role) -> Row {
    vec![
        ("usename", role.name.as_str().into()),
        ("usesysid", role.oid.into()),
        ("usecreatedb", false.into()),
        ("usesuper", role.is_owner.into()),
        ("passwd", "********".into()),
    ]
}
