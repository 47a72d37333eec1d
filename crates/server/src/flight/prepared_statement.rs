//! Statements prepared by a client, with the values of their parameters.

use std::sync::Mutex;

use datafusion::arrow::datatypes::{DataType, SchemaRef};
use datafusion::common::ScalarValue;
use terrace_sql::Prepared;
use terrace_sql::session::SessionStatement;
use terrace_sys::sync::lock;

use crate::failure::{Failure, SqlState};

/// A statement prepared by the client.
pub(super) struct Statement {
    pub(super) text: String,
    pub(super) statement: SessionStatement,
    /// The planned statement; `None` for a statement about settings or the transaction.
    pub(super) prepared: Option<Prepared>,
    /// The columns of the result; `None` for a statement without rows.
    pub(super) schema: Option<SchemaRef>,
    /// Rows of parameter values that the client has sent.
    pub(super) values: Mutex<Option<Rows>>,
}

/// Rows of parameter values.
pub(super) type Rows = Vec<Vec<ScalarValue>>;

impl Statement {
    /// Returns the columns of the result; `None` for a statement without rows.
    pub(super) fn schema(&self) -> Option<&SchemaRef> {
        self.schema.as_ref()
    }

    /// Returns the types of the parameters.
    pub(super) fn parameters(&self) -> &[DataType] {
        self.prepared.as_ref().map_or(&[], Prepared::parameters)
    }

    /// Binds the parameters to rows of values.
    pub(super) fn bind(&self, rows: Rows) {
        *lock(&self.values) = Some(rows);
    }

    /// Returns the values bound to the parameters.
    ///
    /// # Errors
    /// Parameters without values.
    pub(super) fn bound(&self) -> Result<Rows, Failure> {
        let wanted = self.parameters().len();
        let bound = lock(&self.values).clone();
        match bound {
            Some(rows) => Ok(rows),
            None if wanted == 0 => Ok(vec![vec![]]),
            None => {
                let text =
                    format!("the statement has {wanted} parameters, and no values were sent");
                Err(Failure::new(SqlState::PROTOCOL, text))
            }
        }
    }
}
