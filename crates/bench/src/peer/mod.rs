//! Engines in processes of their own, which answer queries one line at a time.
//!
//! Each peer keeps its database open; the time of a query is taken inside the peer, from the text
//! to the last row. A line to a peer is a [`Request`], a line from it a [`Reply`]. The first reply
//! to each client says that the peer is ready for it.

pub mod control_group;
pub mod engine;
pub mod process;
pub mod referee;
pub mod serve;

use serde::{Deserialize, Serialize};

use crate::suite::answer::Answer;

/// A query for a peer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Request {
    /// Whose query it is. The queries of one client run one after another, in a session of its
    /// own; those of several at the same time.
    pub client: usize,
    /// Its text.
    pub sql: String,
    /// True if the reply is to have the rows. They are turned into text after the time is taken.
    pub answer: bool,
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
    /// The rows, where they were asked for.
    #[serde(default)]
    pub answer: Option<Answer>,
}
