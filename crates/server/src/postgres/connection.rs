//! One connection: what it asks for, and what it is told.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use datafusion::common::ScalarValue;
use pgwire::messages::data::{NoData, ParameterDescription};
use pgwire::messages::extendedquery::{
    Bind, BindComplete, Close, CloseComplete, Describe, Execute, Parse, ParseComplete,
    PortalSuspended,
};
use pgwire::messages::response::{CommandComplete, EmptyQueryResponse, ReadyForQuery};
use pgwire::messages::{PgWireBackendMessage as Out, PgWireFrontendMessage as In};
use terrace_sql::session::{CursorAction, SessionStatement};
use terrace_sql::{DATABASE, Engine, Session};
use tokio::sync::{Semaphore, watch};
use tokio::time::{Instant, timeout};

use super::cell::Format;
use super::command::Command;
use super::constants::{self, Constants};
use super::cursor::Cursor;
use super::execute::{Guard, Rows, description, zone};
use super::failure::{Failure, SqlState};
use super::functions::{Place, functions};
use super::login::{Client, log_in};
use super::names::{named, selected};
use super::parameter::{self, formats_of, type_of};
use super::settings::{Access, Settings, SharedSettings};
use super::statement::{Statement, prepared_name, refuse_execute};
use super::types::pg_type;
use super::wire::Wire;
use crate::counters::Counters;
use crate::limits::Limits;
use crate::pg_catalog;
use crate::registry::{Registered, Registry};
use crate::server::Stop;
use crate::stream::{Accepted, Watch};
use crate::tls::Tls;

/// `Describe` and `Close` of a statement; of a portal otherwise.
const STATEMENT: u8 = b'S';
/// Statements that a connection may have prepared, and portals.
const NAMES_MAX: usize = 10_000;

/// State that all connections of a server share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) registry: Arc<Registry>,
    pub(crate) limits: Limits,
    pub(crate) tls: Option<Arc<Tls>>,
    /// Random bytes of this server, by which it answers logins of roles that there are not.
    pub(crate) secret: [u8; 32],
    pub(crate) counters: Arc<Counters>,
    /// Places of connections that have logged in.
    pub(crate) places: Arc<Semaphore>,
}

/// A connection whose client has logged in.
pub(crate) struct LoggedIn {
    shared: Arc<Shared>,
    wire: Wire,
    watch: Watch,
    client: Client,
    stopped: watch::Receiver<Stop>,
}

/// Lets the client of a connection log in; none of one that only cancels a statement, or leaves,
/// or is refused.
pub(crate) async fn begin(
    shared: Arc<Shared>,
    accepted: Accepted,
    stopped: watch::Receiver<Stop>,
) -> Option<LoggedIn> {
    let Accepted { stream, watch, peer } = accepted;
    let mut wire = Wire::new(stream, peer, &shared.limits).counted(&shared.counters);
    let login = timeout(shared.limits.login_time, log_in(&shared, &mut wire)).await;
    let login = login.unwrap_or_else(|_late| {
        Err(Failure::fatal(SqlState::CONNECTION, "logging in has taken too long"))
    });
    match login {
        Ok(Some(client)) => Some(LoggedIn { client, shared, wire, watch, stopped }),
        Ok(None) => {
            // Over TLS, an end without notice is an error to the client.
            let _unheard = timeout(shared.limits.login_time, wire.close()).await;
            None
        }
        Err(failure) => {
            part(&shared, &mut wire, &failure).await;
            None
        }
    }
}

/// Tells a client why its connection ends.
async fn part(shared: &Shared, wire: &mut Wire, failure: &Failure) {
    tracing::debug!(state = failure.state().0, error = failure.text(), "a connection has ended");
    // The client may be gone.
    let told = async {
        wire.put(failure.message())?;
        wire.close().await
    };
    let _unheard = timeout(shared.limits.unread_time, told).await;
}

impl LoggedIn {
    /// Serves the connection until its client leaves, or what it does ends it.
    pub(crate) async fn run(self) {
        let Self { shared, mut wire, watch, client, stopped } = self;
        if let Err(failure) = talk(&shared, &mut wire, watch, client, stopped).await {
            part(&shared, &mut wire, &failure).await;
        }
    }
}

async fn talk(
    shared: &Shared,
    wire: &mut Wire,
    watch: Watch,
    client: Client,
    stopped: watch::Receiver<Stop>,
) -> Result<(), Failure> {
    let Client { place: _place, registered, settings, user, role } = client;
    wire.allow_message_bytes(shared.limits.message_bytes);
    registered.introduce(&user);
    let place = Arc::new(Place {
        database: DATABASE,
        user,
        role,
        number: registered.number(),
        settings: SharedSettings::new(settings.clone()),
        registry: Arc::clone(registered.registry()),
    });
    let session = new_session(shared, &place)?;
    apply(&session, &settings).await?;
    let connection = Connection {
        wire,
        control: Control { watch, registered, stopped },
        settings: place.settings.clone(),
        place,
        session,
        login: settings,
        prepared: BTreeSet::new(),
        statements: HashMap::new(),
        constants: Constants::default(),
        portals: HashMap::new(),
        skips: false,
        is_implicit: false,
        changes: 0,
    };
    connection.run().await
}

