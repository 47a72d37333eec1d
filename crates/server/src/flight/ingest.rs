//! Bulk ingestion of a client's rows: the table is created, appended to or replaced as the client
//! requests, and either everything is kept or nothing.

use arrow_flight::decode::FlightRecordBatchStream;
use arrow_flight::error::FlightError;
use arrow_flight::sql::server::PeekableFlightDataStream;
use arrow_flight::sql::{CommandStatementIngest, TableExistsOption, TableNotExistOption};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::{DataType, SchemaRef};
use futures::{StreamExt as _, TryStreamExt as _};
use terrace_sql::session::{CopyIn, CopyRows, SessionStatement};
use terrace_sql::{DATABASE, Output, SqlError};
use tokio::task::JoinSet;

use super::columns::{cast_batch, plain_type};
use super::interrupt::Interrupt;
use super::rows::failure_of;
use super::session::ClientSession;
use crate::failure::{Failure, SqlState};
use crate::postgres::count_of;
use crate::registry::Shown;

/// Maximum number of rows of an inserted batch.
const BATCH_ROWS: usize = 8192;

/// The table that rows are inserted into.
struct Target {
    schema: String,
    table: String,
}

impl Target {
    /// Returns the quoted name of the table with its schema, for a statement.
    fn name(&self) -> String {
        format!("{}.{}", quoted(&self.schema), quoted(&self.table))
    }
}

impl ClientSession {
    /// Inserts the rows of a client. Returns their number.
    ///
    /// # Errors
    /// A table that exists or does not exist, against the client's request; rows that do not fit
    /// it.
    pub(super) async fn ingest(
        &self,
        command: &CommandStatementIngest,
        messages: PeekableFlightDataStream,
    ) -> Result<u64, Failure> {
        let _turn = self.turn.lock().await;
        // ADBC does not name the transaction of an ingestion, which is nevertheless a part of it.
        if command.transaction_id.is_some() {
            self.check_transaction(command.transaction_id.as_deref())?;
        }
        self.refuse_if_ended()?;
        let interrupt = self.interrupt();
        let run = async {
            let target = self.target(command)?;
            self.registered.show(&Shown::of(&format!("INGEST INTO {}", target.name())));
            let mut rows = Incoming::open(messages, &interrupt).await?;
            let transaction = self.begin_implicitly()?;
            self.define(command, &target, &rows.schema, &interrupt).await?;
            let inserted = self.insert(&target, &mut rows, &interrupt).await?;
            transaction.commit().await?;
            self.shared.counters.count_statement();
            Ok(inserted)
        };
        run.await.inspect_err(|_: &Failure| self.session.fail_transaction())
    }

    fn target(&self, command: &CommandStatementIngest) -> Result<Target, Failure> {
        if command.temporary {
            let text = "temporary tables are not possible; ingest into a table, and drop it";
            return Err(Failure::new(SqlState::UNSUPPORTED, text));
        }
        if let Some(other) = command.catalog.as_ref().filter(|name| *name != DATABASE) {
            let text = format!("there is no catalog {other:?}; there is {DATABASE}");
            return Err(Failure::new(SqlState::NO_DATABASE, text));
        }
        let default = || self.session.current_schema().unwrap_or_default();
        let given = command.schema.clone().filter(|schema| !schema.is_empty());
        let (schema, table) = (given.unwrap_or_else(default), command.table.clone());
        match table.is_empty() {
            true => Err(Failure::new(SqlState::INVALID_PARAMETER, "the table has no name")),
            false => Ok(Target { schema, table }),
        }
    }

    /// Creates or replaces the table, as the client requests.
    async fn define(
        &self,
        command: &CommandStatementIngest,
        target: &Target,
        schema: &SchemaRef,
        interrupt: &Interrupt,
    ) -> Result<(), Failure> {
        let options = command.table_definition_options;
        let Some(options) = options else {
            let text = "the command does not say what to do where there is the table, or is not";
            return Err(Failure::new(SqlState::INVALID_PARAMETER, text));
        };
        let exists = self.session.names().columns(&target.schema, &target.table).await?.is_some();
        let name = target.name();
        let statement = match (exists, options.if_exists(), options.if_not_exist()) {
            (true, TableExistsOption::Append, _) => return Ok(()),
            (true, TableExistsOption::Fail, _) => {
                let text = format!("there is a table {name} already");
                return Err(Failure::new(SqlState::DUPLICATE_TABLE, text));
            }
            (false, _, TableNotExistOption::Fail) => {
                let text = format!("there is no table {name}");
                return Err(Failure::new(SqlState::NO_TABLE, text));
            }
            (true, TableExistsOption::Replace, _) => definition("CREATE OR REPLACE", &name, schema),
            (false, _, TableNotExistOption::Create) => definition("CREATE", &name, schema),
            (true, TableExistsOption::Unspecified, _)
            | (false, _, TableNotExistOption::Unspecified) => {
                let text = "the command does not say what to do with the table";
                return Err(Failure::new(SqlState::INVALID_PARAMETER, text));
            }
        };
        interrupt.plan(self.session.sql(&statement)).await??;
        Ok(())
    }

