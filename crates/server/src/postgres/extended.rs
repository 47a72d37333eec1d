//! The extended protocol: statements that are prepared (parse), bound to values (bind) and run as
//! portals (execute).

use std::sync::{Arc, OnceLock};

use pgwire::api::Type;
use pgwire::messages::PgWireBackendMessage as Out;
use pgwire::messages::data::ParameterDescription;
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete,
    PortalSuspended,
};
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse};
use terrace_sql::session::{CursorAction, CursorStatement, Steps};

use super::access::Access;
use super::cell::Format;
use super::command::Command;
use super::connection::Connection;
use super::constants;
use super::encoded::Encoded;
use super::failure::{Failure, SqlState};
use super::parameter::{self, formats_of, type_of};
use super::portal::{NAMES_MAX, Portal, State, no_portal};
use super::rows::{Keep, Rows};
use super::session::zone;
use super::statement::{Statement, refuse_execute};
use crate::registry::Shown;

/// Target byte of `Describe` and `Close` for a statement; any other byte stands for a portal.
const STATEMENT: u8 = b'S';

impl Connection {
    pub(super) async fn parse(&mut self, parse: Parse) -> Result<(), Failure> {
        let known = self.constants.find(&self.session, &parse.query, &parse.type_oids);
        let shown = match &known {
            Some(statement) => statement.shown.clone(),
            None => Shown::of(&parse.query),
        };
        self.control.registered.show(&shown);
        let name = parse.name.unwrap_or_default();
        if !name.is_empty() && self.statements.contains_key(&name) {
            let text = format!("there is a prepared statement {name} already");
            return Err(Failure::new(SqlState::DUPLICATE_STATEMENT, text));
        }
        if self.statements.len() >= NAMES_MAX {
            let text = format!("a connection has at most {NAMES_MAX} prepared statements");
            return Err(Failure::new(SqlState::TOO_MANY, text));
        }
        self.wire.check_text()?;
        if let Some(statement) = known {
            self.statements.insert(name, statement);
            return self.wire.put(Out::ParseComplete(ParseComplete::new()));
        }
        let mut statements = self.session.parse(&parse.query)?;
        if statements.len() > 1 {
            let text = "a prepared statement is one statement; send several by themselves";
            return Err(Failure::new(SqlState::SYNTAX, text));
        }
        let statement = match statements.pop() {
            None => Statement {
                prepared: None,
                command: Command::Done(String::new()),
                access: None,
                oids: vec![],
                types: OnceLock::new(),
                shown,
                encoded: Encoded::default(),
            },
            Some(statement) => {
                refuse_execute(&statement)?;
                let (command, access) = (Command::of(&statement), Access::of(&statement));
                let planned = match &access {
                    None => Some(statement),
                    Some(Access::Cursor(cursor)) => cursor.query(),
                    Some(_) => None,
                };
                let prepared = match planned {
                    None => None,
                    Some(statement) => {
                        let types = parse.type_oids.iter().map(|oid| type_of(*oid));
                        let types = types.collect::<Result<Vec<_>, _>>()?;
                        let guard = self.control.guard(&self.settings);
                        let preparing = self.session.prepare_as(statement, &types, &parse.query);
                        Some(guard.plan(preparing).await??)
                    }
                };
                let (oids, types) = (parse.type_oids, OnceLock::new());
                let encoded = Encoded::default();
                Statement { prepared, command, access, oids, types, shown, encoded }
            }
        };
        let statement = Arc::new(statement);
        self.constants.keep(&parse.query, &statement);
        self.statements.insert(name, statement);
        self.wire.put(Out::ParseComplete(ParseComplete::new()))
    }

    pub(super) async fn bind(&mut self, bind: Bind) -> Result<(), Failure> {
        let statement = self.statement(bind.statement_name.as_deref().unwrap_or_default())?;
        self.check_portals()?;
        let (wanted, given) = (statement.parameters().len(), bind.parameters.len());
        if wanted != given {
            let text =
                format!("the statement has {wanted} parameters, and {given} values are given");
            return Err(Failure::new(SqlState::PROTOCOL, text));
        }
        let formats = formats_of(&bind.parameter_format_codes, given)?;
        let statement = match given > 0 && statement.has_numerics() {
            false => statement,
            true => {
                let guard = self.control.guard(&self.settings);
                let typed = statement.with_numerics(&self.session, &bind.parameters, &formats);
                guard.plan(typed).await??
            }
        };
        let types = statement.parameter_types();
        let types = types.iter().zip(statement.parameters());
        let sent = bind.parameters.iter().zip(&formats).zip(types).enumerate();
        let values = sent.map(|(index, ((bytes, format), (of, data_type)))| {
            let what = format_args!("parameter ${}", index + 1);
            parameter::value_of(bytes.as_ref(), *format, what, of, data_type)
        });
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let formats = formats_of(&bind.result_column_format_codes, self.columns_of(&statement))?;
        let portal = Portal::new(statement, values, formats);
        self.portals.insert(bind.portal_name.unwrap_or_default(), portal);
        self.wire.put(Out::BindComplete(BindComplete::new()))
    }

