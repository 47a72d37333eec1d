//! Cursors: portals that the statements DECLARE, FETCH, MOVE and CLOSE create and use.

use std::sync::{Arc, OnceLock};

use datafusion::common::ScalarValue;
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::data::RowDescription;
use pgwire::messages::extendedquery::PortalSuspended;
use pgwire::messages::response::{CommandComplete, TransactionStatus as Status};
use terrace_sql::session::{CursorAction, CursorOptions, CursorStatement, Steps};

use super::access::Access;
use super::cell::Format;
use super::command::Command;
use super::connection::Connection;
use super::description::description;
use super::encoded::Encoded;
use super::failure::{Failure, SqlState};
use super::portal::{Cursor, Portal, State, no_portal};
use super::rows::{Rows, SCROLL_HINT, Target, forward_only};
use super::scroll::Way;
use super::session::zone;
use super::statement::Statement;

impl Connection {
    /// Runs a cursor statement that came by the simple protocol.
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
        let (command, shown) = (Command::Rows("SELECT"), self.control.registered.shown());
        let prepared = guard.plan(self.session.prepare_as(query, &[], shown.text())).await??;
        drop(guard);
        let (prepared, encoded) = (Some(prepared), Encoded::default());
        let (access, oids, types) = (None, vec![], OnceLock::new());
        let statement_of = Statement { prepared, command, access, oids, types, shown, encoded };
        self.declare(statement, Arc::new(statement_of), vec![]).await
    }

    /// Declares a cursor and starts its query.
    pub(super) async fn declare(
        &mut self,
        declared: &CursorStatement,
        statement: Arc<Statement>,
        values: Vec<ScalarValue>,
    ) -> Result<(), Failure> {
        let CursorStatement { name, action: CursorAction::Declare { options, .. } } = declared
        else {
            return Err(no_portal(&declared.name));
        };
        let CursorOptions { is_binary, is_held, scrolls, contradiction } = *options;
        if let Some((one, other)) = contradiction {
            let text = format!("cannot specify both {one} and {other}");
            return Err(Failure::new(SqlState::CURSOR_DEFINITION, text));
        }
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
        let format = if is_binary { Format::Binary } else { Format::Text };
        let columns = statement.prepared.as_ref().and_then(|it| it.schema());
        let formats = vec![format; columns.map_or(0, |schema| schema.fields().len())];
        let (is_committed, changes) = (is_alone, self.changes);
        let cursor = Cursor { is_held, is_committed, changes, scrolls };
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
        match statement.action {
            CursorAction::Declare { .. } => Err(no_portal(name)),
            CursorAction::Close => {
                self.portals.remove(name).ok_or_else(|| no_portal(name))?;
                self.complete("CLOSE CURSOR".to_owned())
            }
            CursorAction::Fetch(steps) => {
                let mut portal = self.take_cursor(name, steps, true).await?;
                let mut count = 0;
                if let State::Running(rows) = &mut portal.state {
                    rows.set_formats(formats.unwrap_or(&portal.formats));
                    let guard = self.control.guard(&self.settings);
                    count = rows.go(steps, &mut Target::Client(&mut self.wire), &guard).await?;
                }
                self.portals.insert(name.clone(), portal);
                self.complete(format!("FETCH {count}"))
            }
            CursorAction::Move(steps) => {
                let before = self.portal(name)?.rows_before();
                let mut portal = self.take_cursor(name, steps, false).await?;
                let mut count = 0;
                if let State::Running(rows) = &mut portal.state {
                    let guard = self.control.guard(&self.settings);
                    count = rows.go(steps, &mut Target::Nowhere, &guard).await?;
                }
                self.portals.insert(name.clone(), portal);
                // A query that was run again has no rows before its first row.
                let count = if steps == Steps::Backward(None) { before } else { count };
                self.complete(format!("MOVE {count}"))
            }
        }
    }

    /// Runs a FETCH whose rows the client takes in several parts. Returns the rows, in pages of the
    /// cursor's query; `None` for a portal that has returned all of its rows.
    pub(super) async fn fetch_stored(
        &mut self,
        name: &str,
        steps: Steps,
        formats: &[Format],
    ) -> Result<Option<Rows>, Failure> {
        let mut portal = self.take_cursor(name, steps, true).await?;
        let mut fetched = None;
        if let State::Running(rows) = &mut portal.state
            && let Some(mut stored) = rows.new_store()
        {
            let guard = self.control.guard(&self.settings);
            rows.go(steps, &mut Target::Store(&mut stored), &guard).await?;
            fetched = Some(Rows::of_stored(stored, formats.to_vec(), rows.zone()));
        }
        self.portals.insert(name.to_owned(), portal);
        Ok(fetched)
    }

    /// Executes the portal of a cursor itself: returns the rows that follow, at most `max_rows`
    /// unless that is 0.
    pub(super) async fn execute_declared(
        &mut self,
        name: &str,
        max_rows: i32,
    ) -> Result<(), Failure> {
        self.refuse_if_failed()?;
        let mut portal = self.take_cursor(name, Steps::Forward(None), true).await?;
        let (mut count, mut has_more) = (0, false);
        if let State::Running(rows) = &mut portal.state {
            rows.set_formats(&portal.formats);
            let guard = self.control.guard(&self.settings);
            let limit = u64::try_from(max_rows).unwrap_or(0);
            (count, has_more) = rows.send(&mut self.wire, &guard, limit).await?;
        }
        self.portals.insert(name.to_owned(), portal);
        match has_more {
            true => self.wire.put(Out::PortalSuspended(PortalSuspended::new())),
            false => self.complete(format!("SELECT {count}")),
        }
    }

    /// Removes a cursor from the portals, for the caller to move by `steps` and put back; `returns`
    /// is true if the steps return rows (FETCH, not MOVE). The query is started, or started again,
    /// if the steps require that. A cursor whose query fails stays removed.
    async fn take_cursor(
        &mut self,
        name: &str,
        steps: Steps,
        returns: bool,
    ) -> Result<Portal, Failure> {
        let portal = self.portal(name)?;
        if portal.cursor.is_none() && !portal.statement.is_query() {
            let text = format!("the portal {name:?} is of no query, and has no rows to fetch");
            return Err(Failure::new(SqlState::STATE, text));
        }
        if matches!(portal.state, State::Bound) {
            let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
            self.start(&mut portal).await?;
            self.portals.insert(name.to_owned(), portal);
        }
        let portal = self.portal(name)?;
        let way = match &portal.state {
            State::Running(rows) => {
                if let Err(failure) = rows.refuse_cancelled() {
                    self.portals.remove(name);
                    return Err(failure);
                }
                rows.way(steps, returns)?
            }
            // A portal that has sent all its rows and keeps none of them.
            _ if matches!(steps, Steps::Forward(_) | Steps::Relative(0..)) => Way::Rows,
            _ => return Err(forward_only()),
        };
        if way == Way::Restart {
            self.refuse_to_begin_again(portal)?;
        }
        let mut portal = self.portals.remove(name).ok_or_else(|| no_portal(name))?;
        if way == Way::Restart {
            self.start(&mut portal).await?;
        }
        Ok(portal)
    }

    /// Fails if a cursor's query, run again, could return other rows: the transaction of its
    /// snapshot has ended, or has changed something since.
    fn refuse_to_begin_again(&self, portal: &Portal) -> Result<(), Failure> {
        let is_same = |cursor: Cursor| !cursor.is_committed && cursor.changes == self.changes;
        if portal.cursor.is_none_or(is_same) {
            return Ok(());
        }
        let text = "the cursor cannot begin again: its transaction has ended or has changed rows \
                    since, and more rows were read than are kept for a cursor without SCROLL";
        let failure = Failure::new(SqlState::STATE, text);
        Err(failure.with_hint(SCROLL_HINT))
    }

    async fn start(&mut self, portal: &mut Portal) -> Result<(), Failure> {
        let Some(prepared) = &portal.statement.prepared else { return Ok(()) };
        let guard = self.control.guard(&self.settings);
        let (values, zone) = (portal.values.clone(), zone(&self.session)?);
        let handle = guard.plan(self.session.execute_prepared(prepared, values)).await??;
        let rows = Rows::new(handle, portal.formats.clone(), zone, portal.keep());
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

    /// Drops the portals that end with a transaction: all except cursors WITH HOLD. A cursor WITH
    /// HOLD that was declared in this transaction remains only if it is committed.
    pub(super) fn end_portals(&mut self, is_committed: bool) {
        self.portals.retain(|_, portal| match &mut portal.cursor {
            Some(cursor) if cursor.is_held => {
                cursor.is_committed |= is_committed;
                cursor.is_committed
            }
            _ => false,
        });
    }

    /// Drops all portals except cursors WITH HOLD.
    pub(super) fn end_unheld_portals(&mut self) {
        self.portals.retain(|_, portal| portal.cursor.is_some_and(|cursor| cursor.is_held));
    }

    pub(super) fn complete(&mut self, tag: String) -> Result<(), Failure> {
        self.wire.put(Out::CommandComplete(CommandComplete::new(tag)))
    }
}
