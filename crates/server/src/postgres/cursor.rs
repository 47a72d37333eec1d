//! Cursors: portals that the statements DECLARE, FETCH, MOVE and CLOSE create and use.

use std::sync::Arc;

use datafusion::common::ScalarValue;
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::data::RowDescription;
use pgwire::messages::response::{CommandComplete, TransactionStatus as Status};
use terrace_sql::session::{CursorAction, CursorStatement, Steps};

use super::access::Access;
use super::cell::Format;
use super::command::Command;
use super::connection::Connection;
use super::description::description;
use super::execute::Rows;
use super::failure::{Failure, SqlState};
use super::portal::{Cursor, Portal, State, no_portal};
use super::session::zone;
use super::statement::Statement;

impl Connection {
    /// Runs a cursor statement of the simple protocol.
    pub(super) async fn cursor_simply(
        &mut self,
        statement: &CursorStatement,
    ) -> Result<(), Failure> {
        if let CursorAction::Fetch(_) = statement.action {
            let columns = self.cursor_columns(&statement.name, None)?;
            self.wire.put(Out::RowDescription(columns))?;
        }
        let Some(query) = statement.query() else { return self.use_cursor(statement, None).await };
        let guard = self.control.guard(&self.settings);
        let prepared = guard.wait(self.session.prepare(query, &[])).await??;
        drop(guard);
        let (command, shown) = (Command::Rows("SELECT"), self.control.registered.shown());
        let statement_of =
            Statement { prepared: Some(prepared), command, access: None, oids: vec![], shown };
        self.declare(statement, Arc::new(statement_of), vec![]).await
    }

    /// Declares a cursor and starts its query.
    pub(super) async fn declare(
        &mut self,
        declared: &CursorStatement,
        statement: Arc<Statement>,
        values: Vec<ScalarValue>,
    ) -> Result<(), Failure> {
        let CursorStatement { name, action: CursorAction::Declare { is_binary, is_held, .. } } =
            declared
        else {
            return Err(no_portal(&declared.name));
        };
        let is_alone = self.status() == Status::Idle;
        if is_alone && !is_held {
            let text = "a cursor ends with its transaction, and none has begun: begin one, or \
                        declare the cursor WITH HOLD";
            return Err(Failure::new(SqlState::NO_TRANSACTION, text));
        }
        if self.portals.contains_key(name) {
            let text = format!("there is a cursor {name:?} already");
            return Err(Failure::new(SqlState::DUPLICATE_CURSOR, text));
        }
        self.check_portals()?;
        let format = if *is_binary { Format::Binary } else { Format::Text };
        let columns = statement.prepared.as_ref().and_then(|it| it.schema());
        let formats = vec![format; columns.map_or(0, |schema| schema.fields().len())];
        let cursor = Cursor { is_held: *is_held, is_committed: is_alone, changes: self.changes };
        let mut portal = Portal { cursor: Some(cursor), ..Portal::new(statement, values, formats) };
        self.start(&mut portal).await?;
        self.portals.insert(name.clone(), portal);
        self.complete("DECLARE CURSOR".to_owned())
    }

    /// Runs FETCH, MOVE or CLOSE. `formats` are the formats that the client requests; `None` stands
    /// for the cursor's own.
    pub(super) async fn use_cursor(
        &mut self,
        statement: &CursorStatement,
        formats: Option<&[Format]>,
    ) -> Result<(), Failure> {
        let name = &statement.name;
        let (steps, verb) = match &statement.action {
            CursorAction::Declare { .. } => return Err(no_portal(name)),
            CursorAction::Close => {
                self.portals.remove(name).ok_or_else(|| no_portal(name))?;
                return self.complete("CLOSE CURSOR".to_owned());
            }
            CursorAction::Fetch(steps) => (*steps, "FETCH"),
            CursorAction::Move(steps) => (*steps, "MOVE"),
        };
        if steps.restarts {
            self.refuse_to_begin_again(self.portal(name)?)?;
        }
        let Some(mut portal) = self.portals.remove(name) else { return Err(no_portal(name)) };
        // A cursor whose query fails has nothing more to return, and is dropped.
        let count = self.advance(&mut portal, steps, verb == "FETCH", formats).await?;
        self.portals.insert(name.clone(), portal);
        self.complete(format!("{verb} {count}"))
    }

