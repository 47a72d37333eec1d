//! Settings of a connection, shared with functions such as `set_config` that its statements call.

use std::borrow::Cow;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use terrace_sql::session::Severity;
use terrace_sys::sync::lock;

use crate::failure::Failure;
use crate::settings::{CLIENT_MIN_MESSAGES, NO_ROLE, ROLE, SettingName, Settings};

/// Settings of a connection with their changes in the open transaction. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedSettings {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    settings: Settings,
    /// Settings that statements, or the end of a transaction, have changed, with the values to
    /// report to clients.
    changed: Vec<Change>,
    /// True while a transaction is open.
    is_open: bool,
    /// The settings to restore when the transaction ends; `None` until it changes one or has a
    /// savepoint.
    undo: Option<Undo>,
    /// The savepoints of the transaction, the oldest first.
    savepoints: Vec<Savepoint>,
}

/// Settings to restore by `ROLLBACK TO`.
#[derive(Debug)]
struct Savepoint {
    name: String,
    settings: Settings,
    /// As [`Undo::lasting`].
    lasting: Settings,
}

/// Settings to restore at the end of a transaction.
#[derive(Debug)]
struct Undo {
    /// The settings at the beginning, for a rollback.
    at_begin: Settings,
    /// The settings to keep, for a commit: all changes but those of `SET LOCAL`.
    lasting: Settings,
}

impl State {
    /// Changes a setting, until the end of the transaction if `is_local`.
    fn set(&mut self, name: &str, value: &str, is_local: bool) -> Result<Option<Told>, Failure> {
        self.keep();
        let told = self.settings.set(name, value)?;
        if let Some(undo) = self.undo.as_mut().filter(|_| !is_local) {
            undo.lasting.set(name, value)?;
        }
        Ok(told)
    }

    /// Saves the settings before the first change of a transaction.
    fn keep(&mut self) {
        if self.is_open && self.undo.is_none() {
            let (at_begin, lasting) = (self.settings.clone(), self.settings.clone());
            self.undo = Some(Undo { at_begin, lasting });
        }
    }

    /// Returns the index of the last savepoint of a name.
    fn savepoint(&self, name: &str) -> Option<usize> {
        self.savepoints.iter().rposition(|savepoint| savepoint.name == name)
    }

    /// Replaces all settings, and records those that differ for the connection to apply.
    fn restore(&mut self, settings: Settings) {
        let before = std::mem::replace(&mut self.settings, settings);
        let names = self.settings.differing(&before);
        let changes: Vec<_> = names.map(|name| (name.into(), self.settings.told(name))).collect();
        self.changed.extend(changes);
    }
}

