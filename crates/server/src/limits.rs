//! Limits of a server and of its connections.

use std::time::Duration;

/// Limits of a server and of each of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Connections of a listener that have yet to log in, beside those; one more is closed.
    pub logins: usize,
    /// Bytes of one message of a client, before it has logged in.
    pub login_bytes: usize,
    /// Bytes of one message of a client that has logged in.
    pub message_bytes: usize,
    /// Longest duration of a login.
    pub login_time: Duration,
    /// Longest time that a client may leave sent messages unread.
    pub unread_time: Duration,
    /// Longest time that a session by Flight SQL that has a token stays without a call.
    pub session_idle_time: Duration,
    /// Longest time that a session by Flight SQL stays without a connection of its client.
    pub session_detached_time: Duration,
    /// Longest time that statements may go on after the end of the server was asked for.
    pub shutdown_time: Duration,
    /// Shortest time of statements that are logged. Statements that fail are logged always, and
    /// without this they alone are.
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
