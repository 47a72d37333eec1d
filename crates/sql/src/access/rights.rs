//! The rights of a statement.

use std::sync::Arc;

use terrace_table::access::{Access, Privilege};
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;

use crate::names::is_temporary;

/// The rights of a role under a snapshot of the catalog: its own privileges, and those of the roles
/// that it inherits from.
#[derive(Clone)]
pub(crate) struct Rights<'a> {
    snapshot: &'a Snapshot,
    role: Option<Arc<str>>,
}

impl<'a> Rights<'a> {
    /// The rights of `role`; `None` stands for a session without a role.
    pub(crate) fn new(snapshot: &'a Snapshot, role: Option<Arc<str>>) -> Self {
        Self { snapshot, role }
    }

    /// The rights of a view's owner.
    pub(crate) fn of_view(snapshot: &'a Snapshot, access: Option<&'a Access>) -> Self {
        Self::new(snapshot, access.and_then(|access| access.owner.as_deref()).map(Arc::from))
    }

    /// The snapshot that the rights are taken from.
    pub(super) fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// The role, if its rights are limited; `None` for a superuser and for a session without a
    /// role.
    ///
    /// # Errors
    /// [`SqlError::MissingRole`] for a role that has been dropped.
    pub(crate) fn limited(&self) -> Result<Option<&str>, SqlError> {
        let Some(name) = self.role.as_deref() else { return Ok(None) };
        let missing = || SqlError::MissingRole { name: name.to_owned() };
        let role = self.snapshot.role(name).ok_or_else(missing)?;
        Ok((!role.is_superuser).then_some(name))
    }

    /// Requires a superuser.
    ///
    /// # Errors
    /// [`SqlError::Denied`].
    pub(crate) fn require_superuser(&self, what: &str) -> Result<(), SqlError> {
        match self.limited()? {
            None => Ok(()),
            Some(role) => Err(SqlError::Denied {
                role: role.to_owned(),
                what: format!("{what} takes a superuser"),
            }),
        }
    }

    /// Requires a privilege on a table or view, or on the schema if `object` is `None`.
    ///
    /// # Errors
    /// [`SqlError::Denied`].
    pub(crate) fn require(
        &self,
        privilege: Privilege,
        schema: &str,
        object: Option<&str>,
    ) -> Result<(), SqlError> {
        let Some(role) = self.limited()? else { return Ok(()) };
        // Only its own session can name a schema of temporary objects.
        if object.is_none() && is_temporary(schema) {
            return Ok(());
        }
        let inherited = self.snapshot.inherited(role);
        let allows = |access: &Access| inherited.iter().any(|role| access.allows(role, privilege));
        if self.snapshot.access(schema, object).is_some_and(allows) {
            return Ok(());
        }
        let (keyword, on) = (privilege.keyword(), name_of(schema, object));
        Err(SqlError::Denied {
            role: role.to_owned(),
            what: format!("it lacks {keyword} on {on}; GRANT {keyword} ON {on} TO {role} gives it"),
        })
    }

    /// Requires the owner, or a role that inherits from it; the owner of a schema counts as owner
    /// of its objects.
    ///
    /// # Errors
    /// [`SqlError::Denied`].
    pub(crate) fn require_owner(
        &self,
        what: &str,
        schema: &str,
        object: Option<&str>,
    ) -> Result<(), SqlError> {
        let Some(role) = self.limited()? else { return Ok(()) };
        let inherited = self.snapshot.inherited(role);
        let is_owner = |access: &Access| inherited.iter().any(|role| access.is_owned_by(role));
        let owns = |object| self.snapshot.access(schema, object).is_some_and(is_owner);
        if owns(object) || owns(None) {
            return Ok(());
        }
        let on = name_of(schema, object);
        Err(SqlError::Denied {
            role: role.to_owned(),
            what: format!("{what} takes the owner of {on}, or a superuser"),
        })
    }

    /// Requires the owner of an object that is no table or view, as [`Rights::require_owner`] does
    /// for those.
    ///
    /// # Errors
    /// [`SqlError::Denied`].
    pub(crate) fn require_owner_of(
        &self,
        what: &str,
        schema: &str,
        name: &str,
        owner: Option<&str>,
    ) -> Result<(), SqlError> {
        let Some(role) = self.limited()? else { return Ok(()) };
        let inherited = self.snapshot.inherited(role);
        let is_owner = |owner: &str| inherited.iter().any(|role| *role == owner);
        let of_schema = self.snapshot.access(schema, None);
        let of_schema = of_schema.and_then(|access| access.owner.as_deref());
        if [owner, of_schema].into_iter().flatten().any(is_owner) {
            return Ok(());
        }
        Err(SqlError::Denied {
            role: role.to_owned(),
            what: format!("{what} takes the owner of {name}, or a superuser"),
        })
    }

    /// Requires a superuser, or the ADMIN OPTION on a role whose members are to be changed.
    ///
    /// # Errors
    /// [`SqlError::NoSuperuser`] if the role is a superuser, [`SqlError::NoAdminOption`] for any
    /// other.
    pub(crate) fn require_admin(&self, of: &str) -> Result<(), SqlError> {
        let Some(role) = self.limited()? else { return Ok(()) };
        match self.snapshot.role(of) {
            Some(of) if of.is_superuser => Err(SqlError::NoSuperuser),
            Some(_) if self.snapshot.administers(role, of) => Ok(()),
            Some(_) => Err(SqlError::NoAdminOption { role: of.to_owned() }),
            None => Err(SqlError::MissingRole { name: of.to_owned() }),
        }
    }
}

/// Formats an object as in GRANT.
fn name_of(schema: &str, object: Option<&str>) -> String {
    match object {
        Some(object) => format!("{schema}.{object}"),
        None => format!("SCHEMA {schema}"),
    }
}
