//! Sessions of connections: opens them with PostgreSQL's catalog and functions, and applies the
//! settings of the connection to them.

use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use terrace_sql::{Session, SqlError};

use super::advisory;
use super::failure::{Failure, SqlState};
use super::functions::functions;
use crate::connection_info::ConnectionInfo;
use crate::pg_catalog;
use crate::settings::{DEFAULT_READ_ONLY, NO_ROLE, ROLE, Settings, TRANSACTION_READ_ONLY};
use crate::shared::Shared;
use crate::shared_settings::SharedSettings;

/// Name and value of a setting that is reported to the client.
type Told = (&'static str, String);

/// Opens a session for a connection, with its client's settings.
pub(super) async fn session_with(
    shared: &Shared,
    place: &Arc<ConnectionInfo>,
    settings: &Settings,
) -> Result<Session, Failure> {
    let session = new_session(shared, place)?;
    apply(&session, settings).await?;
    Ok(session)
}

/// Opens a session for a connection.
fn new_session(shared: &Shared, place: &Arc<ConnectionInfo>) -> Result<Session, Failure> {
    let session = match &place.role {
        Some(role) => shared.engine.session_of(role)?,
        None => shared.engine.session()?,
    };
    Ok(furnished(session, place))
}

/// Adds `pg_catalog` to a session, and the functions that describe its connection.
pub(crate) fn furnished(session: Session, place: &Arc<ConnectionInfo>) -> Session {
    for function in functions(place).into_iter().chain(advisory::functions(place)) {
        session.context().register_udf(function);
    }
    pg_catalog::add_to(&session, place);
    session
}

/// Applies the changed settings that the engine's session also has, such as the time zone.
pub(super) async fn apply(session: &Session, settings: &Settings) -> Result<(), Failure> {
    for statement in settings.changed().filter_map(|name| settings.of_session(name)) {
        session.sql(&statement).await?;
    }
    Ok(())
}

/// Changes a setting, until the end of the transaction if `is_local`, and applies it to the
/// session. Returns the change to report to the client, if it has to be reported.
///
/// # Errors
/// A setting that does not exist, or that does not accept the value.
pub(crate) async fn set(
    session: &Session,
    settings: &SharedSettings,
    name: &str,
    value: &str,
    is_local: bool,
) -> Result<Option<Told>, Failure> {
    let told = settings.set(name, value, is_local)?;
    pass_on(session, settings, name).await?;
    Ok(told)
}

/// Returns the value of a setting of a session.
///
/// # Errors
/// A setting of the client's own that has not been set.
pub(crate) fn shown(
    session: &Session,
    settings: &SharedSettings,
    name: &str,
) -> Result<String, Failure> {
    let value = match session.transaction_reads_only().filter(|_| name == TRANSACTION_READ_ONLY) {
        Some(is_read_only) => Some(if is_read_only { "on" } else { "off" }.to_owned()),
        None if name == TRANSACTION_READ_ONLY => settings.get(DEFAULT_READ_ONLY),
        None => settings.get(name),
    };
    value.ok_or_else(|| {
        let text = format!("unrecognized configuration parameter \"{name}\"");
        Failure::new(SqlState::NO_OBJECT, text)
    })
}

/// Applies a setting to the session, if the engine's session has it too.
///
/// # Errors
/// A value that the session does not accept. It keeps its role then, and so do the settings.
async fn pass_on(session: &Session, settings: &SharedSettings, name: &str) -> Result<(), Failure> {
    let Some(statement) = settings.of_session(name) else { return Ok(()) };
    let passed = session.sql(&statement).await;
    if passed.is_err() && name == ROLE {
        let kept = session.acting_role();
        settings.set(ROLE, kept.as_deref().unwrap_or(NO_ROLE), false)?;
    }
    match passed {
        // A role that is not there is a wrong value of the setting.
        Err(error @ SqlError::MissingRole { .. }) if name == ROLE => {
            Err(Failure::new(SqlState::INVALID_PARAMETER, error.to_string()))
        }
        passed => Ok(passed.map(drop)?),
    }
}

/// Applies to the session the settings that its statements have changed. Returns the changes to
/// report to the client.
///
/// # Errors
/// A value that the session does not accept.
pub(crate) async fn follow_changes(
    session: &Session,
    settings: &SharedSettings,
) -> Result<Vec<Told>, Failure> {
    let mut told = Vec::new();
    for (name, change) in settings.take_changes() {
        pass_on(session, settings, &name).await?;
        told.extend(change);
    }
    Ok(told)
}

/// Returns the zone in which a session shows timestamps with a time zone.
///
/// # Errors
/// A zone that Arrow does not know.
pub(crate) fn zone(session: &Session) -> Result<Tz, Failure> {
    let state = session.context().state_ref();
    let state = state.read();
    let name = state.config_options().execution.time_zone.as_deref();
    Ok(name.unwrap_or("+00:00").parse()?)
}
