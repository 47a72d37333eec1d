//! Message loop of a connection: logs its client in, handles its messages and sends the answers.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use pgwire::messages::PgWireFrontendMessage as In;
use terrace_sql::DATABASE;
use tokio::sync::watch;
use tokio::time::timeout;

use super::connection::{Connection, Control};
use super::constants::Constants;
use super::failure::{Failure, SqlState};
use super::login::{Client, log_in};
use super::request::Request;
use super::session::session_with;
use super::wire::Wire;
use crate::connection_info::ConnectionInfo;
use crate::runtimes::Runtimes;
use crate::shared::Shared;
use crate::shared_settings::SharedSettings;
use crate::shutdown::Stop;
use crate::stream::{Accepted, Watch};

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
    /// Serves the connection until its client leaves or a failure ends it. Messages that need no
    /// query are answered by the calling thread; the others are handled in `runtimes`.
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
        let place = Arc::new(ConnectionInfo {
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

    /// Answers messages up to the first that takes time ([`Self::takes_time`]), and returns that
    /// one; `None` once the client has left.
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

    /// True unless the message can be answered from the state of the connection, without planning
    /// or running a statement.
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
        let plans = matches!(message, In::Parse(_));
        self.request.begin(is_simple || matches!(message, In::Execute(_)), plans);
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

    /// Reports a failed message to the client. Returns the failure if it ends the connection.
    async fn fail(&mut self, failure: Failure, is_simple: bool) -> Result<(), Failure> {
        if failure.is_fatal() {
            return Err(failure);
        }
        self.session.fail_transaction();
        self.tell_notices()?;
        self.wire.put(failure.message())?;
        if is_simple {
            self.undo_implicitly();
            self.end_settings(false);
            return self.ready().await;
        }
        self.skips = true;
        self.wire.flush().await
    }
}
