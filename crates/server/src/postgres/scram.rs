//! SCRAM-SHA-256 authentication (RFC 5802, RFC 7677), with channel binding to the certificate over
//! TLS (RFC 5929).

use std::time::Duration;

use bytes::Bytes;
use pgwire::api::auth::sasl::scram::ScramSecret;
use pgwire::api::auth::sasl::{SCRAM_SHA_256_METHOD, SCRAM_SHA_256_PLUS_METHOD};
use pgwire::error::PgWireError;
use pgwire::messages::startup::{Authentication, PasswordMessageFamily};
use pgwire::messages::{PgWireBackendMessage as Out, PgWireFrontendMessage as In};
use terrace_sql::catalog::Verifier;
use tokio::time::sleep;

use super::failure::{Failure, SqlState};
use super::wire::Wire;
use crate::shared::Shared;

/// Delay before a failed login is reported, which slows down password guessing.
const PAUSE: Duration = Duration::from_millis(250);

/// Authenticates a client with the password of a role that may log in. A role that does not exist,
/// or may not log in, fails like a wrong password, after the same messages.
///
/// # Errors
/// A wrong password; a broken connection.
pub(super) async fn log_in(shared: &Shared, wire: &mut Wire, role: &str) -> Result<(), Failure> {
    match exchange(shared, wire, role).await? {
        true => Ok(()),
        false => {
            sleep(PAUSE).await;
            let text = format!("password authentication failed for user {role:?}");
            Err(Failure::fatal(SqlState::WRONG_PASSWORD, text))
        }
    }
}

/// Returns true if the client has proved that it knows the password.
async fn exchange(shared: &Shared, wire: &mut Wire, role: &str) -> Result<bool, Failure> {
    let bound = shared.tls.as_ref().filter(|_| wire.is_secure()).map(|tls| tls.current().scram);
    let scram = bound.unwrap_or_default();
    let mut mechanisms = vec![SCRAM_SHA_256_METHOD.to_owned()];
    if scram.supports_channel_binding() {
        mechanisms.insert(0, SCRAM_SHA_256_PLUS_METHOD.to_owned());
    }
    wire.put(Out::Authentication(Authentication::SASL(mechanisms.clone())))?;
    wire.flush().await?;
    let Some(first) = answer(wire).await? else { return Ok(false) };
    let Ok(first) = first.into_sasl_initial_response() else { return Ok(false) };
    if !mechanisms.contains(&first.auth_method) {
        return Ok(false);
    }
    let first = first.data.unwrap_or_default();
    let begun = scram.on_client_first_message_with_secret(&first, secret(shared, role));
    let Ok((challenge, state)) = begun else { return Ok(false) };
    wire.put(Out::Authentication(Authentication::SASLContinue(Bytes::from(challenge))))?;
    wire.flush().await?;
    let Some(last) = answer(wire).await? else { return Ok(false) };
    let Ok(last) = last.into_sasl_response() else { return Ok(false) };
    match state.on_client_final_message(&last.data) {
        Ok(proof) => {
            wire.put(Out::Authentication(Authentication::SASLFinal(Bytes::from(proof))))?;
            Ok(true)
        }
        Err(PgWireError::IoError(error)) => Err(error.into()),
        Err(_) => Ok(false),
    }
}

/// Reads the next message of a login; `None` if the client leaves or sends something else.
async fn answer(wire: &mut Wire) -> Result<Option<PasswordMessageFamily>, Failure> {
    match wire.next().await? {
        Some(In::PasswordMessageFamily(message)) => Ok(Some(message)),
        _ => Ok(None),
    }
}

/// Returns the verifier of a role's password; for a role that may not log in, one that no password
/// matches.
fn secret(shared: &Shared, role: &str) -> ScramSecret {
    let known = shared.engine.catalog().role(role).filter(|role| role.can_login);
    let verifier = known.and_then(|role| role.verifier.clone());
    let Verifier { iterations, salt, stored_key, server_key } =
        verifier.unwrap_or_else(|| Verifier::of_none(&shared.secret, role));
    let iterations = usize::try_from(iterations).unwrap_or(usize::MAX);
    ScramSecret::Verifier { salt, iterations, stored_key, server_key }
}
