//! Peers: engines in separate processes, which read queries and write answers as lines of JSON.
//!
//! Each peer keeps its database open; the time of a query is measured inside the peer, from the
//! text to the last row. A line to a peer is a [`Request`], a line from it a [`Reply`]. The first
//! reply to each client reports that the peer is ready for it.

pub mod comparison;
pub mod control_group;
pub mod engine;
pub mod process;
pub mod serve;

use serde::{Deserialize, Serialize};

use crate::suite::answer::Answer;

/// A query for a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Number of the client. Each client has a session, in which its queries run one after another;
    /// the queries of several clients run concurrently.
    pub client: usize,
    /// Text of the query.
    pub sql: String,
    /// True if the reply must include the rows. They are converted to text after the time is taken.
    pub answer: bool,
}

/// Result of a query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Number of the client.
    pub client: usize,
    /// Time from the text to the last row.
    pub seconds: f64,
    /// Number of rows of the result.
    pub rows: usize,
    /// Error of a failed query.
    pub error: Option<String>,
    /// Rows of the result, if they were requested.
    #[serde(default)]
    pub answer: Option<Answer>,
}
