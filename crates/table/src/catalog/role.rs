//! Roles: names that clients log in with, and that hold privileges.

use super::verifier::Verifier;

/// A role of the database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Role {
    /// True if clients may log in with it.
    pub can_login: bool,
    /// True if it has all privileges.
    pub is_superuser: bool,
    /// Verifier of its password; `None` for a role that cannot log in with a password.
    pub verifier: Option<Verifier>,
    /// The tenant that its sessions belong to.
    pub tenant: Option<String>,
}

impl Role {
    /// Returns true if it is a superuser that clients may log in with.
    #[must_use]
    pub fn is_administrator(&self) -> bool {
        self.can_login && self.is_superuser && self.verifier.is_some()
    }
}
