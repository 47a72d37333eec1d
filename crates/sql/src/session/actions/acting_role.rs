//! Changes of the role that a session acts as.

use std::sync::Arc;

use datafusion::sql::parser::Statement;
use terrace_sys::sync::lock;
use terrace_table::error::SqlError;

use crate::session::acting_role::SetRole;
use crate::session::state::Session;

impl Session {
    /// The role that statements run as: that of SET ROLE, or else the login role; `None` if the
    /// session is unrestricted.
    #[must_use]
    pub fn role(&self) -> Option<Arc<str>> {
        self.acting_role().or_else(|| self.login_role.clone())
    }

    /// The role of SET ROLE; `None` while the session acts as its login role.
    #[must_use]
    pub fn acting_role(&self) -> Option<Arc<str>> {
        lock(&self.acting_role).clone()
    }

    /// Runs `statement` if it changes the acting role; returns false for any other statement.
    pub(in crate::session) fn change_role(&self, statement: &Statement) -> Result<bool, SqlError> {
        let Some(change) = SetRole::of(statement) else { return Ok(false) };
        if change.is_local {
            return Err(SqlError::Refused {
                what: "SET LOCAL ROLE in this session".to_owned(),
                instead: "say SET ROLE, and RESET ROLE after the transaction".to_owned(),
            });
        }
        if let Some(name) = &change.name {
            self.check_membership(name)?;
        }
        *lock(&self.acting_role) = change.name.map(Into::into);
        Ok(true)
    }

    /// Refuses a role that the login role may not act as.
    fn check_membership(&self, name: &str) -> Result<(), SqlError> {
        let snapshot = self.engine.catalog().snapshot();
        if snapshot.role(name).is_none() {
            return Err(SqlError::MissingRole { name: name.to_owned() });
        }
        let Some(login) = self.login_role.as_deref() else { return Ok(()) };
        let is_superuser = snapshot.role(login).is_some_and(|role| role.is_superuser);
        if is_superuser || snapshot.memberships(login).contains(name) {
            return Ok(());
        }
        Err(SqlError::Denied {
            role: login.to_owned(),
            what: format!("SET ROLE {name} takes a member of {name}; GRANT {name} TO {login}"),
        })
    }
}
