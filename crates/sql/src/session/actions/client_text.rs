//! Prepared statements that other sessions see by the SQL text that the client has sent.

use datafusion::arrow::datatypes::DataType;
use futures::future::BoxFuture;
use terrace_table::error::SqlError;

use crate::session::client_text::shown;
use crate::session::prepared_statement::Prepared;
use crate::session::state::Session;
use crate::session::statement::SessionStatement;

impl Session {
    /// Plans a statement as [`Session::prepare`] does. `text` is its SQL as the client has sent it,
    /// and is what other sessions see while it runs, unless it has a password or a key.
    ///
    /// # Errors
    /// As [`Session::prepare`].
    pub fn prepare_as<'a>(
        &'a self,
        statement: SessionStatement,
        types: &'a [Option<DataType>],
        text: &'a str,
    ) -> BoxFuture<'a, Result<Prepared, SqlError>> {
        Box::pin(async move {
            let mut prepared = self.prepare(statement, types).await?;
            let written = prepared.text.written().to_owned();
            prepared.text.show(shown(&prepared.statement, Some(text), &written));
            Ok(prepared)
        })
    }
}
