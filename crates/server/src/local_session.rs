//! Sessions without a connection, such as those of `terrace sql`.

use std::sync::Arc;

use terrace_sql::{DATABASE, Session};

use crate::connection_info::ConnectionInfo;
use crate::postgres::furnished;
use crate::registry::Registry;
use crate::settings::Settings;
use crate::shared_settings::SharedSettings;

/// The user of a session without a role.
const USER: &str = "terrace";
/// The connection number of a session without a connection.
const NUMBER: i32 = 0;
/// Functions that read or change the state of a connection.
const OF_CONNECTIONS: [&str; 4] =
    ["current_setting", "set_config", "pg_cancel_backend", "pg_terminate_backend"];

/// Adds PostgreSQL's schema `pg_catalog` to a session that has no connection, with all its
/// functions except those that read or change the state of a connection. Its `information_schema`
/// then has PostgreSQL's columns and types.
#[must_use]
pub fn with_pg_catalog(session: Session) -> Session {
    let role = session.role().map(|role| role.to_string());
    let registry = Arc::new(Registry::default());
    registry.advisory_locks().begin(NUMBER);
    let place = ConnectionInfo {
        database: DATABASE,
        user: role.clone().unwrap_or_else(|| USER.to_owned()),
        role,
        number: NUMBER,
        is_secure: false,
        settings: SharedSettings::new(Settings::default()),
        registry,
    };
    let session = furnished(session, &Arc::new(place));
    for function in OF_CONNECTIONS {
        session.context().deregister_udf(function);
    }
    session
}
