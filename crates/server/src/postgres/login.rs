//! Login: the messages before a client may send statements.

use std::fs::File;
use std::io::Read as _;
use std::sync::Arc;
use std::time::Duration;

use pgwire::messages::response::{GssEncResponse, ReadyForQuery, SslResponse, TransactionStatus};
use pgwire::messages::startup::{
    Authentication, BackendKeyData, ParameterStatus, SecretKey, Startup,
};
use pgwire::messages::{
    PgWireBackendMessage as Out, PgWireFrontendMessage as In, SslNegotiationMetaMessage as Before,
};
use terrace_sql::DATABASE;
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::timeout;

use super::failure::{Failure, SqlState};
use super::scram;
use super::wire::Wire;
use crate::registry::Registered;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::stream::Peer;

/// Maximum wait for a permit. A client that has left holds its permit until its statements end.
const PLACE_TIME: Duration = Duration::from_secs(1);
/// The major version of the protocol.
const PROTOCOL: u16 = 3;

/// A client that has logged in.
pub(super) struct Client {
    /// The connection's permit.
    pub(super) place: OwnedSemaphorePermit,
    pub(super) registered: Registered,
    pub(super) settings: Settings,
    pub(super) user: String,
    /// The role that the client has logged in with; `None` if the database has no roles.
    pub(super) role: Option<String>,
}

/// Logs a client in. `None` if the client only cancels a statement, or leaves.
///
/// # Errors
/// A request that the server refuses, and a broken connection.
pub(super) async fn log_in(shared: &Shared, wire: &mut Wire) -> Result<Option<Client>, Failure> {
    let Some(startup) = first_message(shared, wire).await? else { return Ok(None) };
    // The permit is taken after the first message: a client that sends none takes no permit, and
    // statements can be cancelled while all permits are taken.
    let place = timeout(PLACE_TIME, Arc::clone(&shared.places).acquire_owned());
    let Ok(Ok(place)) = place.await else {
        shared.counters.count_refused();
        let text = format!(
            "the server has {} connections, as many as it takes",
            shared.limits.connections
        );
        return Err(Failure::fatal(SqlState::TOO_MANY, text));
    };
    welcome(shared, wire, &startup, place).await.map(Some)
}

/// Reads the start-up message of a client. `None` if the client only cancels a statement, which is
/// done here, or leaves.
///
/// # Errors
/// Any other message, and a broken connection.
async fn first_message(shared: &Shared, wire: &mut Wire) -> Result<Option<Startup>, Failure> {
    if wire.begins_with_tls().await? {
        let Some(tls) = shared.tls.as_ref().filter(|_| wire.peer() != Peer::Unix) else {
            let text = "a TLS handshake on a connection without TLS; connect with sslmode=disable";
            return Err(Failure::fatal(SqlState::PROTOCOL, text));
        };
        wire.secure_directly(&tls.current().postgresql).await?;
    }
    loop {
        match wire.next().await? {
            None => return Ok(None),
            Some(In::SslNegotiation(Before::PostgresSsl(_))) => {
                let is_local = wire.peer() == Peer::Unix || wire.is_secure();
                match shared.tls.as_ref().filter(|_| !is_local) {
                    None => {
                        wire.put(Out::SslResponse(SslResponse::Refuse))?;
                        wire.flush().await?;
                    }
                    Some(tls) => {
                        wire.put(Out::SslResponse(SslResponse::Accept))?;
                        wire.flush().await?;
                        wire.secure(&tls.current().postgresql).await?;
                    }
                }
            }
            Some(In::SslNegotiation(Before::PostgresGss(_))) => {
                wire.put(Out::GssEncResponse(GssEncResponse::Refuse))?;
                wire.flush().await?;
            }
            // Not a request for TLS or GSS: the message is read again as another type.
            Some(In::SslNegotiation(_)) => wire.context().awaiting_frontend_ssl = false,
            Some(In::CancelRequest(cancel)) => {
                shared.registry.cancel(cancel.pid, &cancel.secret_key);
                return Ok(None);
            }
            Some(In::Startup(startup)) => {
                wire.context().awaiting_frontend_startup = false;
                return Ok(Some(startup));
            }
            Some(_) => return Err(Failure::fatal(SqlState::PROTOCOL, "no start of a connection")),
        }
    }
}

