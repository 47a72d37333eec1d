//! Tickets of a session's queries, and its prepared statements.

use std::sync::Arc;
use std::time::Instant;

use super::prepared_statement::Statement;
use super::query::Query;
use super::session::{ClientSession, Ticket};
use crate::failure::{Failure, SqlState};

/// Maximum number of a session's queries whose rows were not fetched yet.
const TICKETS_MAX: usize = 100;
/// Maximum number of a session's prepared statements.
const STATEMENTS_MAX: usize = 10_000;

impl ClientSession {
    /// Keeps a query until its rows are fetched. Returns its ticket number.
    ///
    /// # Errors
    /// The session has the maximum number of tickets.
    pub(super) fn issue(&self, query: Query) -> Result<u64, Failure> {
        self.refuse_if_ended()?;
        let mut state = self.state();
        if state.tickets.len() >= TICKETS_MAX {
            let text = format!(
                "the session has {TICKETS_MAX} queries whose rows were not fetched; fetch or \
                 cancel them"
            );
            return Err(Failure::new(SqlState::TOO_MANY, text));
        }
        state.last += 1;
        let number = state.last;
        state.running.insert(number, query.end());
        state.tickets.insert(number, Ticket { query, issued: Instant::now() });
        Ok(number)
    }

    /// Returns the query of a ticket. A ticket can be redeemed once.
    ///
    /// # Errors
    /// A ticket that belongs to no query, was used or has expired.
    pub(super) fn redeem(&self, number: u64) -> Result<Query, Failure> {
        let ticket = self.state().tickets.remove(&number);
        ticket.map(|ticket| ticket.query).ok_or_else(|| {
            let text = "the ticket is of no query of the session, was used or has expired";
            Failure::new(SqlState::NO_PORTAL, text)
        })
    }

    /// Removes a query that has ended from the running queries of the session.
    pub(super) fn finished(&self, number: u64) {
        self.state().running.remove(&number);
    }

    /// Cancels the query of a ticket, whether its rows are being fetched or not. Returns false if
    /// there is none.
    pub(super) fn cancel(&self, number: u64) -> bool {
        let mut state = self.state();
        let (ticket, running) = (state.tickets.remove(&number), state.running.remove(&number));
        drop(state);
        let is_known = ticket.is_some() || running.is_some();
        drop(ticket);
        running.inspect(|running| running.give());
        is_known
    }

    /// Keeps a prepared statement. Returns its number.
    ///
    /// # Errors
    /// The session has the maximum number of prepared statements.
    pub(super) fn keep(&self, statement: Statement) -> Result<u64, Failure> {
        self.refuse_if_ended()?;
        let mut state = self.state();
        if state.prepared.len() >= STATEMENTS_MAX {
            let text = format!("a session has at most {STATEMENTS_MAX} prepared statements");
            return Err(Failure::new(SqlState::TOO_MANY, text));
        }
        state.last += 1;
        let number = state.last;
        state.prepared.insert(number, Arc::new(statement));
        Ok(number)
    }

    /// Returns the prepared statement with a number.
    ///
    /// # Errors
    /// A statement that does not exist.
    pub(super) fn prepared(&self, number: u64) -> Result<Arc<Statement>, Failure> {
        self.state().prepared.get(&number).cloned().ok_or_else(no_statement)
    }

    /// Drops a prepared statement.
    ///
    /// # Errors
    /// A statement that does not exist.
    pub(super) fn forget(&self, number: u64) -> Result<(), Failure> {
        let statement = self.state().prepared.remove(&number);
        statement.map(drop).ok_or_else(no_statement)
    }
}

fn no_statement() -> Failure {
    Failure::new(SqlState::NO_STATEMENT, "there is no prepared statement of this handle")
}
