//! Memberships of roles in roles. A member has the privileges of the roles that it is a member of,
//! directly or through others, as far as each of the members inherits. No role is a member of
//! itself.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::names::Roles;
use super::role::{Membership, Role};
use super::snapshot::Snapshot;
use super::state::Catalog;
use crate::error::SqlError;

impl Catalog {
    /// Makes each of `members` a member of each of `roles`; all of them or none. A role that is a
    /// member already stays one, and gets the ADMIN OPTION if `membership` has it.
    ///
    /// # Errors
    /// [`SqlError::MissingRole`]; [`SqlError::MembershipCycle`]; errors of the catalog's file.
    pub async fn grant_roles(
        self: &Arc<Self>,
        roles: Vec<String>,
        members: Vec<String>,
        membership: Membership,
    ) -> Result<(), SqlError> {
        let change =
            move |all: &mut Roles, role: &str, member: &str| add(all, role, member, &membership);
        self.change_memberships(roles, members, change).await
    }

    /// Ends the membership of each of `members` in each of `roles`, or takes its ADMIN OPTION alone
    /// if `is_admin_option` is set; all of them or none. A role that is no direct member stays as
    /// it is.
    ///
    /// # Errors
    /// [`SqlError::MissingRole`]; errors of the catalog's file.
    pub async fn revoke_roles(
        self: &Arc<Self>,
        roles: Vec<String>,
        members: Vec<String>,
        is_admin_option: bool,
    ) -> Result<(), SqlError> {
        let change = move |all: &mut Roles, role: &str, member: &str| {
            remove(all, role, member, is_admin_option)
        };
        self.change_memberships(roles, members, change).await
    }

    /// Changes the membership of each of `members` in each of `roles`; all of them or none.
    async fn change_memberships(
        self: &Arc<Self>,
        roles: Vec<String>,
        members: Vec<String>,
        change: impl Fn(&mut Roles, &str, &str) -> Result<(), SqlError> + Send + 'static,
    ) -> Result<(), SqlError> {
        self.change(move |catalog| {
            let mut all = catalog.names().roles.clone();
            for role in &roles {
                members.iter().try_for_each(|member| change(&mut all, role, member))?;
            }
            catalog.settle_roles(all)
        })
        .await
    }
}

impl Snapshot {
    /// Returns the roles whose privileges a role has: itself and those that it inherits from.
    #[must_use]
    pub fn inherited<'a>(&'a self, role: &'a str) -> BTreeSet<&'a str> {
        reached(&self.roles, role, |member| member.inherits)
    }

    /// Returns a role and all roles that it is a member of, directly or through others.
    #[must_use]
    pub fn memberships<'a>(&'a self, role: &'a str) -> BTreeSet<&'a str> {
        reached(&self.roles, role, |_| true)
    }

    /// Returns true if a role may grant and revoke memberships in another: it or a role that it is
    /// a member of has the ADMIN OPTION. A role never has it on itself.
    #[must_use]
    pub fn administers(&self, role: &str, other: &str) -> bool {
        let is_admin = |name: &str| {
            let membership = self.roles.get(name).and_then(|role| role.member_of.get(other));
            membership.is_some_and(|membership| membership.is_admin)
        };
        role != other && self.memberships(role).into_iter().any(is_admin)
    }
}

/// Makes `member` a direct member of `role`. A member stays one, and gets the ADMIN OPTION if
/// `membership` has it.
pub(super) fn add(
    roles: &mut Roles,
    role: &str,
    member: &str,
    membership: &Membership,
) -> Result<(), SqlError> {
    find(roles, role)?;
    let mut changed = find(roles, member)?;
    if reached(roles, role, |_| true).contains(member) {
        let (role, member) = (role.to_owned(), member.to_owned());
        return Err(SqlError::MembershipCycle { role, member });
    }
    let known = changed.member_of.get(role);
    if known.is_none_or(|known| membership.is_admin && !known.is_admin) {
        changed.member_of.insert(role.to_owned(), membership.clone());
        roles.insert_mut(member.to_owned(), Arc::new(changed));
    }
    Ok(())
}

/// Removes a role from the memberships of all others, and from their grantors.
pub(super) fn forget(roles: &mut Roles, role: &str) {
    let is_of = |membership: &Membership| membership.grantor.as_deref() == Some(role);
    let names_it = |it: &Role| it.member_of.contains_key(role) || it.member_of.values().any(is_of);
    let others = roles.iter().filter(|(_, it)| names_it(it));
    let others: Vec<_> = others.map(|(name, it)| (name.clone(), Role::clone(it))).collect();
    for (name, mut other) in others {
        other.member_of.remove(role);
        for membership in other.member_of.values_mut().filter(|membership| is_of(membership)) {
            membership.grantor = None;
        }
        roles.insert_mut(name, Arc::new(other));
    }
}

