//! Counts of statements and errors, over all connections of a server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use pgwire::messages::PgWireBackendMessage;

/// The field of an error that has its SQLSTATE.
const SQLSTATE: u8 = b'C';

/// Counts of the messages that end statements, and of connections.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    statements: AtomicU64,
    refused: AtomicU64,
    errors: Mutex<BTreeMap<String, u64>>,
}

impl Counters {
    /// Counts a message for a client, if it ends a statement: with success, or with an error.
    pub(crate) fn count(&self, message: &PgWireBackendMessage) {
        match message {
            PgWireBackendMessage::CommandComplete(_) => {
                self.count_statement();
            }
            PgWireBackendMessage::ErrorResponse(error) => {
                let state = error.fields.iter().find(|(field, _)| *field == SQLSTATE);
                if let Some((_, state)) = state {
                    self.count_error(state);
                }
            }
            _ => {}
        }
    }

    /// Counts a statement that has succeeded.
    pub(crate) fn count_statement(&self) {
        self.statements.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an error that a client is told.
    pub(crate) fn count_error(&self, state: &str) {
        *self.lock().entry(state.to_owned()).or_default() += 1;
    }

    /// Counts a connection that there was no place for.
    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Statements that have succeeded.
    pub(crate) fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// Connections that there was no place for.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Errors that clients were told, by SQLSTATE.
    pub(crate) fn errors(&self) -> Vec<(String, u64)> {
        self.lock().iter().map(|(state, count)| (state.clone(), *count)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        self.errors.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
