//! The rights that a statement has.

use crate::access::{Access, Privilege};
use crate::catalog::Snapshot;
use crate::error::SqlError;

/// The rights of a role over a snapshot of the catalog.
#[derive(Clone, Copy)]
pub(crate) struct Rights<'a> {
    snapshot: &'a Snapshot,
    role: Option<&'a str>,
}

impl<'a> Rights<'a> {
    /// Those of a role; of a session without one.
    pub(crate) fn new(snapshot: &'a Snapshot, role: Option<&'a str>) -> Self {
        Self { snapshot, role }
    }

    /// Those of the owner of a view.
    pub(crate) fn of_view(snapshot: &'a Snapshot, access: Option<&'a Access>) -> Self {
        Self::new(snapshot, access.and_then(|access| access.owner.as_deref()))
    }

    /// The snapshot that they are over.
    pub(super) fn snapshot(&self) -> &'a Snapshot {
        self.snapshot
    }

    /// The role whose rights have limits; none of a superuser and of a session without a role.
    ///
    /// # Errors
    /// [`SqlError::MissingRole`] of one that has been dropped.
    pub(super) fn limited(&self) -> Result<Option<&'a str>, SqlError> {
        let Some(name) = self.role else { return Ok(None) };
        let missing = || SqlError::MissingRole { name: name.to_owned() };
        let role = self.snapshot.role(name).ok_or_else(missing)?;
        Ok((!role.is_superuser).then_some(name))
    }

    /// Refuses what superusers alone may do.
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

    /// Refuses what takes a privilege on a table or view, or on a schema where `object` is none.
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
        let access = self.snapshot.access(schema, object);
        if access.is_some_and(|access| access.allows(role, privilege)) {
            return Ok(());
        }
        let (keyword, on) = (privilege.keyword(), name_of(schema, object));
        Err(SqlError::Denied {
            role: role.to_owned(),
            what: format!("it lacks {keyword} on {on}; GRANT {keyword} ON {on} TO {role} gives it"),
        })
    }

    /// Refuses what the owner alone may do; the owner of a schema owns what is in it.
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
        let owns = |object| {
            self.snapshot.access(schema, object).is_some_and(|access| access.is_owned_by(role))
        };
        if owns(object) || owns(None) {
            return Ok(());
        }
        let on = name_of(schema, object);
        Err(SqlError::Denied {
            role: role.to_owned(),
            what: format!("{what} takes the owner of {on}, or a superuser"),
        })
    }
}

/// An object as GRANT names it.
fn name_of(schema: &str, object: Option<&str>) -> String {
    match object {
        Some(object) => format!("{schema}.{object}"),
        None => format!("SCHEMA {schema}"),
    }
}
