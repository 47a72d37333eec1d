//! One connection: reads the client's messages, runs them and sends the answers.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pgwire::messages::response::{
    CommandComplete, EmptyQueryResponse, ReadyForQuery, TransactionStatus as Status,
};
use pgwire::messages::{PgWireBackendMessage as Out, PgWireFrontendMessage as In};
use terrace_sql::session::SessionStatement;
use terrace_sql::{DATABASE, Engine, Session};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::time::{Instant, timeout};

use super::cell::Format;
use super::command::Command;
use super::constants::Constants;
use super::execute::{Guard, Rows, description, zone};
use super::failure::{Failure, SqlState};
use super::functions::{Place, functions};
use super::login::{Client, log_in};
use super::names::Names;
use super::portal::Portal;
use super::request::Request;
use super::settings::{Access, Settings, SharedSettings};
use super::statement::{Statement, prepared_name};
use super::wire::Wire;
use crate::counters::Counters;
use crate::limits::Limits;
use crate::pg_catalog;
use crate::registry::{Registered, Registry, Shown};
use crate::runtimes::Runtimes;
use crate::server::Stop;
use crate::stream::{Accepted, Watch};
use crate::tls::Tls;

/// State that all connections of a server share.
pub(crate) struct Shared {
    pub(crate) engine: Engine,
    pub(crate) registry: Arc<Registry>,
    pub(crate) limits: Limits,
    pub(crate) tls: Option<Arc<Tls>>,
    /// Random bytes of this server, used to answer logins of roles that do not exist.
    pub(crate) secret: [u8; 32],
    pub(crate) counters: Arc<Counters>,
    /// Permits for connections that have logged in.
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

/// Runs the login of a connection. `None` if the client only cancels a statement, leaves or is
/// refused.
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
            // Over TLS, closing without notice is an error to the client.
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
    let (peer, state, error) = (wire.peer().to_string(), failure.state().0, failure.text());
    tracing::info!(peer, state, error, "a connection has ended");
    // The client may be gone.
    let told = async {
        wire.put(failure.message())?;
        wire.close().await
    };
    let _unheard = timeout(shared.limits.unread_time, told).await;
}

impl LoggedIn {
    /// Serves the connection until its client leaves or a failure ends it. Messages that take no
    /// time are answered by this thread; the work of others is done in `runtimes`.
    pub(crate) async fn run(self, runtimes: Runtimes) {
        let opened = runtimes.run(true, self.open()).await;
        if let Some(connection) = opened {
            let connection = connection.serve(&runtimes).await;
            // The connection's queries, temporary tables and transaction end with it.
            runtimes.run(true, async move { drop(connection) }).await;
        }
    }

    /// Opens the session of the connection; `None` if the client has been refused one.
    async fn open(self) -> Option<Box<Connection>> {
        let Self { shared, mut wire, watch, client, stopped } = self;
        let Client { place: permit, registered, settings, user, role } = client;
        wire.allow_message_bytes(shared.limits.message_bytes);
        registered.introduce(&user);
        let (number, peer, tls) = (registered.number(), wire.peer().to_string(), wire.is_secure());
        tracing::debug!(connection = number, user, peer, tls, "a client has logged in");
        let place = Arc::new(Place {
            database: DATABASE,
            user,
            role,
            number,
            is_secure: tls,
            settings: SharedSettings::new(settings.clone()),
            registry: Arc::clone(registered.registry()),
        });
        let session = match session_with(&shared, &place, &settings).await {
            Ok(session) => session,
            Err(failure) => {
                part(&shared, &mut wire, &failure).await;
                return None;
            }
        };
        session.info().introduce(&peer);
        wire.hold_for(session.info());
        Some(Box::new(Connection {
            request: Request::new(shared.limits.logged_time),
            shared,
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
            _permit: permit,
        }))
    }
}

