//! Constant statements: their rows follow from their text, such as the `SELECT 1` with which
//! connection pools check that a connection works. They are planned and run only once.

use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::response::CommandComplete;
use terrace_sql::{Prepared, Session};

use super::cell::{ColumnWriter, Format};
use super::encoded::{encode, put_row};
use super::failure::Failure;
use super::session::zone;
use super::statement::Statement;

/// Maximum number of constant statements that a connection keeps, and maximum length of their texts
/// in bytes.
const TEXTS_MAX: usize = 64;
pub(super) const TEXT_BYTES_MAX: usize = 256;

/// The constant statements of a connection, by their texts.
#[derive(Default)]
pub(super) struct Constants(HashMap<String, Arc<Statement>>);

impl Constants {
    /// Returns the constant statement with this text, if its row is still valid. `oids` are the
    /// parameter types of the request; a constant statement has no parameters.
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

/// Returns the encoded row and command tag of a constant statement. A row is valid only under the
/// settings that it was computed with, which include the time zone.
///
/// # Errors
/// A type that cannot be sent to clients.
pub(super) fn answer<'a>(
    statement: &'a Statement,
    rows: &RecordBatch,
    formats: &[Format],
    session: &Session,
) -> Result<Cow<'a, [u8]>, Failure> {
    statement.encoded.answer.messages(formats, |buffer| {
        let zone = zone(session)?;
        let columns = rows.columns().iter().zip(rows.schema_ref().fields()).zip(formats);
        let columns = columns
            .map(|((array, field), format)| ColumnWriter::of_field(array, field, *format, zone));
        put_row(buffer, &columns.collect::<Result<Vec<_>, _>>()?, 0)?;
        let tag = statement.command.tag(1);
        encode(&Out::CommandComplete(CommandComplete::new(tag)), buffer)
    })
}
