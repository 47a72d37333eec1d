//! The roles of a catalog.

use std::sync::Arc;

use super::membership;
use super::names::Roles;
use super::role::{Membership, Role};
use super::snapshot::Snapshot;
use super::state::Catalog;
use crate::error::SqlError;

impl Catalog {
    /// Returns the roles, by name.
    #[must_use]
    pub fn roles(&self) -> Vec<(String, Arc<Role>)> {
        let names = self.names();
        names.roles.iter().map(|(name, role)| (name.clone(), Arc::clone(role))).collect()
    }

    /// Returns a role by its name.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<Arc<Role>> {
        self.names().roles.get(name).cloned()
    }

    /// Creates a role, and makes `members` its members. Returns true if it is new.
    ///
    /// # Errors
    /// [`SqlError::RoleExists`] unless `keep` is set; [`SqlError::Refused`] for a first role that
    /// is no administrator; [`SqlError::MissingTenant`]; [`SqlError::MissingRole`] and
    /// [`SqlError::MembershipCycle`] for its memberships and members; errors of the catalog's file.
    pub async fn create_role(
        self: &Arc<Self>,
        name: &str,
        mut role: Role,
        members: Vec<(String, Membership)>,
        keep: bool,
    ) -> Result<bool, SqlError> {
        let name = name.to_owned();
        self.change(move |catalog| {
            let mut roles = catalog.names().roles.clone();
            if roles.contains_key(&name) {
                return if keep { Ok(false) } else { Err(SqlError::RoleExists { name }) };
            }
            catalog.require_tenant(&role)?;
            let member_of = std::mem::take(&mut role.member_of);
            roles.insert_mut(name.clone(), Arc::new(role));
            for (of, membership) in &member_of {
                membership::add(&mut roles, of, &name, membership)?;
            }
            for (member, membership) in &members {
                membership::add(&mut roles, &name, member, membership)?;
            }
            catalog.settle_roles(roles)?;
            Ok(true)
        })
        .await
    }

    /// Changes a role.
    ///
    /// # Errors
    /// [`SqlError::MissingRole`]; [`SqlError::MissingTenant`]; [`SqlError::Refused`] if no
    /// administrator would be left; errors of `change` and of the catalog's file.
    pub async fn alter_role(
        self: &Arc<Self>,
        name: &str,
        change: impl FnOnce(Role) -> Result<Role, SqlError> + Send + 'static,
    ) -> Result<(), SqlError> {
        let name = name.to_owned();
        self.change(move |catalog| match catalog.role(&name) {
            None => Err(SqlError::MissingRole { name }),
            Some(role) => {
                let role = change(Arc::unwrap_or_clone(role))?;
                catalog.require_tenant(&role)?;
                let mut roles = catalog.names().roles.clone();
                roles.insert_mut(name, Arc::new(role));
                catalog.settle_roles(roles)
            }
        })
        .await
    }

    /// Drops roles, all of them or none, and ends their memberships and those of their members.
    /// Returns the names of roles that do not exist.
    ///
    /// # Errors
    /// [`SqlError::MissingRole`] for one that does not exist, unless `if_exist`;
    /// [`SqlError::Refused`] while one owns an object or holds a privilege, and for the last
    /// administrator; errors of the catalog's file.
    pub async fn drop_roles(
        self: &Arc<Self>,
        names: Vec<String>,
        if_exist: bool,
    ) -> Result<Vec<String>, SqlError> {
        self.change(move |catalog| {
            let (mut roles, mut missing) = (catalog.names().roles.clone(), Vec::new());
            for name in names {
                if !roles.remove_mut(&name) {
                    missing.push(name);
                    continue;
                }
                if let Some(held) = catalog.snapshot().held_by(&name) {
                    return Err(SqlError::Refused {
                        what: format!(
                            "dropping role {name}, which owns or has a privilege on {held}"
                        ),
                        instead: format!(
                            "drop that or say ALTER ... OWNER TO, and REVOKE ALL ON ... FROM {name}"
                        ),
                    });
                }
                membership::forget(&mut roles, &name);
            }
            match missing.first() {
                Some(name) if !if_exist => Err(SqlError::MissingRole { name: name.clone() }),
                _ => {
                    catalog.settle_roles(roles)?;
                    Ok(missing)
                }
            }
        })
        .await
    }

    /// Makes changed roles durable and visible, all of them or none. The caller holds `changes`.
    ///
    /// # Errors
    /// [`SqlError::Refused`] if no administrator would be left; errors of the catalog's file.
    pub(super) fn settle_roles(&self, roles: Roles) -> Result<(), SqlError> {
        let before = self.names().roles.clone();
        let is_new = |name: &String, role: &Arc<Role>| {
            before.get(name).is_none_or(|known| !Arc::ptr_eq(known, role))
        };
        let changed: Vec<_> = roles.iter().filter(|(name, role)| is_new(name, role)).collect();
        let gone: Vec<_> = before.keys().filter(|name| !roles.contains_key(*name)).collect();
        if changed.is_empty() && gone.is_empty() {
            return Ok(());
        }
        require_administrator(&roles)?;
        self.journal.settle(&[], |transaction| {
            changed.iter().try_for_each(|(name, role)| transaction.put_role(name, role))?;
            gone.iter().try_for_each(|name| transaction.remove_role(name))
        })?;
        self.names_mut().roles = roles;
        Ok(())
    }

    fn require_tenant(&self, role: &Role) -> Result<(), SqlError> {
        match role.tenant.as_deref() {
            Some(tenant) if self.tenant(tenant).is_none() => {
                Err(SqlError::MissingTenant { name: tenant.to_owned() })
            }
            _ => Ok(()),
        }
    }
}

/// Refuses roles without an administrator among them: once there is a role, clients have to log in.
fn require_administrator(roles: &Roles) -> Result<(), SqlError> {
    if roles.values().any(|role| role.is_administrator()) {
        return Ok(());
    }
    Err(SqlError::Refused {
        what: "roles without an administrator among them".to_owned(),
        instead: "keep or make one first: CREATE ROLE name SUPERUSER LOGIN PASSWORD '...'"
            .to_owned(),
    })
}

impl Snapshot {
    /// Returns the roles by name.
    #[must_use]
    pub fn roles(&self) -> Vec<(String, Arc<Role>)> {
        self.roles.iter().map(|(name, role)| (name.clone(), Arc::clone(role))).collect()
    }

    /// Returns a role by its name.
    #[must_use]
    pub fn role(&self, name: &str) -> Option<&Role> {
        self.roles.get(name).map(Arc::as_ref)
    }

    /// Returns an object that the role owns or has a privilege on, as GRANT names it.
    fn held_by(&self, role: &str) -> Option<String> {
        self.schemas.iter().find_map(|(name, schema)| {
            if schema.own.as_ref().is_some_and(|access| access.names(role)) {
                return Some(format!("SCHEMA {name}"));
            }
            let mut objects = schema.access.iter();
            let held = objects.find(|(_, access)| access.names(role));
            let mut texts = schema.texts.iter();
            let text = texts.find(|(_, object)| object.owner.as_deref() == Some(role));
            held.map(|(object, _)| format!("{name}.{object}")).or_else(|| {
                text.map(|((kind, object), _)| format!("{} {name}.{object}", kind.noun()))
            })
        })
    }
}
