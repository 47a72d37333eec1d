//! Portals: statements bound to values, whose rows a client fetches step by step.

use std::collections::HashMap;
use std::convert::Infallible;
use std::sync::Arc;

use datafusion::common::ScalarValue;
use futures::FutureExt as _;
use futures::future::{BoxFuture, join_all};
use tokio::time::sleep;

use super::cell::Format;
use super::failure::{Failure, SqlState};
use super::rows::{Keep, Rows};
use super::statement::Statement;
use crate::query_batches::SLOW;

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

/// Properties of a portal that DECLARE has created.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cursor {
    /// True if the cursor outlives its transaction.
    pub(super) is_held: bool,
    /// True if the transaction that declared the cursor has been committed.
    pub(super) is_committed: bool,
    /// The connection's number of changes when the cursor was declared.
    pub(super) changes: u64,
    /// True for SCROLL, false for NO SCROLL, `None` for neither.
    pub(super) scrolls: Option<bool>,
}

impl Portal {
    pub(super) fn new(
        statement: Arc<Statement>,
        values: Vec<ScalarValue>,
        formats: Vec<Format>,
    ) -> Self {
        Self { statement, values, formats, state: State::Bound, cursor: None }
    }

    /// Returns the rows that are kept, so that FETCH can return them again. A portal that DECLARE
    /// has not created keeps none: it only moves forward.
    pub(super) fn keep(&self) -> Keep {
        let Some(cursor) = self.cursor else { return Keep::Nothing };
        match cursor.scrolls {
            Some(true) => Keep::All,
            Some(false) => Keep::Nothing,
            None => Keep::Few,
        }
    }

    /// Returns the number of rows before the current row.
    pub(super) fn rows_before(&self) -> u64 {
        match &self.state {
            State::Running(rows) => rows.at().saturating_sub(1),
            State::Bound | State::Ended => 0,
        }
    }
}

/// Returns the failure of a statement about a portal that does not exist.
pub(super) fn no_portal(name: &str) -> Failure {
    Failure::new(SqlState::NO_PORTAL, format!("there is no portal {name:?}"))
}

/// Suspends the queries of all running portals until this future is dropped.
pub(super) async fn rest_between(portals: &mut HashMap<String, Portal>) -> Infallible {
    let mut resting: Vec<BoxFuture<'_, Infallible>> = Vec::new();
    for portal in portals.values_mut() {
        if let State::Running(rows) = &mut portal.state {
            resting.push(rows.rest().boxed());
        }
    }
    if !resting.is_empty() {
        sleep(SLOW).await;
        join_all(resting).await;
    }
    std::future::pending().await
}