/// Name and value of a setting that is reported to the client.
type Told = (&'static str, String);
/// A change of a setting: its name, and what to report to the client.
pub(crate) type Change = (SettingName, Option<Told>);

impl SharedSettings {
    /// Creates the settings of a client that has logged in with them, for a connection that calls
    /// [`SharedSettings::begin`] and [`SharedSettings::end`].
    pub(crate) fn new(settings: Settings) -> Self {
        Self { state: Arc::new(Mutex::new(State { settings, ..State::default() })) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }

    /// Returns the value of a setting; `None` if it does not exist.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let state = self.state();
        match Settings::name_of(name)? {
            Cow::Borrowed(name) => Some(state.settings.get(name).to_owned()),
            Cow::Owned(name) => state.settings.own(&name).map(str::to_owned),
        }
    }

    /// Returns the role of SET ROLE; `None` while statements run as the role of the login.
    pub(crate) fn role(&self) -> Option<String> {
        self.get(ROLE).filter(|role| role != NO_ROLE)
    }

    /// Changes a setting, until the end of the transaction if `is_local`. Returns the change if it
    /// has to be reported to the client.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub(crate) fn set(
        &self,
        name: &str,
        value: &str,
        is_local: bool,
    ) -> Result<Option<Told>, Failure> {
        self.state().set(name, value, is_local)
    }

    /// Records that a transaction begins.
    pub(crate) fn begin(&self) {
        self.state().is_open = true;
    }

    /// Records that a transaction ends. Restores the settings that it has changed; after a commit
    /// only those of `SET LOCAL`. The connection applies these changes like those of statements.
    pub(crate) fn end(&self, is_committed: bool) {
        let mut state = self.state();
        state.is_open = false;
        state.savepoints.clear();
        let Some(Undo { at_begin, lasting }) = state.undo.take() else { return };
        state.restore(if is_committed { lasting } else { at_begin });
    }

    /// Records a savepoint of the open transaction.
    pub(crate) fn save(&self, name: &str) {
        let mut state = self.state();
        state.keep();
        let Some(undo) = &state.undo else { return };
        let (name, lasting) = (name.to_owned(), undo.lasting.clone());
        let settings = state.settings.clone();
        state.savepoints.push(Savepoint { name, settings, lasting });
    }

    /// Records that a savepoint and all later ones are released. Their changes stay.
    pub(crate) fn release(&self, name: &str) {
        let mut state = self.state();
        if let Some(at) = state.savepoint(name) {
            state.savepoints.truncate(at);
        }
    }

    /// Restores the settings of a savepoint, which remains, and drops all later savepoints. The
    /// connection applies these changes like those of statements.
    pub(crate) fn roll_back_to(&self, name: &str) {
        let mut state = self.state();
        let Some(at) = state.savepoint(name) else { return };
        state.savepoints.truncate(at + 1);
        let Savepoint { settings, lasting, .. } = &state.savepoints[at];
        let (settings, lasting) = (settings.clone(), lasting.clone());
        if let Some(undo) = &mut state.undo {
            undo.lasting = lasting;
        }
        state.restore(settings);
    }

    /// Changes a setting from within a statement, until the end of the transaction if `is_local`,
    /// and returns its value. Outside of a transaction a local change lasts for the statement only.
    /// The connection applies the change after the statement.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub(crate) fn set_in_statement(
        &self,
        name: &str,
        value: &str,
        is_local: bool,
    ) -> Result<String, Failure> {
        let mut state = self.state();
        if is_local && !state.is_open {
            let mut settings = state.settings.clone();
            settings.set(name, value)?;
            return Ok(settings.get(&Settings::name_of(name).unwrap_or_default()).to_owned());
        }
        let told = state.set(name, value, is_local)?;
        let Some(name) = Settings::name_of(name) else { return Ok(String::new()) };
        let value = state.settings.get(&name).to_owned();
        state.changed.push((name, told));
        Ok(value)
    }

    /// Takes the changes that the connection has not applied yet.
    pub(crate) fn take_changes(&self) -> Vec<Change> {
        std::mem::take(&mut self.state().changed)
    }

    /// Returns the statement that sets the session to this setting, if the session has it as well.
    pub(crate) fn of_session(&self, name: &str) -> Option<String> {
        self.state().settings.of_session(name)
    }

    /// Returns the name, value and default of every setting.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String, String)> {
        let state = self.state();
        let all = state.settings.all();
        all.map(|(name, value, default)| (name, value.to_owned(), default.to_owned())).collect()
    }

    /// Returns `others` with the current role, which RESET ALL does not change.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub(crate) fn with_role(&self, mut others: Settings) -> Result<Settings, Failure> {
        others.set(ROLE, self.state().settings.get(ROLE))?;
        Ok(others)
    }

    /// Replaces all settings. Returns the old ones.
    pub(crate) fn replace(&self, settings: Settings) -> Settings {
        let mut state = self.state();
        state.keep();
        if let Some(undo) = &mut state.undo {
            undo.lasting = settings.clone();
        }
        std::mem::replace(&mut state.settings, settings)
    }

    /// Returns true if `client_min_messages` lets the client receive notices of this severity.
    pub(crate) fn shows(&self, severity: Severity) -> bool {
        let least = self.state().settings.get(CLIENT_MIN_MESSAGES).to_ascii_lowercase();
        match severity {
            Severity::Notice => !matches!(least.as_str(), "warning" | "error"),
            Severity::Warning => least != "error",
        }
    }

    /// Returns the time limit of a statement, if there is one.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        self.state().settings.statement_timeout()
    }

    /// Returns the maximum time that a statement waits for a lock, if there is one.
    pub(crate) fn lock_timeout(&self) -> Option<Duration> {
        self.state().settings.lock_timeout()
    }

    /// Returns the maximum time that a transaction waits for its next statement, if there is one.
    pub(crate) fn idle_in_transaction(&self) -> Option<Duration> {
        self.state().settings.idle_in_transaction()
    }
}