    async fn insert(
        &self,
        target: &Target,
        rows: &mut Incoming,
        interrupt: &Interrupt,
    ) -> Result<u64, Failure> {
        let columns = rows.schema.fields().iter().map(|field| quoted(field.name()));
        let columns = columns.collect::<Vec<_>>().join(", ");
        let text = format!("COPY {} ({columns}) FROM STDIN (FORMAT binary)", target.name());
        let Some(SessionStatement::Copy(copy)) = self.session.parse(&text)?.pop() else {
            let text = "the statement of an ingestion could not be made";
            return Err(Failure::new(SqlState::INTERNAL, text));
        };
        let CopyIn { schema, rows: sender, handle } =
            interrupt.plan(self.session.copy_in(&copy)).await??;
        let mut inserting = JoinSet::new();
        inserting.spawn(handle.collect());
        if let Sent::All = rows.send(&sender, &schema, interrupt).await? {
            // False if the insertion has failed, which is reported below.
            let _goes_on = interrupt.wait(sender.send(None)).await?;
        }
        inserted(&mut inserting, interrupt).await
    }
}

/// Returns the statement that creates an empty table with the columns of `schema`; `words` are the
/// words before its name, such as `CREATE TABLE`.
fn definition(words: &str, name: &str, schema: &SchemaRef) -> String {
    let columns = schema.fields().iter().map(|field| {
        let data_type = match plain_type(field.data_type()) {
            DataType::Null => DataType::Utf8,
            data_type => data_type,
        };
        let data_type = data_type.to_string().replace('\'', "''");
        format!("arrow_cast(NULL, '{data_type}') AS {}", quoted(field.name()))
    });
    let columns = columns.collect::<Vec<_>>().join(", ");
    format!("{words} TABLE {name} AS SELECT {columns} WHERE false")
}

fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// Waits for the insertion, and returns the number of inserted rows.
async fn inserted(
    inserting: &mut JoinSet<Result<Output, SqlError>>,
    interrupt: &Interrupt,
) -> Result<u64, Failure> {
    let Some(ended) = interrupt.wait(inserting.join_next()).await? else { return Ok(0) };
    let failed = |error| Failure::new(SqlState::INTERNAL, format!("the insertion: {error}"));
    Ok(count_of(&ended.map_err(failed)??.batches))
}

/// Result of sending a client's rows to an insertion.
enum Sent {
    All,
    /// Only some of the rows, because the insertion has failed.
    Part,
}

/// The rows that a client sends.
struct Incoming {
    schema: SchemaRef,
    first: Option<RecordBatch>,
    batches: FlightRecordBatchStream,
}

impl Incoming {
    /// Reads the schema, and the first batch if there is one.
    async fn open(
        messages: PeekableFlightDataStream,
        interrupt: &Interrupt,
    ) -> Result<Self, Failure> {
        let messages = messages.map_err(|status| FlightError::Tonic(Box::new(status)));
        let mut batches = FlightRecordBatchStream::new_from_flight_data(messages);
        let first = interrupt.wait(batches.next()).await?.transpose().map_err(failure_of)?;
        let schema = batches.schema().cloned();
        let none = || Failure::new(SqlState::PROTOCOL, "rows without their columns");
        let schema = schema.filter(|schema| !schema.fields().is_empty()).ok_or_else(none)?;
        Ok(Self { schema, first, batches })
    }

    /// Sends all rows to an insertion, with the types of its columns.
    async fn send(
        &mut self,
        sender: &CopyRows,
        schema: &SchemaRef,
        interrupt: &Interrupt,
    ) -> Result<Sent, Failure> {
        loop {
            let batch = match self.first.take() {
                Some(batch) => batch,
                None => match interrupt.wait(self.batches.next()).await? {
                    Some(batch) => batch.map_err(failure_of)?,
                    None => return Ok(Sent::All),
                },
            };
            for start in (0..batch.num_rows()).step_by(BATCH_ROWS) {
                let part = batch.slice(start, BATCH_ROWS.min(batch.num_rows() - start));
                let part = cast_batch(&part, schema)?;
                if !interrupt.wait(sender.send(Some(part))).await? {
                    return Ok(Sent::Part);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::datatypes::{Field, Schema};

    use super::*;

    #[test]
    fn tables_have_the_types_of_the_rows() {
        let schema = Schema::new(vec![
            Field::new("a\"b", DataType::Int64, false),
            Field::new("c", DataType::Null, true),
            Field::new("d", DataType::Utf8View, true),
        ]);
        let text = definition("CREATE", "t", &Arc::new(schema));
        let expected = "CREATE TABLE t AS SELECT arrow_cast(NULL, 'Int64') AS \"a\"\"b\", \
                        arrow_cast(NULL, 'Utf8') AS \"c\", arrow_cast(NULL, 'Utf8') AS \"d\" \
                        WHERE false";
        assert_eq!(text, expected);
    }
}