    /// Sends or skips rows. Returns their number.
    async fn advance(
        &mut self,
        portal: &mut Portal,
        steps: Steps,
        returns: bool,
        formats: Option<&[Format]>,
    ) -> Result<u64, Failure> {
        // A cursor before its first row needs no restart.
        if steps.restarts && !portal.is_untouched() {
            self.start(portal).await?;
        }
        if steps.skipped > 0 {
            self.pass(portal, steps.skipped).await?;
        }
        let limit = match steps.rows {
            Some(0) => return Ok(0),
            limit => limit.unwrap_or(0),
        };
        if !returns {
            return self.pass(portal, limit).await;
        }
        let guard = self.control.guard(&self.settings);
        let State::Running(rows) = &mut portal.state else { return Ok(0) };
        rows.set_formats(formats.unwrap_or(&portal.formats));
        let before = rows.sent();
        rows.send(&mut self.wire, &guard, limit).await?;
        Ok(rows.sent() - before)
    }

    /// Skips rows; 0 stands for all. Returns their number.
    async fn pass(&mut self, portal: &mut Portal, rows: u64) -> Result<u64, Failure> {
        let guard = self.control.guard(&self.settings);
        match &mut portal.state {
            State::Running(running) => running.pass(&guard, rows).await,
            _ => Ok(0),
        }
    }

    /// Refuses to restart a query that would return other rows: its transaction, which reads the
    /// database as of one point in time, has ended or has changed something since.
    fn refuse_to_begin_again(&self, portal: &Portal) -> Result<(), Failure> {
        let is_same = |cursor: Cursor| !cursor.is_committed && cursor.changes == self.changes;
        if portal.is_untouched() || portal.cursor.is_none_or(is_same) {
            return Ok(());
        }
        let text = "the cursor cannot begin again: its transaction has ended or has changed rows \
                    since; declare another";
        Err(Failure::new(SqlState::STATE, text))
    }

    async fn start(&mut self, portal: &mut Portal) -> Result<(), Failure> {
        let Some(prepared) = &portal.statement.prepared else { return Ok(()) };
        let guard = self.control.guard(&self.settings);
        let (values, zone) = (portal.values.clone(), zone(&self.session)?);
        let handle = guard.wait(self.session.execute_prepared(prepared, values)).await??;
        let rows = Rows::new(handle, portal.formats.clone(), zone);
        portal.state = State::Running(Box::new(rows));
        Ok(())
    }

    /// Returns the columns of a cursor, in the formats that the client requests or in its own.
    pub(super) fn cursor_columns(
        &self,
        name: &str,
        formats: Option<&[Format]>,
    ) -> Result<RowDescription, Failure> {
        let portal = self.portal(name)?;
        let Some(schema) = portal.statement.schema() else { return Err(no_portal(name)) };
        description(&schema, formats.unwrap_or(&portal.formats))
    }

    /// Returns the number of columns that a statement returns; for FETCH, those of the cursor.
    pub(super) fn columns_of(&self, statement: &Statement) -> usize {
        match &statement.access {
            Some(Access::Cursor(CursorStatement { name, action: CursorAction::Fetch(_) })) => {
                self.portals.get(name).map_or(0, |portal| portal.formats.len())
            }
            Some(_) => 0,
            None => statement.columns(),
        }
    }

    /// Drops the portals that end with a transaction: all but cursors WITH HOLD; of those declared
    /// in this transaction, it keeps them only if it is committed.
    pub(super) fn end_portals(&mut self, is_committed: bool) {
        self.portals.retain(|_, portal| match &mut portal.cursor {
            Some(cursor) if cursor.is_held => {
                cursor.is_committed |= is_committed;
                cursor.is_committed
            }
            _ => false,
        });
    }

    /// Drops the portals that end with any transaction: all but cursors WITH HOLD.
    pub(super) fn end_unheld_portals(&mut self) {
        self.portals.retain(|_, portal| portal.cursor.is_some_and(|cursor| cursor.is_held));
    }

    fn complete(&mut self, tag: String) -> Result<(), Failure> {
        self.wire.put(Out::CommandComplete(CommandComplete::new(tag)))
    }
}
