//! The settings of a connection, which its statements read and change as well.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::{Failure, Settings};

/// The settings of a connection, for the connection and for the functions of its statements.
#[derive(Clone, Debug, Default)]
pub(crate) struct SharedSettings {
    state: Arc<Mutex<State>>,
}

#[derive(Debug, Default)]
struct State {
    settings: Settings,
    /// Settings that statements have changed, and the values of those that clients are told.
    changed: Vec<Change>,
}

/// A change by a statement: the name, and what the client is told of it.
pub(crate) type Change = (&'static str, Option<(&'static str, String)>);

impl SharedSettings {
    /// The settings that a client has logged in with.
    pub(crate) fn new(settings: Settings) -> Self {
        Self { state: Arc::new(Mutex::new(State { settings, changed: vec![] })) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a setting; none of one that there is not.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let name = Settings::name_of(name)?;
        Some(self.state().settings.get(name).to_owned())
    }

    /// Changes a setting. Returns what the client is told of the change.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub(crate) fn set(
        &self,
        name: &str,
        value: &str,
    ) -> Result<Option<(&'static str, String)>, Failure> {
        self.state().settings.set(name, value)
    }

    /// Changes a setting for a statement, and returns its value. The connection carries the change
    /// out after the statement.
    ///
    /// # Errors
    /// As [`Settings::set`].
    pub(crate) fn set_in_statement(&self, name: &str, value: &str) -> Result<String, Failure> {
        let mut state = self.state();
        let told = state.settings.set(name, value)?;
        let Some(name) = Settings::name_of(name) else { return Ok(String::new()) };
        state.changed.push((name, told));
        Ok(state.settings.get(name).to_owned())
    }

    /// The changes of statements that the connection has not carried out.
    pub(crate) fn take_changes(&self) -> Vec<Change> {
        std::mem::take(&mut self.state().changed)
    }

    /// The statement that has the session know a setting as well, if it does.
    pub(crate) fn of_session(&self, name: &str) -> Option<String> {
        self.state().settings.of_session(name)
    }

    /// All settings: their names, values and defaults.
    pub(crate) fn rows(&self) -> Vec<(&'static str, String, &'static str)> {
        let state = self.state();
        let all = state.settings.all();
        all.map(|(name, value, default)| (name, value.to_owned(), default)).collect()
    }

    /// Replaces all settings. Returns those of before.
    pub(crate) fn replace(&self, settings: Settings) -> Settings {
        std::mem::replace(&mut self.state().settings, settings)
    }

    /// The limit on the duration of a statement, if there is one.
    pub(crate) fn statement_timeout(&self) -> Option<Duration> {
        self.state().settings.statement_timeout()
    }

    /// The limit on the time that a transaction waits for its next statement, if there is one.
    pub(crate) fn idle_in_transaction(&self) -> Option<Duration> {
        self.state().settings.idle_in_transaction()
    }
}
