//! Roles: names that clients log in with, and that hold privileges.

use std::collections::BTreeMap;

use super::verifier::Verifier;

/// A role of the database: a user, a group of users, or both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Role {
    /// True if clients may log in with it.
    pub can_login: bool,
    /// True if it has all privileges.
    pub is_superuser: bool,
    /// True if it has the privileges of the roles that it is a member of.
    pub inherits: bool,
    /// Verifier of its password; `None` for a role that cannot log in with a password.
    pub verifier: Option<Verifier>,
    /// The tenant that its sessions belong to.
    pub tenant: Option<String>,
    /// The roles that it is a direct member of, by name.
    pub member_of: BTreeMap<String, Membership>,
}

/// Membership of a role in another role.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Membership {
    /// True if the member may grant and revoke memberships in the role (ADMIN OPTION).
    pub is_admin: bool,
    /// The role that has granted it; `None` if a session without a role has, or if that role has
    /// been dropped.
    pub grantor: Option<String>,
}

impl Default for Role {
    fn default() -> Self {
        Self {
            can_login: false,
            is_superuser: false,
            inherits: true,
            verifier: None,
            tenant: None,
            member_of: BTreeMap::new(),
        }
    }
}

impl Role {
    /// Returns true if it is a superuser that clients may log in with.
    #[must_use]
    pub fn is_administrator(&self) -> bool {
        self.can_login && self.is_superuser && self.verifier.is_some()
    }
}
