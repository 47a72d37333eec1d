//! The connection of a client, and its state between two messages.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use terrace_sql::Session;
use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::Instant;

use super::constants::Constants;
use super::failure::{Failure, SqlState};
use super::guard::Guard;
use super::portal::{NAMES_MAX, Portal, no_portal};
use super::request::Request;
use super::statement::Statement;
use super::wire::Wire;
use crate::connection_info::ConnectionInfo;
use crate::registry::Registered;
use crate::settings::Settings;
use crate::shared::Shared;
use crate::shared_settings::SharedSettings;
use crate::shutdown::Stop;
use crate::stream::Watch;

/// The connection of a client that has logged in.
pub(crate) struct Connection {
    pub(super) shared: Arc<Shared>,
    pub(super) wire: Wire,
    pub(super) control: Control,
    pub(super) place: Arc<ConnectionInfo>,
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
    pub(super) _permit: OwnedSemaphorePermit,
}

/// Sources of events that end statements of a connection early.
pub(super) struct Control {
    pub(super) watch: Watch,
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
    pub(super) fn portal(&self, name: &str) -> Result<&Portal, Failure> {
        self.portals.get(name).ok_or_else(|| no_portal(name))
    }

    /// Fails if the connection has the maximum number of portals.
    pub(super) fn check_portals(&self) -> Result<(), Failure> {
        if self.portals.len() < NAMES_MAX {
            return Ok(());
        }
        let text = format!("a connection has at most {NAMES_MAX} portals");
        Err(Failure::new(SqlState::TOO_MANY, text))
    }
}