/// A session for a connection.
fn new_session(shared: &Shared, place: &Arc<Place>) -> Result<Session, Failure> {
    let session = match &place.role {
        Some(role) => shared.engine.session_of(role)?,
        None => shared.engine.session()?,
    };
    Ok(furnished(session, place))
}

/// The session with the functions that tell where it is connected, and with `pg_catalog`.
pub(super) fn furnished(session: Session, place: &Arc<Place>) -> Session {
    for function in functions(place) {
        session.context().register_udf(function);
    }
    pg_catalog::add_to(&session, place);
    session
}

/// Has a session know the settings that it has as well.
pub(super) async fn apply(session: &Session, settings: &Settings) -> Result<(), Failure> {
    for statement in settings.changed().filter_map(|name| settings.of_session(name)) {
        session.sql(&statement).await?;
    }
    Ok(())
}

/// A client that has logged in.
pub(super) struct Connection<'a> {
    pub(super) wire: &'a mut Wire,
    pub(super) control: Control,
    pub(super) place: Arc<Place>,
    pub(super) session: Session,
    /// The settings that the client has logged in with.
    pub(super) login: Settings,
    pub(super) settings: SharedSettings,
    pub(super) statements: HashMap<String, Arc<Statement>>,
    pub(super) constants: Constants,
    /// The names of the statements that PREPARE has made.
    pub(super) prepared: BTreeSet<String>,
    pub(super) portals: HashMap<String, Portal>,
    /// A message has failed, and those up to the next `Sync` are left out.
    pub(super) skips: bool,
    /// The transaction was begun for statements that were sent together, not by BEGIN.
    pub(super) is_implicit: bool,
    /// Statements that have changed something.
    pub(super) changes: u64,
}

/// Sources of events that end statements of a connection early.
pub(super) struct Control {
    watch: Watch,
    pub(super) registered: Registered,
    pub(super) stopped: watch::Receiver<Stop>,
}

/// A statement with the values of its parameters.
pub(super) struct Portal {
    pub(super) statement: Arc<Statement>,
    pub(super) values: Vec<ScalarValue>,
    pub(super) formats: Vec<Format>,
    pub(super) state: State,
    /// It was made by DECLARE.
    pub(super) cursor: Option<Cursor>,
}

/// Progress of a portal.
pub(super) enum State {
    Bound,
    Running(Box<Rows>),
    Ended,
}

impl Portal {
    pub(super) fn new(
        statement: Arc<Statement>,
        values: Vec<ScalarValue>,
        formats: Vec<Format>,
    ) -> Self {
        Self { statement, values, formats, state: State::Bound, cursor: None }
    }
}

impl Control {
    /// A statement begins.
    pub(super) fn guard(&self, settings: &SharedSettings) -> Guard<'_> {
        let timeout = settings.statement_timeout();
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let statement = self.registered.begin();
        let registered = &self.registered;
        Guard { statement, registered, watch: &self.watch, timeout, deadline }
    }
}