/// Opens a session for a connection, with its client's settings.
async fn session_with(
    shared: &Shared,
    place: &Arc<Place>,
    settings: &Settings,
) -> Result<Session, Failure> {
    let session = new_session(shared, place)?;
    apply(&session, settings).await?;
    Ok(session)
}

/// Opens a session for a connection.
fn new_session(shared: &Shared, place: &Arc<Place>) -> Result<Session, Failure> {
    let session = match &place.role {
        Some(role) => shared.engine.session_of(role)?,
        None => shared.engine.session()?,
    };
    Ok(furnished(session, place))
}

/// Adds `pg_catalog` to a session, and the functions that describe its connection.
pub(crate) fn furnished(session: Session, place: &Arc<Place>) -> Session {
    for function in functions(place) {
        session.context().register_udf(function);
    }
    pg_catalog::add_to(&session, place);
    session
}

/// Passes the changed settings on to a session, if the session has them as well.
pub(super) async fn apply(session: &Session, settings: &Settings) -> Result<(), Failure> {
    for statement in settings.changed().filter_map(|name| settings.of_session(name)) {
        session.sql(&statement).await?;
    }
    Ok(())
}

/// The connection of a client that has logged in.
pub(crate) struct Connection {
    shared: Arc<Shared>,
    pub(super) wire: Wire,
    pub(super) control: Control,
    pub(super) place: Arc<Place>,
    pub(super) session: Session,
    /// The settings that the client has logged in with.
    pub(super) login: Settings,
    pub(super) settings: SharedSettings,
    pub(super) statements: HashMap<String, Arc<Statement>>,
    pub(super) constants: Constants,
    /// Names of the statements made by PREPARE.
    pub(super) prepared: BTreeSet<String>,
    pub(super) portals: HashMap<String, Portal>,
    /// True after a failed message: messages up to the next `Sync` are skipped.
    pub(super) skips: bool,
    /// True if the transaction was begun for statements that were sent together, not by BEGIN.
    pub(super) is_implicit: bool,
    /// Number of statements that have changed something.
    pub(super) changes: u64,
    pub(super) request: Request,
    /// The connection's permit.
    _permit: OwnedSemaphorePermit,
}

/// Sources of events that end statements of a connection early.
pub(super) struct Control {
    watch: Watch,
    pub(super) registered: Registered,
    pub(super) stopped: watch::Receiver<Stop>,
}

impl Control {
    /// Begins a statement: registers it and computes its deadline.
    pub(super) fn guard(&self, settings: &SharedSettings) -> Guard<'_> {
        let timeout = settings.statement_timeout();
        let deadline = timeout.and_then(|timeout| Instant::now().checked_add(timeout));
        let statement = self.registered.begin();
        let registered = &self.registered;
        Guard { statement, registered, watch: &self.watch, timeout, deadline }
    }
}

impl Connection {
    /// Serves the connection to its end, and returns it to be dropped.
    async fn serve(mut self: Box<Self>, runtimes: &Runtimes) -> Box<Self> {
        loop {
            let waited = Box::pin(self.wait()).await;
            let worked = match waited {
                Ok(None) => return self,
                Ok(Some(message)) => {
                    let is_urgent = self.session.priority() > 0;
                    let work = async move {
                        let worked = Box::pin(self.work(message)).await;
                        (self, worked)
                    };
                    let worked;
                    (self, worked) = runtimes.run(is_urgent, work).await;
                    worked
                }
                Err(failure) => Err(failure),
            };
            match worked {
                Ok(true) => {}
                Ok(false) => return self,
                Err(failure) => {
                    part(&self.shared, &mut self.wire, &failure).await;
                    return self;
                }
            }
        }
    }

    /// Answers messages that take no time. Returns the first one that takes time; `None` once the
    /// client has left.
    async fn wait(&mut self) -> Result<Option<In>, Failure> {
        while let Some(message) = self.next().await? {
            match message {
                In::Terminate(_) => return Ok(None),
                message if self.takes_time(&message) => return Ok(Some(message)),
                message => self.answer(message).await?,
            }
        }
        Ok(None)
    }

