//! The simple query protocol: texts of one or several statements, which run one after the other.

use std::sync::{Arc, OnceLock};

use datafusion::sql::sqlparser::ast::{SetExpr, Statement as SqlStatement};
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};
use terrace_sql::session::{SessionStatement, statement_texts};

use super::access::Access;
use super::cell::Format;
use super::command::{Command, executed};
use super::connection::Connection;
use super::constants::{TEXT_BYTES_MAX, answer};
use super::description::description;
use super::encoded::Encoded;
use super::failure::Failure;
use super::rows::{Keep, Rows};
use super::session::zone;
use super::statement::{Statement, prepared_name};
use crate::pg_catalog::ColumnNames;
use crate::registry::Shown;
use crate::syntax::parsed;

impl Connection {
    /// Runs the statements of a simple query, one after the other.
    pub(super) async fn simple(&mut self, text: &str) -> Result<(), Failure> {
        self.portals.remove("");
        if let Err(failure) = self.wire.check_text() {
            self.control.registered.show(&Shown::of(text));
            return Err(failure);
        }
        if self.answer_known_text(text)? {
            return self.ready().await;
        }
        self.control.registered.show(&Shown::of(text));
        let statements = self.session.parse(text)?;
        if let [statement] = statements.as_slice()
            && self.learn(text, statement).await?
        {
            return self.ready().await;
        }
        if statements.is_empty() {
            self.wire.put(Out::EmptyQueryResponse(EmptyQueryResponse::new()))?;
        }
        let (is_one, may_lock) = (statements.len() == 1, may_lock_rows(text));
        let texts = statement_texts(text, statements.len());
        for (statement, text) in statements.into_iter().zip(texts) {
            if !is_one {
                self.begin_settings();
            }
            match (&statement, Access::of(&statement)) {
                (SessionStatement::Transaction(statement), _) => self.transact(statement).await?,
                (SessionStatement::Copy(copy), _) => {
                    if !is_one {
                        self.begin_implicitly()?;
                    }
                    self.copy(copy).await?;
                }
                (_, Some(access)) => {
                    self.refuse_if_failed()?;
                    // Statements that are sent together are one transaction.
                    let is_of_transaction =
                        matches!(access, Access::Cursor(_) | Access::SetLocal(..));
                    if !is_one && is_of_transaction {
                        self.begin_implicitly()?;
                    }
                    if let Access::Show(name) = &access {
                        self.describe_setting(name)?;
                    }
                    self.access(&access).await?;
                }
                (_, None) => {
                    // Queries before the first change run outside of the implicit transaction.
                    let is_change = || {
                        let command = Command::in_session(&self.session, &statement);
                        command.is_change() && !statement.is_of_the_engine()
                    };
                    if (!is_one && is_change()) || (may_lock && statement.locks_rows()) {
                        self.begin_implicitly()?;
                    }
                    self.run_simple(statement, text).await?;
                }
            }
            self.wire.flush_if_full().await?;
        }
        self.end_implicitly().await?;
        self.end_settings(true);
        self.ready().await
    }

    async fn run_simple(
        &mut self,
        statement: SessionStatement,
        text: Option<&str>,
    ) -> Result<(), Failure> {
        let (prepares, zone) = (prepared_name(&statement), zone(&self.session)?);
        let (command, names) = match executed(&self.session, &statement) {
            Some(it) => (Command::of(it.statement()), ColumnNames::of(it.statement())),
            None => (Command::of(&statement), ColumnNames::of(&statement)),
        };
        let guard = self.control.guard(&self.settings);
        let handle = guard.plan(self.session.execute_as(statement, text)).await??;
        let formats = vec![Format::Text; handle.schema.fields().len()];
        let returns_rows = command.returns_rows() && !formats.is_empty();
        let mut rows = Rows::new(handle, formats.clone(), zone, Keep::Nothing);
        let count = match returns_rows {
            true => {
                let columns = description(&names.give(rows.schema()), &formats)?;
                self.wire.put(Out::RowDescription(columns))?;
                rows.send(&mut self.wire, &guard, 0).await?.0
            }
            false => rows.finish(&guard).await?,
        };
        self.prepared.extend(prepares);
        drop(guard);
        self.changes += u64::from(command.is_change());
        self.follow_settings().await?;
        self.tell_notices()?;
        if let Some(note) = command.note() {
            self.note(note)?;
        }
        let tag = command.tag_of(rows.schema(), count);
        self.wire.put(Out::CommandComplete(CommandComplete::new(tag)))
    }

    /// Answers a text that is a kept constant statement. Returns false for any other text.
    fn answer_known_text(&mut self, text: &str) -> Result<bool, Failure> {
        let Some(statement) = self.constants.find(&self.session, text, &[]) else {
            return Ok(false);
        };
        self.control.registered.show(&statement.shown);
        self.answer_known(&statement)
    }

    /// Answers `statement`, the only one of a text, if it is constant, and keeps it for further
    /// queries with this text. Returns false if it is not constant.
    async fn learn(&mut self, text: &str, statement: &SessionStatement) -> Result<bool, Failure> {
        // Calls of functions are seldom constant.
        if text.len() > TEXT_BYTES_MAX || text.contains('(') || !reads_nothing(statement) {
            return Ok(false);
        }
        let command = Command::of(statement);
        let guard = self.control.guard(&self.settings);
        // An error is reported by the regular path, which runs the statement again.
        let preparing = self.session.prepare_as(statement.clone(), &[], text);
        let Ok(prepared) = guard.plan(preparing).await? else { return Ok(false) };
        drop(guard);
        let (prepared, access, oids, shown) = (Some(prepared), None, vec![], Shown::of(text));
        let (types, encoded) = (OnceLock::new(), Encoded::default());
        let statement = Statement { prepared, command, access, oids, types, shown, encoded };
        let statement = Arc::new(statement);
        self.constants.keep(text, &statement);
        self.answer_known(&statement)
    }

    fn answer_known(&mut self, statement: &Statement) -> Result<bool, Failure> {
        let Some(prepared) = &statement.prepared else { return Ok(false) };
        let Some(rows) = self.session.known_rows(prepared)? else { return Ok(false) };
        let formats = vec![Format::Text; rows.num_columns()];
        self.wire.put_encoded(&statement.described(&formats)?);
        self.wire.put_answer(&answer(statement, &rows, &formats, &self.session)?);
        Ok(true)
    }
}

/// True for a text that may contain FOR UPDATE, whose row locks last until the transaction ends.
fn may_lock_rows(text: &str) -> bool {
    text.as_bytes().windows(3).any(|word| word.eq_ignore_ascii_case(b"for"))
}

/// True for a SELECT without FROM, which may be constant.
fn reads_nothing(statement: &SessionStatement) -> bool {
    let Some(SqlStatement::Query(query)) = parsed(statement) else { return false };
    let SetExpr::Select(select) = query.body.as_ref() else { return false };
    query.with.is_none() && select.from.is_empty()
}
