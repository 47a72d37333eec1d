//! Password verifiers, by which the server checks a client's password without storing it.
//!
//! SCRAM-SHA-256 (RFC 5802, RFC 7677) in the form that PostgreSQL keeps:
//! `SCRAM-SHA-256$iterations:salt$stored key:server key`, the last three in Base64.

use std::borrow::Cow;
use std::fmt;
use std::num::NonZeroU32;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use ring::{digest, hmac, pbkdf2};

use crate::error::SqlError;

const PREFIX: &str = "SCRAM-SHA-256";
/// Iterations of a new verifier, as many as PostgreSQL takes.
const ITERATIONS: NonZeroU32 = NonZeroU32::MIN.saturating_add(4095);
/// Maximum number of iterations of a verifier that a client sends.
const ITERATIONS_MAX: u32 = 10_000_000;
const SALT_BYTES: usize = 16;
/// Bytes of a key.
const KEY_BYTES: usize = digest::SHA256_OUTPUT_LEN;

/// A verifier of a password.
#[derive(Clone, PartialEq, Eq)]
pub struct Verifier {
    /// Rounds of the key derivation.
    pub iterations: u32,
    /// Salt of the key derivation.
    pub salt: Vec<u8>,
    /// SHA-256 of the client's key.
    pub stored_key: Vec<u8>,
    /// Key that the server proves its identity with.
    pub server_key: Vec<u8>,
}

impl Verifier {
    /// Returns the verifier of a password, with a new salt. A text that is already a verifier is
    /// parsed.
    ///
    /// # Errors
    /// [`SqlError::Refused`] for an empty password, and if the system provides no random bytes.
    pub fn of(password: &str) -> Result<Self, SqlError> {
        if password.is_empty() {
            return Err(SqlError::Refused {
                what: "an empty password".to_owned(),
                instead: "name one, or say PASSWORD NULL for a role that does not log in"
                    .to_owned(),
            });
        }
        if let Some(verifier) = Self::parse(password) {
            return Ok(verifier);
        }
        let mut salt = [0; SALT_BYTES];
        getrandom::fill(&mut salt).map_err(|error| SqlError::Refused {
            what: "making a salt".to_owned(),
            instead: format!("the system gives no random bytes: {error}"),
        })?;
        Ok(Self::derived(password, &salt, ITERATIONS))
    }

    /// Returns true if this is the verifier of the password.
    #[must_use]
    pub fn is_of(&self, password: &str) -> bool {
        let Some(iterations) = NonZeroU32::new(self.iterations) else { return false };
        let given = Self::derived(password, &self.salt, iterations);
        // Constant-time comparison: the duration must not tell how many bytes were right.
        let differences = given.stored_key.iter().zip(&self.stored_key);
        differences.fold(0, |all, (a, b)| all | (a ^ b)) == 0
    }

    fn derived(password: &str, salt: &[u8], iterations: NonZeroU32) -> Self {
        // Prepared with SASLprep as clients do; PostgreSQL takes text that cannot be prepared as it
        // is.
        let prepared = stringprep::saslprep(password).unwrap_or(Cow::Borrowed(password));
        let mut salted = [0; KEY_BYTES];
        let (algorithm, bytes) = (pbkdf2::PBKDF2_HMAC_SHA256, prepared.as_bytes());
        pbkdf2::derive(algorithm, iterations, salt, bytes, &mut salted);
        let key = hmac::Key::new(hmac::HMAC_SHA256, &salted);
        let client_key = hmac::sign(&key, b"Client Key");
        Self {
            iterations: iterations.get(),
            salt: salt.to_vec(),
            stored_key: digest::digest(&digest::SHA256, client_key.as_ref()).as_ref().to_vec(),
            server_key: hmac::sign(&key, b"Server Key").as_ref().to_vec(),
        }
    }

    /// Returns a verifier that no password matches, always the same for a name, so that clients
    /// cannot tell from it that there is no such role.
    #[must_use]
    pub fn of_none(secret: &[u8], name: &str) -> Self {
        let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
        let derived = |purpose: &str| {
            let text = format!("{purpose} {name}");
            hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
        };
        let mut salt = derived("salt");
        salt.truncate(SALT_BYTES);
        let (stored_key, server_key) = (derived("stored"), derived("server"));
        Self { iterations: ITERATIONS.get(), salt, stored_key, server_key }
    }

    /// Parses a verifier; returns `None` for any other text.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let parts = text.strip_prefix(PREFIX)?.strip_prefix('$')?;
        let (rounds, keys) = parts.split_once('$')?;
        let (iterations, salt) = rounds.split_once(':')?;
        let (stored_key, server_key) = keys.split_once(':')?;
        let bytes = |text: &str| STANDARD.decode(text).ok();
        let verifier = Self {
            iterations: iterations.parse().ok()?,
            salt: bytes(salt)?,
            stored_key: bytes(stored_key)?,
            server_key: bytes(server_key)?,
        };
        let is_whole = (1..=ITERATIONS_MAX).contains(&verifier.iterations)
            && !verifier.salt.is_empty()
            && verifier.stored_key.len() == KEY_BYTES
            && verifier.server_key.len() == KEY_BYTES;
        is_whole.then_some(verifier)
    }
}

impl fmt::Display for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = |bytes: &[u8]| STANDARD.encode(bytes);
        write!(f, "{PREFIX}${}:{}", self.iterations, text(&self.salt))?;
        write!(f, "${}:{}", text(&self.stored_key), text(&self.server_key))
    }
}

/// Omits the keys, which must not appear in logs.
impl fmt::Debug for Verifier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Verifier").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verifier_of_a_password_is_postgresqls() -> Result<(), String> {
        // PostgreSQL 15: CREATE ROLE r PASSWORD 'pencil'; SELECT rolpassword FROM pg_authid.
        let text = "SCRAM-SHA-256$4096:VqCpAlJIuwg8+DCnPgXSjw==$\
                    O9zmZkZgsSi+llkWnK9wDL9/8HvpErraES9Ga5UEKB8=:\
                    BhhIo6ToF/kPShVYrjmFzmeBxUnYR5sNlQYJteu9v9Y=";
        let Some(known) = Verifier::parse(text) else { return Err(format!("no verifier: {text}")) };
        assert_eq!(Verifier::derived("pencil", &known.salt, ITERATIONS), known);
        assert!(known.is_of("pencil") && !known.is_of("pen"));
        assert_eq!(known.to_string(), text);
        Ok(())
    }

    #[test]
    fn texts_that_are_no_verifiers_are_passwords() -> Result<(), SqlError> {
        for text in ["SCRAM-SHA-256$", "SCRAM-SHA-256$0:aaaa$a:b", "x"] {
            assert_eq!(Verifier::parse(text), None);
            assert_eq!(Verifier::of(text)?.iterations, ITERATIONS.get());
        }
        assert!(Verifier::of("").is_err());
        Ok(())
    }
}
