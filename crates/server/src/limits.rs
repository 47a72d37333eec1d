//! What one client may take of a server.

use std::time::Duration;

/// Limits of a server and of each of its connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections at a time.
    pub connections: usize,
    /// Bytes of one message of a client, before it has logged in.
    pub login_bytes: usize,
    /// Bytes of one message of a client that has logged in.
    pub message_bytes: usize,
    /// How long logging in may take.
    pub login_time: Duration,
    /// How long a client may leave what it is sent unread while a statement runs.
    pub unread_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 100,
            login_bytes: 10_000,
            message_bytes: 64 << 20,
            login_time: Duration::from_secs(60),
            unread_time: Duration::from_secs(300),
        }
    }
}
