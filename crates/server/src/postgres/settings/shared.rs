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
    /// Settings that statements, or the end of a transaction, have changed, and the values of those
    /// that clients are told.
    changed: Vec<Change>,
    /// True while a transaction is open.
    is_open: bool,
    /// The settings to restore at its end, once it has changed one.
    undo: Option<Undo>,
}

/// Settings to restore at the end of a transaction.
#[derive(Debug)]
struct Undo {
    /// Those of its beginning, for a rollback.
    at_begin: Settings,
    /// Those that last, for a commit: all changes but those of `SET LOCAL`.
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

    /// Keeps the settings before the first change of a transaction.
    fn keep(&mut self) {
        if self.is_open && self.undo.is_none() {
            let (at_begin, lasting) = (self.settings.clone(), self.settings.clone());
            self.undo = Some(Undo { at_begin, lasting });
        }
    }
}

/// Name and value of a setting that a client is told of.
type Told = (&'static str, String);
/// A change by a statement: the name, and what the client is told of it.
pub(crate) type Change = (&'static str, Option<Told>);

impl SharedSettings {
    /// The settings that a client has logged in with.
    pub(crate) fn new(settings: Settings) -> Self {
        Self { state: Arc::new(Mutex::new(State { settings, ..State::default() })) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The value of a setting; none of one that there is not.
    pub(crate) fn get(&self, name: &str) -> Option<String> {
        let name = Settings::name_of(name)?;
        Some(self.state().settings.get(name).to_owned())
    }

    /// Changes a setting, until the end of the transaction if `is_local`. Returns the value that
    /// the client is told, if any.
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

    /// A transaction begins.
    pub(crate) fn begin(&self) {
        self.state().is_open = true;
    }

    /// A transaction ends: restores the settings that it has changed, those of `SET LOCAL` alone if
    /// it is committed. The connection carries the changes out as those of statements.
    pub(crate) fn end(&self, is_committed: bool) {
        let mut state = self.state();
        state.is_open = false;
        let Some(Undo { at_begin, lasting }) = state.undo.take() else { return };
        let restored = if is_committed { lasting } else { at_begin };
        let before = std::mem::replace(&mut state.settings, restored);
        let names = state.settings.differing(&before);
        let changes: Vec<_> = names.map(|name| (name, state.settings.told(name))).collect();
        state.changed.extend(changes);
    }

    /// Changes a setting for a statement, until the end of the transaction if `is_local`, and
    /// returns its value. Outside of a transaction a local change has no effect beyond the
    /// statement. The connection carries the change out after the statement.
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
            return Ok(settings.get(Settings::name_of(name).unwrap_or_default()).to_owned());
        }
        let told = state.set(name, value, is_local)?;
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
        let mut state = self.state();
        state.keep();
        if let Some(undo) = &mut state.undo {
            undo.lasting = settings.clone();
        }
        std::mem::replace(&mut state.settings, settings)
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
