//! Constant statements: their rows follow from their text, such as the `SELECT 1` with which
//! connection pools check that a connection works. They are planned and run only once.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::sql::sqlparser::ast::{SetExpr, Statement as SqlStatement};
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::response::CommandComplete;
use terrace_sql::session::SessionStatement;
use terrace_sql::{Prepared, Session};

use super::cell::{ColumnWriter, Format};
use super::command::Command;
use super::connection::Connection;
use super::execute::{description, zone};
use super::failure::Failure;
use super::statement::{Statement, parsed};
use crate::registry::Shown;

/// Maximum number of texts that a connection keeps, and maximum length of one in bytes.
const TEXTS_MAX: usize = 64;
const TEXT_BYTES_MAX: usize = 256;

/// The constant statements of a connection, by their texts.
#[derive(Default)]
pub(super) struct Constants(HashMap<String, Arc<Statement>>);

impl Constants {
    /// Returns the statement of a text, if its rows are still known. `oids` are the types of
    /// parameters in the request; a constant statement has none.
    pub(super) fn find(
        &self,
        session: &Session,
        text: &str,
        oids: &[u32],
    ) -> Option<Arc<Statement>> {
        let statement = self.0.get(text).filter(|_| oids.is_empty())?;
        let prepared = statement.prepared.as_ref()?;
        session.is_known(prepared).then(|| Arc::clone(statement))
    }

    /// Keeps a statement if it is constant.
    pub(super) fn keep(&mut self, text: &str, statement: &Arc<Statement>) {
        let is_known = statement.prepared.as_ref().is_some_and(Prepared::is_constant);
        // A DECLARE of a constant query returns no row.
        let is_known = is_known && statement.access.is_none();
        if !is_known || text.len() > TEXT_BYTES_MAX || !statement.oids.is_empty() {
            return;
        }
        if self.0.len() >= TEXTS_MAX {
            self.0.clear();
        }
        self.0.insert(text.to_owned(), Arc::clone(statement));
    }
}

impl Connection {
    /// Answers a text whose rows are known. Returns false for any other.
    pub(super) fn answer_known_text(&mut self, text: &str) -> Result<bool, Failure> {
        match self.constants.find(&self.session, text, &[]) {
            Some(statement) => self.answer_known(&statement),
            None => Ok(false),
        }
    }

    /// Answers the only statement of a text if it is constant, and keeps it. Returns false for any
    /// other.
    pub(super) async fn learn(
        &mut self,
        text: &str,
        statement: &SessionStatement,
    ) -> Result<bool, Failure> {
        // Calls of functions are seldom constant.
        if text.len() > TEXT_BYTES_MAX || text.contains('(') || !reads_nothing(statement) {
            return Ok(false);
        }
        let command = Command::of(statement);
        let guard = self.control.guard(&self.settings);
        // An error is reported by the regular path, which runs the statement again.
        let Ok(prepared) = guard.wait(self.session.prepare(statement.clone(), &[])).await? else {
            return Ok(false);
        };
        drop(guard);
        let (prepared, access, oids, shown) = (Some(prepared), None, vec![], Shown::of(text));
        let statement = Arc::new(Statement { prepared, command, access, oids, shown });
        self.constants.keep(text, &statement);
        self.answer_known(&statement)
    }

    fn answer_known(&mut self, statement: &Statement) -> Result<bool, Failure> {
        let Some(prepared) = &statement.prepared else { return Ok(false) };
        let Some(rows) = self.session.known_rows(prepared)? else { return Ok(false) };
        let formats = vec![Format::Text; rows.num_columns()];
        let columns = columns(&rows, &formats, &self.session)?;
        let schema = statement.schema().unwrap_or_else(|| rows.schema());
        self.wire.put(Out::RowDescription(description(&schema, &formats)?))?;
        self.wire.put_row(&columns, 0)?;
        let tag = statement.command.tag(1);
        self.wire.put(Out::CommandComplete(CommandComplete::new(tag)))?;
        Ok(true)
    }
}

/// Returns the writers of a row whose values are known.
///
/// # Errors
/// A type that cannot be sent to clients.
pub(super) fn columns(
    rows: &RecordBatch,
    formats: &[Format],
    session: &Session,
) -> Result<Vec<ColumnWriter>, Failure> {
    let zone = zone(session)?;
    let columns = rows.columns().iter().zip(formats);
    let columns = columns.map(|(array, format)| ColumnWriter::new(array, *format, zone));
    Ok(columns.collect::<Result<_, _>>()?)
}

/// True for a SELECT without FROM, which may be constant.
fn reads_nothing(statement: &SessionStatement) -> bool {
    let Some(SqlStatement::Query(query)) = parsed(statement) else { return false };
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    query.with.is_none() && select.from.is_empty()
}