fn remove(
    roles: &mut Roles,
    role: &str,
    member: &str,
    is_admin_option: bool,
) -> Result<(), SqlError> {
    find(roles, role)?;
    let mut changed = find(roles, member)?;
    let is_changed = match changed.member_of.get_mut(role) {
        Some(membership) if is_admin_option => std::mem::take(&mut membership.is_admin),
        _ => changed.member_of.remove(role).is_some(),
    };
    if is_changed {
        roles.insert_mut(member.to_owned(), Arc::new(changed));
    }
    Ok(())
}

fn find(roles: &Roles, name: &str) -> Result<Role, SqlError> {
    let role = roles.get(name).ok_or_else(|| SqlError::MissingRole { name: name.to_owned() })?;
    Ok(Role::clone(role))
}

/// Returns a role and those that it is a member of, directly or through members for which
/// `goes_on` holds.
fn reached<'a>(
    roles: &'a Roles,
    role: &'a str,
    goes_on: impl Fn(&Role) -> bool,
) -> BTreeSet<&'a str> {
    let (mut found, mut open) = (BTreeSet::from([role]), vec![role]);
    while let Some(name) = open.pop() {
        let member = roles.get(name).filter(|member| goes_on(member));
        for of in member.into_iter().flat_map(|member| member.member_of.keys()) {
            if found.insert(of.as_str()) {
                open.push(of.as_str());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Roles of these names, with the memberships `(role, member)`.
    fn roles_of(names: &[&str], memberships: &[(&str, &str)]) -> Roles {
        let mut roles = Roles::default();
        for name in names {
            roles.insert_mut((*name).to_owned(), Arc::default());
        }
        for (role, member) in memberships {
            add(&mut roles, role, member, &Membership::default()).expect("no cycle");
        }
        roles
    }

    fn all<'a>(roles: &'a Roles, role: &'a str) -> Vec<&'a str> {
        reached(roles, role, |_| true).into_iter().collect()
    }

    #[test]
    fn memberships_lead_through_others_and_to_no_cycle() {
        let mut roles =
            roles_of(&["a", "b", "c", "d"], &[("a", "b"), ("b", "c"), ("a", "c"), ("b", "d")]);
        assert_eq!(all(&roles, "c"), ["a", "b", "c"]);
        assert_eq!(all(&roles, "a"), ["a"]);
        for (role, member) in [("a", "a"), ("c", "a"), ("c", "b"), ("d", "a")] {
            let cycle = add(&mut roles, role, member, &Membership::default());
            let cycle = cycle.expect_err("a cycle").to_string();
            assert_eq!(cycle, format!("role \"{role}\" is a member of role \"{member}\""));
        }
        let missing = add(&mut roles, "a", "e", &Membership::default());
        assert!(matches!(missing, Err(SqlError::MissingRole { name }) if name == "e"));
        remove(&mut roles, "b", "c", false).expect("a member");
        remove(&mut roles, "b", "c", false).expect("no member any more");
        assert_eq!(all(&roles, "c"), ["a", "c"]);
        let b = roles.get("b").map(|role| Role { inherits: false, ..Role::clone(role) });
        roles.insert_mut("b".to_owned(), Arc::new(b.expect("b")));
        let inherited = reached(&roles, "d", |role| role.inherits);
        assert_eq!(inherited.into_iter().collect::<Vec<_>>(), ["b", "d"]);
    }

    #[test]
    fn admin_options_are_given_and_taken_alone() {
        let mut roles = roles_of(&["a", "b", "g"], &[("a", "b")]);
        let admin = Membership { is_admin: true, grantor: Some("g".to_owned()) };
        let held = |roles: &Roles| roles.get("b").and_then(|role| role.member_of.get("a")).cloned();
        add(&mut roles, "a", "b", &admin).expect("granted");
        add(&mut roles, "a", "b", &Membership::default()).expect("it stays");
        assert_eq!(held(&roles), Some(admin));
        remove(&mut roles, "a", "b", true).expect("taken");
        assert_eq!(held(&roles).map(|it| it.is_admin), Some(false));
        forget(&mut roles, "g");
        assert_eq!(held(&roles), Some(Membership::default()));
        forget(&mut roles, "a");
        assert_eq!(held(&roles), None);
    }
}
