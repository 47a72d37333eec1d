//! The roles of a catalog.

use std::sync::Arc;

use super::role::Role;
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

    /// Creates a role. Returns true if it is new.
    ///
    /// # Errors
    /// [`SqlError::RoleExists`] unless `keep` is set; [`SqlError::Refused`] for a first role that
    /// is no administrator; [`SqlError::MissingTenant`]; errors of the catalog's file.
    pub async fn create_role(
        self: &Arc<Self>,
        name: &str,
        role: Role,
        keep: bool,
    ) -> Result<bool, SqlError> {
        let name = name.to_owned();
        self.change(move |catalog| {
            if catalog.role(&name).is_some() {
                return if keep { Ok(false) } else { Err(SqlError::RoleExists { name }) };
            }
            catalog.put_role(name, role)?;
            Ok(true)
        })
        .await
    }

    /// Changes a role.
    ///
    /// # Errors
    /// [`SqlError::MissingRole`]; [`SqlError::Refused`] if no administrator would be left; errors
    /// of `change` and of the catalog's file.
    pub async fn alter_role(
        self: &Arc<Self>,
        name: &str,
        change: impl FnOnce(Role) -> Result<Role, SqlError> + Send + 'static,
    ) -> Result<(), SqlError> {
        let name = name.to_owned();
        self.change(move |catalog| match catalog.role(&name) {
            None => Err(SqlError::MissingRole { name }),
            Some(role) => catalog.put_role(name, change(Arc::unwrap_or_clone(role))?),
        })
        .await
    }

    /// Drops a role. Returns true if it existed.
    ///
    /// # Errors
    /// [`SqlError::Refused`] while it owns something or holds a privilege, and for the last
    /// administrator; errors of the catalog's file.
    pub async fn drop_role(self: &Arc<Self>, name: &str) -> Result<bool, SqlError> {
        let name = name.to_owned();
        self.change(move |catalog| {
            if catalog.role(&name).is_none() {
                return Ok(false);
            }
            if let Some(held) = catalog.snapshot().held_by(&name) {
                return Err(SqlError::Refused {
                    what: format!("dropping role {name}, which owns or has a privilege on {held}"),
                    instead: format!(
                        "drop that or say ALTER ... OWNER TO, and REVOKE ALL ON ... FROM {name}"
                    ),
                });
            }
            catalog.require_administrator(&name, None)?;
            catalog.journal.settle(&[], |transaction| transaction.remove_role(&name))?;
            catalog.names_mut().roles.remove_mut(&name);
            Ok(true)
        })
        .await
    }

    fn put_role(&self, name: String, role: Role) -> Result<(), SqlError> {
        if let Some(tenant) = role.tenant.clone().filter(|tenant| self.tenant(tenant).is_none()) {
            return Err(SqlError::MissingTenant { name: tenant });
        }
        self.require_administrator(&name, Some(&role))?;
        self.journal.settle(&[], |transaction| transaction.put_role(&name, &role))?;
        self.names_mut().roles.insert_mut(name, Arc::new(role));
        Ok(())
    }

    /// Refuses a change of a role that leaves no administrator: once there is a role, clients have
    /// to log in.
    fn require_administrator(&self, name: &str, role: Option<&Role>) -> Result<(), SqlError> {
        let others = self.roles();
        let mut others = others.iter().filter(|(other, _)| other != name);
        if role.is_some_and(Role::is_administrator)
            || others.any(|(_, role)| role.is_administrator())
        {
            return Ok(());
        }
        Err(SqlError::Refused {
            what: "roles without an administrator among them".to_owned(),
            instead: "keep or make one first: CREATE ROLE name SUPERUSER LOGIN PASSWORD '...'"
                .to_owned(),
        })
    }
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
            held.map(|(object, _)| format!("{name}.{object}"))
        })
    }
}