impl Connection<'_> {
    async fn run(mut self) -> Result<(), Failure> {
        while let Some(message) = self.next().await? {
            if self.skips && !matches!(message, In::Sync(_) | In::Terminate(_)) {
                continue;
            }
            let is_simple = matches!(message, In::Query(_));
            let outcome = match message {
                In::Terminate(_) => break,
                In::Query(query) => self.simple(&query.query).await,
                In::Parse(parse) => self.parse(parse).await,
                In::Bind(bind) => self.bind(bind).await,
                In::Describe(describe) => self.describe(&describe),
                In::Execute(execute) => self.execute(&execute).await,
                In::Close(close) => self.close(&close),
                In::Flush(_) => self.wire.flush().await,
                In::Sync(_) => self.sync().await,
                // What is left of a COPY that has failed.
                In::CopyData(_) | In::CopyDone(_) | In::CopyFail(_) => Ok(()),
                _ => Err(Failure::fatal(SqlState::PROTOCOL, "a message that is not expected")),
            };
            self.wire.flush_if_full().await?;
            if let Err(failure) = outcome {
                self.fail(failure, is_simple).await?;
            }
        }
        Ok(())
    }

    pub(super) async fn ready(&mut self) -> Result<(), Failure> {
        self.control.registered.rest();
        self.wire.put(Out::ReadyForQuery(ReadyForQuery::new(self.status())))?;
        self.wire.flush().await
    }

    /// A message has failed. Returns an error where the connection cannot go on.
    async fn fail(&mut self, failure: Failure, is_simple: bool) -> Result<(), Failure> {
        if failure.is_fatal() {
            return Err(failure);
        }
        self.session.fail_transaction();
        self.wire.put(failure.message())?;
        if is_simple {
            self.undo_implicitly();
            return self.ready().await;
        }
        self.skips = true;
        self.wire.flush().await
    }

    /// The statements of a text, one after the other.
    async fn simple(&mut self, text: &str) -> Result<(), Failure> {
        self.portals.remove("");
        self.control.registered.show(text);
        self.wire.check_text()?;
        if self.answer_known_text(text)? {
            return self.ready().await;
        }
        let statements = self.session.parse(text)?;
        if let [statement] = statements.as_slice()
            && self.learn(text, statement).await?
        {
            return self.ready().await;
        }
        if statements.is_empty() {
            self.wire.put(Out::EmptyQueryResponse(EmptyQueryResponse::new()))?;
        }
        let is_one = statements.len() == 1;
        for statement in statements {
            match (&statement, Settings::access(&statement)) {
                (SessionStatement::Transaction(statement), _) => self.transact(statement).await?,
                (SessionStatement::Copy(copy), _) => {
                    if !is_one {
                        self.begin_implicitly()?;
                    }
                    self.copy(copy).await?;
                }
                (_, Some(access)) => {
                    self.refuse_if_failed()?;
                    match access {
                        Access::Cursor(cursor) => self.cursor_simply(&cursor, is_one).await?,
                        access => {
                            if let Access::Show(name) = access {
                                self.describe_setting(name)?;
                            }
                            self.access(&access).await?;
                        }
                    }
                }
                (_, None) => {
                    // Statements that only read before the first change are by themselves.
                    if !is_one
                        && Command::of(&statement).is_change()
                        && !statement.is_of_the_engine()
                    {
                        self.begin_implicitly()?;
                    }
                    self.run_simple(statement).await?;
                }
            }
            self.wire.flush_if_full().await?;
        }
        self.end_implicitly().await?;
        self.ready().await
    }

    async fn run_simple(&mut self, statement: SessionStatement) -> Result<(), Failure> {
        let (command, zone) = (Command::of(&statement), zone(&self.session)?);
        let prepares = prepared_name(&statement);
        let items = selected(&statement).to_vec();
        let guard = self.control.guard(&self.settings);
        let handle = guard.wait(self.session.execute(statement)).await??;
        let formats = vec![Format::Text; handle.schema.fields().len()];
        let returns_rows = matches!(command, Command::Rows(_)) && !formats.is_empty();
        let mut rows = Rows::new(handle, formats.clone(), zone);
        let count = match returns_rows {
            true => {
                let columns = description(&named(&items, rows.schema()), &formats)?;
                self.wire.put(Out::RowDescription(columns))?;
                rows.send(self.wire, &guard, 0).await?;
                rows.sent()
            }
            false => rows.finish(&guard).await?,
        };
        self.prepared.extend(prepares);
        drop(guard);
        self.changes += u64::from(command.is_change());
        self.follow_settings().await?;
        self.wire.put(Out::CommandComplete(CommandComplete::new(command.tag(count))))
    }

    async fn parse(&mut self, parse: Parse) -> Result<(), Failure> {
        self.control.registered.show(&parse.query);
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
        if let Some(statement) = self.constants.find(&self.session, &parse.query, &parse.type_oids)
        {
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
            },
            Some(statement) => {
                refuse_execute(&statement)?;
                let (command, access) = (Command::of(&statement), Settings::access(&statement));
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
                        Some(guard.wait(self.session.prepare(statement, &types)).await??)
                    }
                };
                Statement { prepared, command, access, oids: parse.type_oids }
            }
        };
        let statement = Arc::new(statement);
        self.constants.keep(&parse.query, &statement);
        self.statements.insert(name, statement);
        self.wire.put(Out::ParseComplete(ParseComplete::new()))
    }

    async fn bind(&mut self, bind: Bind) -> Result<(), Failure> {
        let statement = self.statement(bind.statement_name.as_deref().unwrap_or_default())?;
        self.check_portals()?;
        let (wanted, given) = (statement.parameters().len(), bind.parameters.len());
        if wanted != given {
            let text =
                format!("the statement has {wanted} parameters, and {given} values are given");
            return Err(Failure::new(SqlState::PROTOCOL, text));
        }
        let formats = formats_of(&bind.parameter_format_codes, given)?;
        let statement = match given {
            0 => statement,
            _ => {
                let guard = self.control.guard(&self.settings);
                let typed = statement.with_numerics(&self.session, &bind.parameters, &formats);
                guard.wait(typed).await??
            }
        };
        let sent = bind.parameters.iter().zip(&formats).zip(statement.parameters()).enumerate();
        let values = sent.map(|(index, ((bytes, format), data_type))| {
            let what = format_args!("parameter ${}", index + 1);
            parameter::value(bytes.as_ref(), *format, what, data_type)
        });
        let values = values.collect::<Result<Vec<_>, _>>()?;
        let formats = formats_of(&bind.result_column_format_codes, self.columns_of(&statement))?;
        let portal = Portal::new(statement, values, formats);
        self.portals.insert(bind.portal_name.unwrap_or_default(), portal);
        self.wire.put(Out::BindComplete(BindComplete::new()))
    }

    fn describe(&mut self, describe: &Describe) -> Result<(), Failure> {
        let name = describe.name.as_deref().unwrap_or_default();
        let (statement, formats, is_cursor) = match describe.target_type {
            STATEMENT => {
                let statement = self.statement(name)?;
                let types = statement.parameters().iter().enumerate();
                let types = types.map(|(index, data_type)| match statement.oids.get(index) {
                    None | Some(0) => pg_type(data_type).oid(),
                    Some(named) => *named,
                });
                let types = types.collect();
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
        match statement.schema() {
            Some(schema) => self.wire.put(Out::RowDescription(description(&schema, &formats)?)),
            None => self.wire.put(Out::NoData(NoData::new())),
        }
    }

    async fn execute(&mut self, execute: &Execute) -> Result<(), Failure> {
        let name = execute.name.as_deref().unwrap_or_default();
        let Some(portal) = self.portals.get_mut(name) else { return Err(no_portal(name)) };
        let statement = Arc::clone(&portal.statement);
        if let Command::Transaction(statement) = &statement.command {
            return self.transact(statement).await;
        }
        if let Command::Copy(copy) = &statement.command {
            self.begin_implicitly()?;
            return self.copy(copy).await;
        }
        if let Some(access) = statement.access.as_ref().filter(|_| portal.cursor.is_none()) {
            let (values, formats) = (portal.values.clone(), portal.formats.clone());
            self.refuse_if_failed()?;
            let Access::Cursor(cursor) = access else { return self.access(access).await };
            return match cursor.action {
                CursorAction::Declare { .. } => {
                    if !self.wire.has_sync_next() {
                        self.begin_implicitly()?;
                    }
                    self.declare(cursor, Arc::clone(&statement), values).await
                }
                _ => self.use_cursor(cursor, Some(&formats)).await,
            };
        }
        // The only statement before a `Sync` is by itself.
        let begins = matches!(portal.state, State::Bound) && statement.is_change();
        if begins && !self.wire.has_sync_next() {
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
            let columns = constants::columns(&rows, &portal.formats, &self.session)?;
            self.wire.put_row(&columns, 0)?;
            let tag = statement.command.tag(1);
            return self.wire.put(Out::CommandComplete(CommandComplete::new(tag)));
        }
        let guard = self.control.guard(&self.settings);
        if matches!(portal.state, State::Bound) {
            let (values, zone) = (portal.values.clone(), zone(&self.session)?);
            let handle = guard.wait(self.session.execute_prepared(prepared, values)).await??;
            let rows = Rows::new(handle, portal.formats.clone(), zone);
            portal.state = State::Running(Box::new(rows));
        }
        let mut done = 0;
        if let State::Running(rows) = &mut portal.state {
            if prepared.schema().is_some() {
                let limit = u64::try_from(execute.max_rows).unwrap_or(0);
                let before = rows.sent();
                if rows.send(self.wire, &guard, limit).await? {
                    return self.wire.put(Out::PortalSuspended(PortalSuspended::new()));
                }
                done = rows.sent() - before;
            } else {
                done = rows.finish(&guard).await?;
            }
        }
        portal.state = State::Ended;
        drop(guard);
        self.changes += u64::from(statement.command.is_change());
        self.follow_settings().await?;
        self.wire.put(Out::CommandComplete(CommandComplete::new(statement.command.tag(done))))
    }

    fn close(&mut self, close: &Close) -> Result<(), Failure> {
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

    pub(super) fn portal(&self, name: &str) -> Result<&Portal, Failure> {
        self.portals.get(name).ok_or_else(|| no_portal(name))
    }

    /// Refuses one portal more than a connection may have.
    pub(super) fn check_portals(&self) -> Result<(), Failure> {
        if self.portals.len() < NAMES_MAX {
            return Ok(());
        }
        let text = format!("a connection has at most {NAMES_MAX} portals");
        Err(Failure::new(SqlState::TOO_MANY, text))
    }
}

pub(super) fn no_portal(name: &str) -> Failure {
    Failure::new(SqlState::NO_PORTAL, format!("there is no portal {name:?}"))
}
