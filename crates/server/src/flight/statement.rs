//! Execution of statements, from a text or a prepared statement.

use std::sync::{Arc, Mutex};

use datafusion::arrow::array::{ArrayRef, RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::ScalarValue;
use futures::StreamExt as _;
use terrace_sql::session::SessionStatement;
use terrace_sql::{QueryHandle, SqlError, TransactionStatus as Status};

use super::columns::plain_schema;
use super::interrupt::Interrupt;
use super::placeholders::numbered;
use super::prepared_statement::{Rows, Statement};
use super::query::{Outcome, Query, Source};
use super::session::ClientSession;
use crate::failure::{Failure, SqlState};
use crate::pg_catalog::ColumnNames;
use crate::postgres::{Access, Command, Discard, count_of, set, shown};
use crate::query_batches::QueryBatches;
use crate::registry::Shown;
use crate::settings::{DEFAULT, Settings};

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
            self.follow_settings().await?;
            let access = Access::of(&statement);
            let is_planned = access.is_none()
                && matches!(statement, SessionStatement::Sql(_) | SessionStatement::Explain(_));
            let prepared = match is_planned {
                true => {
                    let planning = self.session.prepare_as(statement.clone(), &[], text);
                    Some(interrupt.plan(planning).await??)
                }
                false => None,
            };
            let schema = match (&access, &prepared) {
                (Some(Access::Show(name)), _) => Some(schema_of_setting(name)),
                (_, Some(prepared)) => {
                    let named = |schema| plain_schema(&ColumnNames::of(&statement).give(schema));
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
        self.follow_settings().await?;
        let interrupt = self.interrupt();
        let running = self.session.execute_prepared(prepared, values);
        let handle = interrupt.plan(running).await??;
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
        // Applies settings that an earlier query has changed by `set_config` while its rows were
        // fetched.
        self.follow_settings().await?;
        match (&statement, Access::of(&statement)) {
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
                if self.session.transaction_status() == Status::Failed {
                    return Err(SqlError::TransactionFailed.into());
                }
                self.access(&access).await
            }
            _ => {
                let (interrupt, shown) = (self.interrupt(), self.registered.shown());
                let running = self.session.execute_as(statement.clone(), Some(shown.text()));
                let handle = interrupt.plan(running).await??;
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
        let command = Command::in_session(&self.session, statement);
        if command.returns_rows() && !handle.schema.fields().is_empty() {
            let schema = plain_schema(&ColumnNames::of(statement).give(&handle.schema));
            let source = Source::Running(QueryBatches::new(handle));
            return Ok(Outcome::Rows(Query { schema, source, interrupt: Arc::new(interrupt) }));
        }
        let mut stream = handle.stream;
        let mut changed = 0;
        while let Some(batch) = interrupt.wait(stream.next()).await? {
            changed += count_of(&[batch?]);
        }
        drop(stream);
        self.follow_settings().await?;
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
            Access::Reset(name) => {
                let _told = set(&self.session, settings, name, DEFAULT, false).await?;
            }
            Access::Show(name) => {
                let schema = schema_of_setting(name);
                let shown = shown(&self.session, settings, name)?;
                let shown: ArrayRef = Arc::new(StringArray::from(vec![shown]));
                let batch = RecordBatch::try_new(Arc::clone(&schema), vec![shown])?;
                let (source, interrupt) = (Source::Known(Some(batch)), self.interrupt());
                let interrupt = Arc::new(interrupt);
                return Ok(Outcome::Rows(Query { schema, source, interrupt }));
            }
            // Clients of Flight SQL see no warnings, which PostgreSQL gives here.
            Access::SetLocal(..) if self.session.transaction_status() == Status::Idle => {
                let text =
                    "SET LOCAL has no effect outside of a transaction; begin one, or say SET";
                return Err(Failure::new(SqlState::NO_TRANSACTION, text));
            }
            Access::SetLocal(name, value) => {
                let _told = set(&self.session, settings, name, value, true).await?;
            }
            Access::SetLocalOfSession(name) => {
                let text = format!("SET LOCAL {name} is not possible; SET lasts for the session");
                return Err(Failure::new(SqlState::UNSUPPORTED, text));
            }
            Access::Cursor(cursor) => {
                let text = format!(
                    "{cursor} is not possible by Flight SQL; results come in batches as they are \
                     read"
                );
                return Err(Failure::new(SqlState::UNSUPPORTED, text));
            }
            Access::Discard(Discard::Nothing(_)) => {}
            Access::Discard(Discard::Settings) => {
                self.session.reset_settings();
                let begun = settings.with_role(Settings::of_engine(&self.shared.engine))?;
                let _before = settings.replace(begun);
            }
            Access::Discard(Discard::Statement(name)) => {
                let name = name.replace('"', "\"\"");
                self.session.sql(&format!("DEALLOCATE \"{name}\"")).await?;
            }
            Access::Discard(Discard::All | Discard::Statements | Discard::Portals) => {
                let text = "it is not possible by Flight SQL; close the session, or each \
                            statement by its handle";
                return Err(Failure::new(SqlState::UNSUPPORTED, text));
            }
        }
        self.shared.counters.count_statement();
        Ok(Outcome::Done(0))
    }
}

fn schema_of_setting(name: &str) -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new(name, DataType::Utf8, true)]))
}
