//! The client, the role and the settings of a connection, for `current_user`, `pg_stat_activity`,
//! the advisory locks and the like.

use std::sync::Arc;

use crate::registry::Registry;
use crate::shared_settings::SharedSettings;

#[derive(Debug)]
pub(crate) struct ConnectionInfo {
    pub(crate) database: &'static str,
    pub(crate) user: String,
    /// The role that the client has logged in with; `None` if the database has no roles.
    pub(crate) role: Option<String>,
    /// The connection's number, with which its statements are cancelled.
    pub(crate) number: i32,
    /// True if the connection uses TLS.
    pub(crate) is_secure: bool,
    pub(crate) settings: SharedSettings,
    /// The registry of all connections of the server.
    pub(crate) registry: Arc<Registry>,
}

impl ConnectionInfo {
    /// Returns the role that statements run as: that of SET ROLE, or else the role of the login.
    pub(crate) fn acting_role(&self) -> Option<String> {
        self.settings.role().or_else(|| self.role.clone())
    }

    /// Returns the user that statements run as.
    pub(crate) fn acting_user(&self) -> String {
        self.settings.role().unwrap_or_else(|| self.user.clone())
    }
}
