//! Errors of a server.

use std::io;
use std::net::SocketAddr;

/// Errors that prevent a server from listening.
#[derive(Debug, thiserror::Error)]
pub enum ServerError {
    /// An address that other machines can reach, without TLS.
    #[error(
        "listening at {0} is not possible without TLS: passwords and rows could be read on their \
         way; name a certificate and its key by --tls-cert and --tls-key, or listen at 127.0.0.1, \
         [::1] or a Unix socket"
    )]
    NoTls(SocketAddr),
    /// An address that other machines can reach, of a database without logins.
    #[error(
        "listening at {0} is not possible without logins: all who reach the address could read \
         and change everything; make a role first, by terrace sql: CREATE ROLE admin SUPERUSER \
         LOGIN PASSWORD '...'"
    )]
    NoLogins(SocketAddr),
    /// The system provides no random bytes.
    #[error("the system gives no random bytes: {0}")]
    Random(String),
    /// An address for HTTP that other machines can reach.
    #[error(
        "serving HTTP at {0} is not possible: it has no encryption, and passwords and statements \
         could be read on their way; listen at 127.0.0.1 or [::1], and reach it by a \
         tunnel, such as ssh -L 8080:127.0.0.1:8080"
    )]
    OpenHttp(SocketAddr),
    /// The system refuses to listen at an address.
    #[error("listening at {place}: {source}")]
    Listen {
        /// The address or path.
        place: String,
        /// The system's error.
        source: io::Error,
    },
}
