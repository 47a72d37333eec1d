//! Execution of statements, from a text or a prepared statement.

use std::sync::{Arc, Mutex};

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use futures::StreamExt as _;
use terrace_sql::session::SessionStatement;
use terrace_sql::{Prepared, QueryHandle, SqlError, TransactionStatus};
use terrace_sys::sync::lock;
use tokio::sync::Notify;

use super::columns::{cast_batch, plain_schema};
use super::interrupt::Interrupt;
use super::placeholders::numbered;
use super::session::ClientSession;
use crate::failure::{Failure, SqlState};
use crate::postgres::{Access, Command, Forget, Names, Settings, count_of, follow_changes, set};
use crate::registry::Shown;

/// A statement prepared by the client.
pub(super) struct Statement {
    text: String,
    statement: SessionStatement,
    /// The planned statement; `None` for a statement about settings or the transaction.
    prepared: Option<Prepared>,
    /// The columns of the result; `None` for a statement without rows.
    schema: Option<SchemaRef>,
    /// Rows of parameter values that the client has sent.
    values: Mutex<Option<Rows>>,
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
    fn bound(&self) -> Result<Rows, Failure> {
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

/// The result of a statement.
pub(super) enum Outcome {
    /// A query that returns rows.
    Rows(Query),
    /// The number of changed rows.
    Done(u64),
}

/// A running query, whose rows a client fetches.
pub(super) struct Query {
    schema: SchemaRef,
    source: Source,
    interrupt: Arc<Interrupt>,
}

enum Source {
    Running(QueryHandle),
    /// A result that is known: its only batch, until it is taken.
    Known(Option<RecordBatch>),
}

impl Query {
    /// Returns the columns in the types in which they are sent to clients.
    pub(super) fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the events that end the query early.
    pub(super) fn interrupt(&self) -> Arc<Interrupt> {
        Arc::clone(&self.interrupt)
    }

    /// Returns the notification that cancels the query.
    pub(super) fn end(&self) -> Arc<Notify> {
        self.interrupt.statement.end()
    }

    /// Returns the next batch, in the types in which it is sent to clients.
    ///
    /// # Errors
    /// The failure of the query, or the event that ended it.
    pub(super) async fn next(&mut self) -> Result<Option<RecordBatch>, Failure> {
        let batch = match &mut self.source {
            Source::Known(batch) => batch.take(),
            Source::Running(handle) => {
                self.interrupt.wait(handle.stream.next()).await?.transpose()?
            }
        };
        Ok(batch.map(|batch| cast_batch(&batch, &self.schema)).transpose()?)
    }
}

impl ClientSession {
    /// Runs a text of one statement, which must belong to the open transaction, if any.
    ///
    /// # Errors
    /// Errors of the statement, which make the transaction fail.
    pub(super) async fn run_text(
        &self,
        text: &str,
        transaction: Option<&[u8]>,
    ) -> Result<Outcome, Failure> {
        let _turn = self.turn.lock().await;
        self.check_transaction(transaction)?;
        let run = async { self.run(self.parse_one(text)?).await };
        self.registered.show(&Shown::of(text));
        run.await.inspect_err(|_| self.session.fail_transaction())
    }

    /// Returns the columns of a text's result without running it; `None` for a statement without
    /// rows.
    ///
    /// # Errors
    /// Errors of planning.
    pub(super) async fn schema_of(
        &self,
        text: &str,
        transaction: Option<&[u8]>,
    ) -> Result<Option<SchemaRef>, Failure> {
        Ok(self.prepare(text, transaction).await?.schema)
    }

    /// Plans a text of one statement without running it.
    ///
    /// # Errors
    /// Errors of planning.
    pub(super) async fn prepare(
        &self,
        text: &str,
        transaction: Option<&[u8]>,
    ) -> Result<Statement, Failure> {
        let _turn = self.turn.lock().await;
        self.check_transaction(transaction)?;
        self.registered.show(&Shown::of(text));
        let interrupt = self.interrupt();
        let planned = async {
            let statement = self.parse_one(text)?;
            let access = Settings::access(&statement);
            let is_planned = access.is_none() && matches!(statement, SessionStatement::Sql(_));
            let prepared = match is_planned {
                true => {
                    let planning = self.session.prepare(statement.clone(), &[]);
                    Some(interrupt.wait(Box::pin(planning)).await??)
                }
                false => None,
            };
            let schema = match (&access, &prepared) {
                (Some(Access::Show(name)), _) => Some(schema_of_setting(name)),
                (_, Some(prepared)) => {
                    let named = |schema| plain_schema(&Names::of(&statement).give(schema));
                    prepared.schema().map(named)
                }
                _ => None,
            };
            let (text, values) = (text.to_owned(), Mutex::default());
            Ok(Statement { text, statement, prepared, schema, values })
        };
        planned.await.inspect_err(|_: &Failure| self.session.fail_transaction())
    }

    /// Runs a prepared statement with one row of values.
    ///
    /// # Errors
    /// Errors of the statement; several rows of values.
    pub(super) async fn run_prepared(&self, statement: &Statement) -> Result<Outcome, Failure> {
        let _turn = self.turn.lock().await;
        self.refuse_if_ended()?;
        let mut rows = statement.bound()?;
        let values = match (rows.pop(), rows.len()) {
            (Some(values), 0) => values,
            (_, more) => {
                let text = format!(
                    "a query takes one row of values, and {} were sent; run it once for each",
                    more + usize::from(more > 0)
                );
                return Err(Failure::new(SqlState::UNSUPPORTED, text));
            }
        };
        self.registered.show(&Shown::of(&statement.text));
        let run = self.run_with(statement, values);
        run.await.inspect_err(|_| self.session.fail_transaction())
    }

    /// Runs a prepared statement once for each row of values; all runs are kept, or none. Returns
    /// the number of changed rows.
    ///
    /// # Errors
    /// Errors of the statement.
    pub(super) async fn update_prepared(&self, statement: &Statement) -> Result<u64, Failure> {
        let _turn = self.turn.lock().await;
        self.refuse_if_ended()?;
        let rows = statement.bound()?;
        self.registered.show(&Shown::of(&statement.text));
        let is_one = rows.len() == 1;
        let run = async {
            if is_one {
                return self.changes_of(statement, rows).await;
            }
            let transaction = self.begin_implicitly()?;
            let changed = self.changes_of(statement, rows).await?;
            transaction.commit().await?;
            Ok(changed)
        };
        run.await.inspect_err(|_| self.session.fail_transaction())
    }

    async fn changes_of(&self, statement: &Statement, rows: Rows) -> Result<u64, Failure> {
        let mut changed = 0;
        for values in rows {
            changed += self.run_with(statement, values).await?.finish().await?;
        }
        Ok(changed)
    }

    async fn run_with(
        &self,
        statement: &Statement,
        values: Vec<ScalarValue>,
    ) -> Result<Outcome, Failure> {
        let Some(prepared) = &statement.prepared else {
            return self.run(statement.statement.clone()).await;
        };
        let interrupt = self.interrupt();
        let running = self.session.execute_prepared(prepared, values);
        let handle = interrupt.wait(Box::pin(running)).await??;
        self.outcome(&statement.statement, handle, interrupt).await
    }

    /// Parses a text of one statement.
    fn parse_one(&self, text: &str) -> Result<SessionStatement, Failure> {
        let mut statements = self.session.parse(&numbered(text))?;
        match (statements.pop(), statements.len()) {
            (Some(statement), 0) => Ok(statement),
            (None, _) => Err(Failure::new(SqlState::SYNTAX, "the text has no statement")),
            _ => {
                let text = "several statements in one text; send one at a time";
                Err(Failure::new(SqlState::SYNTAX, text))
            }
        }
    }

    async fn run(&self, statement: SessionStatement) -> Result<Outcome, Failure> {
        match (&statement, Settings::access(&statement)) {
            (SessionStatement::Transaction(statement), _) => {
                self.transact(statement.clone()).await?;
                Ok(Outcome::Done(0))
            }
            (SessionStatement::Copy(copy), _) => {
                let text = format!(
                    "{copy} is not possible by Flight SQL; ingest the rows, or run a query"
                );
                Err(Failure::new(SqlState::UNSUPPORTED, text))
            }
            (_, Some(access)) => {
                if self.session.transaction_status() == TransactionStatus::Failed {
                    return Err(SqlError::TransactionFailed.into());
                }
                self.access(&access).await
            }
            _ => {
                let interrupt = self.interrupt();
                let running = self.session.execute(statement.clone());
                let handle = interrupt.wait(Box::pin(running)).await??;
                self.outcome(&statement, handle, interrupt).await
            }
        }
    }

    /// Returns the outcome of a statement that has started. A statement without rows runs to its
    /// end.
    async fn outcome(
        &self,
        statement: &SessionStatement,
        handle: QueryHandle,
        interrupt: Interrupt,
    ) -> Result<Outcome, Failure> {
        let returns_rows = matches!(Command::of(statement), Command::Rows(_));
        if returns_rows && !handle.schema.fields().is_empty() {
            let schema = plain_schema(&Names::of(statement).give(&handle.schema));
            let source = Source::Running(handle);
            return Ok(Outcome::Rows(Query { schema, source, interrupt: Arc::new(interrupt) }));
        }
        let mut stream = handle.stream;
        let mut changed = 0;
        while let Some(batch) = interrupt.wait(stream.next()).await? {
            changed += count_of(&[batch?]);
        }
        drop(stream);
        follow_changes(&self.session, &self.place.settings).await?;
        self.shared.counters.count_statement();
        Ok(Outcome::Done(changed))
    }

    /// Executes a statement about the session's state: sets or resets settings, or returns a
    /// setting as the only row of a result.
    async fn access(&self, access: &Access) -> Result<Outcome, Failure> {
        let settings = &self.place.settings;
        match access {
            Access::Set(name, value) => {
                let _told = set(&self.session, settings, name, value, false).await?;
            }
            Access::Show(name) => {
                let schema = schema_of_setting(name);
                let shown: ArrayRef = Arc::new(StringArray::from(vec![settings.get(name)]));
                let batch = RecordBatch::try_new(Arc::clone(&schema), vec![shown])?;
                let (source, interrupt) = (Source::Known(Some(batch)), self.interrupt());
                let interrupt = Arc::new(interrupt);
                return Ok(Outcome::Rows(Query { schema, source, interrupt }));
            }
            Access::SetLocal(..) | Access::SetLocalOfSession(_) => {
                let text = "SET LOCAL is not possible by Flight SQL; SET lasts for the session";
                return Err(Failure::new(SqlState::UNSUPPORTED, text));
            }
            Access::Cursor(cursor) => {
                let text = format!(
                    "{cursor} is not possible by Flight SQL; results come in batches as they are \
                     read"
                );
                return Err(Failure::new(SqlState::UNSUPPORTED, text));
            }
            Access::Forget(Forget::Nothing(_)) => {}
            Access::Forget(Forget::Settings) => {
                self.session.reset_settings();
                let _before = settings.replace(Settings::default());
            }
            Access::Forget(Forget::Statement(name)) => {
                let name = name.replace('"', "\"\"");
                self.session.sql(&format!("DEALLOCATE \"{name}\"")).await?;
            }
            Access::Forget(Forget::All | Forget::Statements | Forget::Portals) => {
                let text = "it is not possible by Flight SQL; close the session, or each \
                            statement by its handle";
                return Err(Failure::new(SqlState::UNSUPPORTED, text));
            }
        }
        self.shared.counters.count_statement();
        Ok(Outcome::Done(0))
    }
}

impl Outcome {
    /// Returns the number of changed rows; the rows of a query are discarded.
    pub(super) async fn finish(self) -> Result<u64, Failure> {
        match self {
            Self::Done(changed) => Ok(changed),
            Self::Rows(mut query) => {
                while query.next().await?.is_some() {}
                Ok(0)
            }
        }
    }
}

fn schema_of_setting(name: &str) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(name, DataType::Utf8, true)]))
}