async fn welcome(
    shared: &Shared,
    wire: &mut Wire,
    startup: &Startup,
    place: OwnedSemaphorePermit,
) -> Result<Client, Failure> {
    if startup.protocol_number_major != PROTOCOL {
        let text = format!("version {} of the protocol; it is 3.0", startup.protocol_number_major);
        return Err(Failure::fatal(SqlState::UNSUPPORTED, text));
    }
    let given = |name: &str| startup.parameters.get(name).map(String::as_str);
    let user = given("user").unwrap_or_default();
    // Clients take the name of the user for the database unless the user names one.
    let database = given("database").unwrap_or(user);
    if database != DATABASE && database != user {
        let text = format!("there is no database {database:?}; there is {DATABASE}");
        return Err(Failure::fatal(SqlState::NO_DATABASE, text));
    }
    if given("replication").is_some_and(|value| !["", "false", "off"].contains(&value)) {
        return Err(Failure::fatal(SqlState::UNSUPPORTED, "replication is not possible"));
    }
    let role = authenticated(shared, wire, user).await?;
    let mut settings = Settings::of_engine(&shared.engine);
    let asked = startup.parameters.iter().filter(|(name, _)| {
        !["user", "database", "replication", "options"].contains(&name.as_str())
    });
    let options = options(given("options").unwrap_or_default())?;
    for (name, value) in asked.map(|(name, value)| (name.as_str(), value.as_str())).chain(options) {
        settings
            .set(name, value)
            .map_err(|failure| Failure::fatal(failure.state(), failure.text()))?;
    }
    let secret = secret()?;
    let registered = shared.registry.add(secret.clone());
    wire.put(Out::Authentication(Authentication::Ok))?;
    for (name, value) in settings.reported() {
        let status = ParameterStatus::new(name.to_owned(), value.to_owned());
        wire.put(Out::ParameterStatus(status))?;
    }
    wire.put(Out::BackendKeyData(BackendKeyData::new(registered.number(), secret)))?;
    wire.put(Out::ReadyForQuery(ReadyForQuery::new(TransactionStatus::Idle)))?;
    wire.flush().await?;
    Ok(Client { place, registered, settings, user: user.to_owned(), role })
}

/// Authenticates a client and returns its role; `None` in a database without roles, which serves
/// only programs on the same machine.
async fn authenticated(
    shared: &Shared,
    wire: &mut Wire,
    user: &str,
) -> Result<Option<String>, Failure> {
    let has_roles = !shared.engine.catalog().roles().is_empty();
    if shared.tls.is_some() && wire.peer() != Peer::Unix && !wire.is_secure() {
        let text = "the server asks for TLS; connect with sslmode=require";
        return Err(Failure::fatal(SqlState::NO_LOGIN, text));
    }
    if matches!(wire.peer(), Peer::Remote(_)) && !(has_roles && wire.is_secure()) {
        let text = "other machines are served with TLS and logins alone";
        return Err(Failure::fatal(SqlState::NO_LOGIN, text));
    }
    if !has_roles {
        return Ok(None);
    }
    scram::log_in(shared, wire, user).await?;
    Ok(Some(user.to_owned()))
}

/// Parses settings of the form `-c name=value --name=value`.
fn options(text: &str) -> Result<Vec<(&str, &str)>, Failure> {
    let mut words = text.split_whitespace();
    let mut options = Vec::new();
    while let Some(word) = words.next() {
        let assignment = match word.strip_prefix("--") {
            Some(assignment) => Some(assignment),
            None if word == "-c" => words.next(),
            None => word.strip_prefix("-c"),
        };
        let Some(option) = assignment.and_then(|assignment| assignment.split_once('=')) else {
            let text = format!("the options {text:?}; they are -c name=value");
            return Err(Failure::fatal(SqlState::INVALID_PARAMETER, text));
        };
        options.push(option);
    }
    Ok(options)
}

/// Returns a new secret, with which a client cancels its statements from another connection.
fn secret() -> Result<SecretKey, Failure> {
    let mut bytes = [0; 4];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(SecretKey::I32(i32::from_be_bytes(bytes)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_are_settings() {
        let of = options("-c a=1 -cb=2 --c=3").ok();
        assert_eq!(of, Some(vec![("a", "1"), ("b", "2"), ("c", "3")]));
        assert_eq!(options("").ok(), Some(vec![]));
        assert!(options("-x").is_err() && options("-c a").is_err());
    }
}
