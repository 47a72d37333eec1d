//! Portals: statements bound to values, whose rows a client fetches step by step.

use std::sync::Arc;

use datafusion::common::ScalarValue;

use super::cell::Format;
use super::connection::Connection;
use super::cursor::Cursor;
use super::execute::Rows;
use super::failure::{Failure, SqlState};
use super::statement::Statement;

/// Maximum number of portals of a connection, and of its prepared statements.
pub(super) const NAMES_MAX: usize = 10_000;

/// A statement bound to the values of its parameters.
pub(super) struct Portal {
    pub(super) statement: Arc<Statement>,
    pub(super) values: Vec<ScalarValue>,
    pub(super) formats: Vec<Format>,
    pub(super) state: State,
    /// Properties of the cursor, if DECLARE created the portal.
    pub(super) cursor: Option<Cursor>,
}

/// Progress of a portal.
pub(super) enum State {
    Bound,
    Running(Box<Rows>),
    Ended,
}

impl Portal {
    pub(super) fn new(
        statement: Arc<Statement>,
        values: Vec<ScalarValue>,
        formats: Vec<Format>,
    ) -> Self {
        Self { statement, values, formats, state: State::Bound, cursor: None }
    }

    /// True if the portal runs and no row has been sent or skipped.
    pub(super) fn is_untouched(&self) -> bool {
        matches!(&self.state, State::Running(rows) if rows.is_untouched())
    }
}

impl Connection {
    pub(super) fn portal(&self, name: &str) -> Result<&Portal, Failure> {
        self.portals.get(name).ok_or_else(|| no_portal(name))
    }

    /// Refuses a new portal if the connection has the maximum number of them.
    pub(super) fn check_portals(&self) -> Result<(), Failure> {
        if self.portals.len() < NAMES_MAX {
            return Ok(());
        }
        let text = format!("a connection has at most {NAMES_MAX} portals");
        Err(Failure::new(SqlState::TOO_MANY, text))
    }
}

pub(super) fn no_portal(name: &str) -> Failure {
    Failure::new(SqlState::NO_PORTAL, format!("there is no portal {name:?}"))
}
