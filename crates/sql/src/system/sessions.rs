//! `terrace.sessions`: the open sessions, their state, and the memory that they hold.

use std::sync::Arc;

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::Field;
use terrace_governor::query::{Query, QueryState, WaitReason};
use terrace_sys::size::to_u64;
use terrace_table::transaction::TransactionStatus;

use super::columns::{moment, moments, number, numbers, text, texts};
use crate::engine::EngineState;
use crate::sessions::SessionInfo;

pub(super) fn columns() -> Vec<Field> {
    vec![
        number("id"),
        text("role"),
        text("tenant"),
        text("client"),
        moment("began_at"),
        text("state"),
        text("wait_reason"),
        number("queries"),
        number("held_bytes"),
        number("client_bytes"),
        number("prepared_statements"),
        number("prepared_bytes"),
    ]
}

/// A session with its running queries, oldest first.
struct Row {
    session: Arc<SessionInfo>,
    queries: Vec<Arc<Query>>,
}

impl Row {
    /// The state of its youngest query, or of its transaction if no query is running.
    fn state(&self) -> String {
        match (self.queries.last(), self.session.transaction_status()) {
            (Some(query), _) => query.state().to_string(),
            (None, _) if self.session.commits().waits_for_lock() => QueryState::Running.to_string(),
            (None, TransactionStatus::Idle) => "idle".to_owned(),
            (None, TransactionStatus::Open) => "idle in transaction".to_owned(),
            (None, TransactionStatus::Failed) => "idle in failed transaction".to_owned(),
        }
    }
}

impl Row {
    /// The event that its youngest query waits for, or its commit.
    fn wait_reason(&self) -> Option<WaitReason> {
        let of_query = self.queries.last().and_then(|query| query.wait_reason());
        let is_locked = || self.session.commits().waits_for_lock();
        of_query.or_else(|| is_locked().then_some(WaitReason::Lock))
    }
}

pub(super) fn values(engine: &EngineState) -> Vec<ArrayRef> {
    let running = engine.queries().running();
    let of = |session: Arc<SessionInfo>| {
        let is_own = |query: &&Arc<Query>| query.session() == Some(session.number());
        let queries = running.iter().filter(is_own).cloned().collect();
        Row { session, queries }
    };
    let rows: Vec<Row> = engine.sessions().list().into_iter().map(of).collect();
    let named = |name: Option<&str>| name.map(str::to_owned);
    vec![
        numbers(&rows, |row| Some(row.session.number())),
        texts(&rows, |row| named(row.session.role())),
        texts(&rows, |row| named(row.session.tenant())),
        texts(&rows, |row| named(row.session.client())),
        moments(&rows, |row| Some(row.session.began_at())),
        texts(&rows, |row| Some(row.state())),
        texts(&rows, |row| row.wait_reason().map(|reason| reason.to_string())),
        numbers(&rows, |row| Some(to_u64(row.queries.len()))),
        numbers(&rows, |row| Some(row.queries.iter().map(|it| it.memory().held_bytes()).sum())),
        numbers(&rows, |row| Some(row.session.client_bytes())),
        numbers(&rows, |row| Some(row.session.prepared().0)),
        numbers(&rows, |row| Some(row.session.prepared().1)),
    ]
}
