//! Requests of a connection and their log messages.

use std::time::{Duration, Instant};

use crate::failure::Failure;
use crate::log::Logged;
use crate::registry::Registered;

/// The client's message that is being answered.
pub(super) struct Request {
    /// Number of messages of the connection so far that run statements.
    count: u64,
    /// Arrival time of the message; `None` for a message that plans and runs nothing.
    began: Option<Instant>,
    runs: bool,
    /// Minimum duration of statements that are logged.
    logged_time: Option<Duration>,
}

impl Request {
    pub(super) fn new(logged_time: Option<Duration>) -> Self {
        Self { count: 0, began: None, runs: false, logged_time }
    }

    /// Records the arrival of a message; `runs` is true if it runs statements, `plans` if it only
    /// plans one.
    pub(super) fn begin(&mut self, runs: bool, plans: bool) {
        self.count += u64::from(runs);
        self.runs = runs;
        self.began = (runs || plans).then(Instant::now);
    }

    /// Logs a message that has failed, or a statement that took at least `logged_time`. The request
    /// is named by the number of the connection and that of the statement in it.
    pub(super) fn log(&self, registered: &Registered, user: &str, failure: Option<&Failure>) {
        let may_be_slow = self.runs && self.logged_time.is_some();
        if failure.is_none() && !may_be_slow {
            return;
        }
        let took = self.began.map(|began| began.elapsed());
        let is_slow = self.runs && self.logged_time.is_some_and(|least| took >= Some(least));
        if failure.is_none() && !is_slow {
            return;
        }
        let request = format!("{}-{}", registered.number(), self.count);
        let seconds = took.map(|took| took.as_secs_f64());
        let statement = &registered.shown();
        let logged = Logged { request: &request, user, seconds, statement };
        match failure {
            None => logged.ended(),
            Some(failure) => logged.failed(failure),
        }
    }
}
