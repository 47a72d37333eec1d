//! Owners and grants of schemas, tables, views and sequences.

use std::collections::BTreeMap;
use std::fmt;

/// A privilege on a schema, table, view or sequence, as in PostgreSQL.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Privilege {
    /// Read a table or view, or the last number of a sequence.
    Select,
    /// Add rows to a table.
    Insert,
    /// Update rows of a table, or take and set numbers of a sequence.
    Update,
    /// Delete rows of a table.
    Delete,
    /// Look up the objects of a schema, or take numbers of a sequence.
    Usage,
    /// Create objects in a schema.
    Create,
}

impl Privilege {
    /// All privileges.
    pub const ALL: [Self; 6] =
        [Self::Select, Self::Insert, Self::Update, Self::Delete, Self::Usage, Self::Create];

    /// Returns the keyword of GRANT and REVOKE.
    #[must_use]
    pub fn keyword(self) -> &'static str {
        match self {
            Self::Select => "SELECT",
            Self::Insert => "INSERT",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Usage => "USAGE",
            Self::Create => "CREATE",
        }
    }

    fn bit(self) -> u8 {
        match self {
            Self::Select => 1,
            Self::Insert => 2,
            Self::Update => 4,
            Self::Delete => 8,
            Self::Usage => 16,
            Self::Create => 32,
        }
    }
}

/// A set of privileges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Privileges(u8);

impl Privileges {
    /// All privileges on a table or view.
    #[must_use]
    pub fn of_tables() -> Self {
        use Privilege::{Delete, Insert, Select, Update};
        [Select, Insert, Update, Delete].into_iter().collect()
    }

    /// All privileges on a schema.
    #[must_use]
    pub fn of_schemas() -> Self {
        [Privilege::Usage, Privilege::Create].into_iter().collect()
    }

    /// All privileges on a sequence.
    #[must_use]
    pub fn of_sequences() -> Self {
        [Privilege::Select, Privilege::Update, Privilege::Usage].into_iter().collect()
    }

    /// Returns true if the set contains the privilege.
    #[must_use]
    pub fn contains(self, privilege: Privilege) -> bool {
        self.0 & privilege.bit() != 0
    }

    /// Returns true if the set is empty.
    #[must_use]
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Returns the union of both sets.
    #[must_use]
    pub fn union(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// Returns the privileges of this set that are not in the other one.
    #[must_use]
    pub fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Iterates over the privileges of the set.
    pub fn iter(self) -> impl Iterator<Item = Privilege> {
        Privilege::ALL.into_iter().filter(move |privilege| self.contains(*privilege))
    }

    /// Encodes the set as a byte of a catalog record.
    pub(crate) fn to_byte(self) -> u8 {
        self.0
    }

    /// Decodes a byte of a catalog record; `None` if it has unknown privileges.
    pub(crate) fn from_byte(byte: u8) -> Option<Self> {
        let all = Self::of_tables().union(Self::of_schemas());
        (byte & !all.0 == 0).then_some(Self(byte))
    }
}

impl FromIterator<Privilege> for Privileges {
    fn from_iter<T: IntoIterator<Item = Privilege>>(privileges: T) -> Self {
        Self(privileges.into_iter().fold(0, |bits, privilege| bits | privilege.bit()))
    }
}

impl fmt::Display for Privileges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let keywords: Vec<_> = self.iter().map(Privilege::keyword).collect();
        f.write_str(&keywords.join(", "))
    }
}

/// Holder of a grant.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Grantee {
    /// Every role.
    Public,
    /// One role.
    Role(String),
}

impl fmt::Display for Grantee {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Public => "PUBLIC",
            Self::Role(name) => name,
        })
    }
}

/// Owner and grants of a schema, table, view or sequence.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    /// The role with all privileges; `None` if a session without a role created the object.
    pub owner: Option<String>,
    /// Privileges by grantee.
    pub grants: BTreeMap<Grantee, Privileges>,
}

impl Access {
    /// Returns true if the role owns the object or holds the privilege, itself or through PUBLIC.
    #[must_use]
    pub fn allows(&self, role: &str, privilege: Privilege) -> bool {
        let holds = |(grantee, privileges): (&Grantee, &Privileges)| {
            let is_held = match grantee {
                Grantee::Public => true,
                Grantee::Role(name) => name == role,
            };
            is_held && privileges.contains(privilege)
        };
        self.is_owned_by(role) || self.grants.iter().any(holds)
    }

    /// Returns true if the role owns the object.
    #[must_use]
    pub fn is_owned_by(&self, role: &str) -> bool {
        self.owner.as_deref() == Some(role)
    }

    /// Returns true if the role owns the object or holds a grant of its own.
    pub fn names(&self, role: &str) -> bool {
        self.is_owned_by(role) || self.grants.contains_key(&Grantee::Role(role.to_owned()))
    }

    /// Adds `privileges` to those that `grantee` holds.
    pub fn grant(&mut self, grantee: Grantee, privileges: Privileges) {
        let held = self.grants.entry(grantee).or_default();
        *held = held.union(privileges);
    }

    /// Removes `privileges` from those that `grantee` holds.
    pub fn revoke(&mut self, grantee: &Grantee, privileges: Privileges) {
        if let Some(held) = self.grants.get_mut(grantee) {
            *held = held.without(privileges);
        }
        self.grants.retain(|_, held| !held.is_empty());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn privileges_are_sets() {
        let both: Privileges = [Privilege::Select, Privilege::Usage].into_iter().collect();
        assert_eq!(both.to_string(), "SELECT, USAGE");
        assert_eq!(Privileges::from_byte(both.to_byte()), Some(both));
        assert_eq!(Privileges::from_byte(64), None);
        assert!(both.without(both).is_empty());
    }

    #[test]
    fn grants_add_up_and_are_taken_back() {
        let mut access = Access { owner: Some("o".to_owned()), ..Access::default() };
        let role = Grantee::Role("r".to_owned());
        access.grant(role.clone(), [Privilege::Select].into_iter().collect());
        access.grant(role.clone(), [Privilege::Insert].into_iter().collect());
        access.grant(Grantee::Public, [Privilege::Delete].into_iter().collect());
        assert!(access.allows("r", Privilege::Select) && access.allows("r", Privilege::Delete));
        assert!(access.allows("o", Privilege::Update) && !access.allows("r", Privilege::Update));
        access.revoke(&role, Privileges::of_tables());
        assert!(!access.allows("r", Privilege::Select) && !access.names("r"));
        assert!(access.allows("other", Privilege::Delete));
    }
}
