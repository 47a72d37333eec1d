//! Counters of statements and errors, over all connections of a server.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard};

use pgwire::messages::PgWireBackendMessage;
use terrace_sys::sync::lock;

/// The field of an error response that holds its SQLSTATE.
const SQLSTATE: u8 = b'C';

/// Counters of succeeded statements, of errors, and of refused connections.
#[derive(Debug, Default)]
pub(crate) struct Counters {
    statements: AtomicU64,
    refused: AtomicU64,
    errors: Mutex<BTreeMap<String, u64>>,
}

impl Counters {
    /// Counts a message to a client if it ends a statement, with success or with an error.
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

    /// Counts an error that is reported to a client.
    pub(crate) fn count_error(&self, state: &str) {
        *self.lock().entry(state.to_owned()).or_default() += 1;
    }

    /// Counts a connection that was refused because the server is full.
    pub(crate) fn count_refused(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of statements that have succeeded.
    pub(crate) fn statements(&self) -> u64 {
        self.statements.load(Ordering::Relaxed)
    }

    /// Returns the number of connections that were refused because the server was full.
    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Ordering::Relaxed)
    }

    /// Returns the number of errors reported to clients, by SQLSTATE.
    pub(crate) fn errors(&self) -> Vec<(String, u64)> {
        self.lock().iter().map(|(state, count)| (state.clone(), *count)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, BTreeMap<String, u64>> {
        lock(&self.errors)
    }
}