    pub(super) fn describe(&mut self, describe: &Describe) -> Result<(), Failure> {
        let name = describe.name.as_deref().unwrap_or_default();
        let (statement, formats, is_cursor) = match describe.target_type {
            STATEMENT => {
                let statement = self.statement(name)?;
                let types = statement.parameter_types().iter().map(Type::oid).collect();
                self.wire.put(Out::ParameterDescription(ParameterDescription::new(types)))?;
                let formats = vec![Format::Text; self.columns_of(&statement)];
                (statement, formats, false)
            }
            _ => {
                let portal = self.portal(name)?;
                let statement = Arc::clone(&portal.statement);
                (statement, portal.formats.clone(), portal.cursor.is_some())
            }
        };
        if let Some(access) = statement.access.as_ref().filter(|_| !is_cursor) {
            return self.describe_access(access, &formats);
        }
        self.wire.put_encoded(&statement.described(&formats)?);
        Ok(())
    }

    pub(super) async fn execute(&mut self, execute: &Execute) -> Result<(), Failure> {
        let name = execute.name.as_deref().unwrap_or_default();
        let Some(portal) = self.portals.get_mut(name) else { return Err(no_portal(name)) };
        let statement = Arc::clone(&portal.statement);
        self.control.registered.show(&statement.shown);
        if let Command::Transaction(statement) = &statement.command {
            return self.transact(statement).await;
        }
        if let Command::Copy(copy) = &statement.command {
            self.begin_implicitly()?;
            return self.copy(copy).await;
        }
        if portal.cursor.is_some() {
            return self.execute_declared(name, execute.max_rows).await;
        }
        if let Some(access) = &statement.access {
            return self.execute_access(access, name, execute).await;
        }
        // A single statement before a `Sync` needs no implicit transaction.
        let begins = matches!(portal.state, State::Bound) && statement.is_change();
        if begins && (statement.locks_rows() || !self.wire.has_sync_next()) {
            self.begin_implicitly()?;
        }
        let Some(portal) = self.portals.get_mut(name) else { return Err(no_portal(name)) };
        let Some(prepared) = &statement.prepared else {
            return self.wire.put(Out::EmptyQueryResponse(EmptyQueryResponse::new()));
        };
        if matches!(portal.state, State::Bound)
            && execute.max_rows == 0
            && let Some(rows) = self.session.known_rows(prepared)?
        {
            portal.state = State::Ended;
            let answer = constants::answer(&statement, &rows, &portal.formats, &self.session)?;
            self.wire.put_answer(&answer);
            return Ok(());
        }
        let guard = self.control.guard(&self.settings);
        if matches!(portal.state, State::Bound) {
            let (values, zone) = (portal.values.clone(), zone(&self.session)?);
            let handle = guard.plan(self.session.execute_prepared(prepared, values)).await??;
            let rows = Rows::new(handle, portal.formats.clone(), zone, Keep::Nothing);
            portal.state = State::Running(Box::new(rows));
        }
        let tag = if let State::Running(rows) = &mut portal.state {
            let count = if prepared.schema().is_some() {
                let limit = u64::try_from(execute.max_rows).unwrap_or(0);
                let (sent, has_more) = rows.send(&mut self.wire, &guard, limit).await?;
                if has_more {
                    return self.wire.put(Out::PortalSuspended(PortalSuspended::new()));
                }
                sent
            } else {
                rows.finish(&guard).await?
            };
            statement.command.tag_of(rows.schema(), count)
        } else {
            statement.command.tag(0)
        };
        portal.state = State::Ended;
        drop(guard);
        self.changes += u64::from(statement.command.is_change());
        self.follow_settings().await?;
        self.tell_notices()?;
        if let Some(note) = statement.command.note() {
            self.note(note)?;
        }
        self.wire.put(Out::CommandComplete(CommandComplete::new(tag)))
    }

