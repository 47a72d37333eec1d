//! Engines in processes of their own, which answer queries one line at a time.
//!
//! Each peer keeps its database open; the time of a query is taken inside the peer, from the text
//! to the last row. A line to a peer is a [`Request`], a line from it a [`Reply`]. The first reply
//! to each client says that the peer is ready for it.

pub mod engine;
pub mod process;
pub mod serve;

use serde::{Deserialize, Serialize};

/// A query for a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Whose query it is. The queries of one client run one after another, in a session of its
    /// own; those of several at the same time.
    pub client: usize,
    /// Its text.
    pub sql: String,
}

/// What came of a query.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reply {
    /// Whose query it was.
    pub client: usize,
    /// From its text to its last row.
    pub seconds: f64,
    /// Rows of the result.
    pub rows: usize,
    /// Why it failed.
    pub error: Option<String>,
}
