//! Limits of a server and of its connections.

use std::time::Duration;

/// Limits of a server and of each of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Maximum number of connections at a time.
    pub connections: usize,
    /// Maximum number of connections of a listener that have yet to log in, in addition to
    /// `connections`; one more is closed.
    pub logins: usize,
    /// Maximum size in bytes of a client's message before the login.
    pub login_bytes: usize,
    /// Maximum size in bytes of a client's message after the login.
    pub message_bytes: usize,
    /// Maximum duration of a login.
    pub login_time: Duration,
    /// Maximum time that a client may leave sent messages unread.
    pub unread_time: Duration,
    /// Maximum time that a Flight SQL session with a token stays without a call.
    pub session_idle_time: Duration,
    /// Maximum time that a Flight SQL session stays without a connection of its client.
    pub session_detached_time: Duration,
    /// Maximum time that statements may continue after the server's shutdown has begun.
    pub shutdown_time: Duration,
    /// Minimum duration of succeeded statements that are logged; `None` logs none of them. Failed
    /// statements are always logged.
    pub logged_time: Option<Duration>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 100,
            logins: 1_000,
            login_bytes: 10_000,
            message_bytes: 64 << 20,
            login_time: Duration::from_secs(60),
            unread_time: Duration::from_secs(300),
            session_idle_time: Duration::from_secs(8 * 3600),
            session_detached_time: Duration::from_secs(30),
            shutdown_time: Duration::from_secs(10),
            logged_time: None,
        }
    }
}