    /// Executes a statement about the connection's state that is bound as the portal `name`.
    async fn execute_access(
        &mut self,
        access: &Access,
        name: &str,
        execute: &Execute,
    ) -> Result<(), Failure> {
        self.refuse_if_failed()?;
        // Statements that are sent together are one transaction.
        if !self.wire.has_sync_next() {
            match access {
                Access::SetLocal(..) => self.begin_implicitly()?,
                _ => self.begin_settings(),
            }
        }
        match access {
            Access::Cursor(cursor) => self.execute_cursor(cursor, name, execute).await,
            access => self.access(access).await,
        }
    }

    /// True if the portal that a message names is of a constant statement with a valid row, or does
    /// not exist: both are answered without running a query.
    pub(super) fn is_known_portal(&self, execute: &Execute) -> bool {
        let Some(portal) = self.portals.get(execute.name.as_deref().unwrap_or_default()) else {
            return true;
        };
        let statement = &portal.statement;
        let is_row = statement.access.is_none() && matches!(portal.state, State::Bound);
        let prepared = statement.prepared.as_ref().filter(|_| is_row && execute.max_rows == 0);
        prepared.is_some_and(|prepared| self.session.is_known(prepared))
    }

    /// Executes a cursor statement that is bound as the portal `name`.
    async fn execute_cursor(
        &mut self,
        cursor: &CursorStatement,
        name: &str,
        execute: &Execute,
    ) -> Result<(), Failure> {
        let portal = self.portal(name)?;
        let (values, formats) = (portal.values.clone(), portal.formats.clone());
        let statement = Arc::clone(&portal.statement);
        match cursor.action {
            CursorAction::Declare { .. } => {
                // Statements that are sent together are one transaction.
                if !self.wire.has_sync_next() {
                    self.begin_implicitly()?;
                }
                self.declare(cursor, statement, values).await
            }
            CursorAction::Fetch(steps) => {
                self.execute_fetch(cursor, steps, name, &formats, execute.max_rows).await
            }
            _ => self.use_cursor(cursor, Some(&formats)).await,
        }
    }

    /// Executes a FETCH that is bound as the portal `name`. Rows beyond the limit of the message
    /// are stored: the cursor moves by all of them at once, as in PostgreSQL.
    async fn execute_fetch(
        &mut self,
        cursor: &CursorStatement,
        steps: Steps,
        name: &str,
        formats: &[Format],
        max_rows: i32,
    ) -> Result<(), Failure> {
        let is_bound = matches!(self.portal(name)?.state, State::Bound);
        if is_bound && !steps.reaches(max_rows) {
            self.use_cursor(cursor, Some(formats)).await?;
            if let Some(portal) = self.portals.get_mut(name) {
                portal.state = State::Ended;
            }
            return Ok(());
        }
        let fetched = match is_bound {
            true => self.fetch_stored(&cursor.name, steps, formats).await?,
            false => None,
        };
        let Some(portal) = self.portals.get_mut(name) else { return Err(no_portal(name)) };
        if let Some(rows) = fetched {
            portal.state = State::Running(Box::new(rows));
        }
        let mut count = 0;
        if let State::Running(rows) = &mut portal.state {
            let guard = self.control.guard(&self.settings);
            let limit = u64::try_from(max_rows).unwrap_or(0);
            let (sent, has_more) = rows.send(&mut self.wire, &guard, limit).await?;
            if has_more {
                return self.wire.put(Out::PortalSuspended(PortalSuspended::new()));
            }
            count = sent;
        }
        portal.state = State::Ended;
        self.complete(format!("FETCH {count}"))
    }

    pub(super) fn close(&mut self, close: &Close) -> Result<(), Failure> {
        let name = close.name.as_deref().unwrap_or_default();
        match close.target_type {
            STATEMENT => drop(self.statements.remove(name)),
            _ => drop(self.portals.remove(name)),
        }
        self.wire.put(Out::CloseComplete(CloseComplete::new()))
    }

    fn statement(&self, name: &str) -> Result<Arc<Statement>, Failure> {
        let missing = || {
            let text = format!("there is no prepared statement {name:?}");
            Failure::new(SqlState::NO_STATEMENT, text)
        };
        self.statements.get(name).cloned().ok_or_else(missing)
    }
}