    /// Answers a message and those that have arrived already. Returns false once the client has
    /// left.
    async fn work(&mut self, message: In) -> Result<bool, Failure> {
        self.answer(message).await?;
        while self.wire.has_next() {
            match self.next().await? {
                None | Some(In::Terminate(_)) => return Ok(false),
                Some(message) => self.answer(message).await?,
            }
        }
        Ok(true)
    }

    /// True unless the message can be answered from what the connection has at hand.
    fn takes_time(&self, message: &In) -> bool {
        let is_known =
            |text, oids: &[u32]| self.constants.find(&self.session, text, oids).is_some();
        !self.skips
            && match message {
                In::Query(query) => !is_known(&query.query, &[]),
                In::Parse(parse) => !is_known(&parse.query, &parse.type_oids),
                In::Bind(bind) => !bind.parameters.is_empty(),
                In::Execute(execute) => !self.is_known_portal(execute),
                In::Sync(_) => self.is_implicit,
                _ => false,
            }
    }

    async fn answer(&mut self, message: In) -> Result<(), Failure> {
        if self.skips && !matches!(message, In::Sync(_)) {
            return Ok(());
        }
        let is_simple = matches!(message, In::Query(_));
        self.request.begin(is_simple || matches!(message, In::Execute(_)));
        let outcome = match message {
            In::Query(query) => self.simple(&query.query).await,
            In::Parse(parse) => self.parse(parse).await,
            In::Bind(bind) => self.bind(bind).await,
            In::Describe(describe) => self.describe(&describe),
            In::Execute(execute) => self.execute(&execute).await,
            In::Close(close) => self.close(&close),
            In::Flush(_) => self.wire.flush().await,
            In::Sync(_) => self.sync().await,
            // The rest of a COPY that has failed.
            In::CopyData(_) | In::CopyDone(_) | In::CopyFail(_) => Ok(()),
            _ => Err(Failure::fatal(SqlState::PROTOCOL, "a message that is not expected")),
        };
        self.wire.flush_if_full().await?;
        self.request.log(&self.control.registered, &self.place.user, outcome.as_ref().err());
        match outcome {
            Ok(()) => Ok(()),
            Err(failure) => self.fail(failure, is_simple).await,
        }
    }

    pub(super) async fn ready(&mut self) -> Result<(), Failure> {
        self.control.registered.rest();
        // In a transaction that has failed the session runs nothing; its end restores the settings.
        if self.status() != Status::Error {
            self.follow_settings().await?;
        }
        self.wire.put(Out::ReadyForQuery(ReadyForQuery::new(self.status())))?;
        self.wire.flush().await
    }

    /// Reports a failed message. Returns an error if the connection cannot go on.
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

    /// Runs the statements of a simple query, one after the other.
    async fn simple(&mut self, text: &str) -> Result<(), Failure> {
        self.portals.remove("");
        self.control.registered.show(&Shown::of(text));
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
                    // Statements that are sent together are one transaction.
                    let is_of_transaction =
                        matches!(access, Access::Cursor(_) | Access::SetLocal(..));
                    if !is_one && is_of_transaction {
                        self.begin_implicitly()?;
                    }
                    if let Access::Show(name) = access {
                        self.describe_setting(name)?;
                    }
                    self.access(&access).await?;
                }
                (_, None) => {
                    // Queries before the first change run outside of the implicit transaction.
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
        let names = Names::of(&statement);
        let guard = self.control.guard(&self.settings);
        let handle = guard.wait(self.session.execute(statement)).await??;
        let formats = vec![Format::Text; handle.schema.fields().len()];
        let returns_rows = matches!(command, Command::Rows(_)) && !formats.is_empty();
        let mut rows = Rows::new(handle, formats.clone(), zone);
        let count = match returns_rows {
            true => {
                let columns = description(&names.give(rows.schema()), &formats)?;
                self.wire.put(Out::RowDescription(columns))?;
                rows.send(&mut self.wire, &guard, 0).await?;
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
}
