//! Registry of a server's connections, by the numbers with which clients cancel their statements.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::SystemTime;

use pgwire::messages::startup::SecretKey;
use terrace_sys::sync::lock;
use tokio::sync::Notify;

use crate::advisory_locks::AdvisoryLocks;

/// The connections that have logged in, with their statements and advisory locks.
#[derive(Debug)]
pub(crate) struct Registry {
    /// Start time of the server.
    began: SystemTime,
    last: AtomicI32,
    connections: Mutex<BTreeMap<i32, Entry>>,
    advisory_locks: AdvisoryLocks,
}

#[derive(Debug)]
struct Entry {
    secret: SecretKey,
    running: Running,
    terminated: Arc<End>,
    activity: Arc<Mutex<Activity>>,
}

/// Activity of a connection, as shown to other connections.
#[derive(Clone, Debug, Default)]
pub(crate) struct Activity {
    /// Name of the user who has logged in.
    pub(crate) user: String,
    /// Time of the login.
    pub(crate) began: Option<SystemTime>,
    /// The latest statement.
    pub(crate) statement: Shown,
    /// Start time of the latest statement.
    pub(crate) statement_began: Option<SystemTime>,
    /// True while a statement of the connection runs.
    pub(crate) is_running: bool,
}

/// Maximum number of bytes of a statement that are shown to others, as in PostgreSQL.
const STATEMENT_BYTES_MAX: usize = 1024;

/// Text that is shown instead of a statement that may contain a password or a key.
const HIDDEN: &str = "<a statement about a password>";
/// Parts of words by which statements with passwords or keys are recognized, even if a word is
/// slightly misspelled.
const SECRET_WORDS: [&str; 4] = ["passwor", "secret", "key_id", "session_token"];

/// The text of a statement, as shown to other connections and in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Shown {
    text: Arc<str>,
    /// True if the statement, which may be longer than the text, may contain a password.
    is_secret: bool,
}

impl Shown {
    /// Returns the beginning of a statement, or a placeholder if it may contain a password, a key
    /// or a signed address there.
    pub(crate) fn of(statement: &str) -> Self {
        let bytes = statement.floor_char_boundary(STATEMENT_BYTES_MAX);
        let (shown, rest) = statement.split_at_checked(bytes).unwrap_or_default();
        let is_hidden = has_secret(shown);
        let text = if is_hidden { HIDDEN } else { shown }.into();
        // A word may begin in one part and end in the other.
        Self { text, is_secret: is_hidden || (!rest.is_empty() && has_secret(statement)) }
    }

    /// Returns the text.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// True if the statement may contain a password, also after the text that is shown.
    pub(crate) fn is_secret(&self) -> bool {
        self.is_secret
    }
}

impl Default for Shown {
    fn default() -> Self {
        Self { text: "".into(), is_secret: false }
    }
}

/// True for a text that may contain a password, a key or a signed address.
fn has_secret(text: &str) -> bool {
    let lower = text.to_ascii_lowercase();
    // An address may have a password or a signature: `https://user:word@host/x?sig=...`.
    let is_signed = |rest: &str| {
        let address = rest.split(['\'', '"', ' ']).next().unwrap_or_default();
        address.contains(['@', '?'])
    };
    SECRET_WORDS.iter().any(|word| lower.contains(word))
        || lower.split("://").skip(1).any(is_signed)
}

/// Handle by which another connection ends a statement or a connection.
#[derive(Debug, Default)]
pub(crate) struct End {
    notify: Notify,
    is_due: AtomicBool,
}

impl End {
    /// Ends the statement or the connection.
    pub(crate) fn give(&self) {
        self.is_due.store(true, Ordering::Relaxed);
        self.notify.notify_one();
    }

    /// Returns true once [`End::give`] was called.
    pub(crate) fn is_due(&self) -> bool {
        self.is_due.load(Ordering::Relaxed)
    }

    /// Waits for a call of [`End::give`].
    async fn due(&self) {
        self.notify.notified().await;
    }
}

/// Handles that end the running statements of a connection: at most one over PostgreSQL's protocol,
/// any number over Flight SQL.
type Running = Arc<Mutex<Vec<Arc<End>>>>;

impl Default for Registry {
    fn default() -> Self {
        let (last, connections) = (AtomicI32::default(), Mutex::default());
        let advisory_locks = AdvisoryLocks::default();
        Self { began: SystemTime::now(), last, connections, advisory_locks }
    }
}

impl Registry {
    /// Returns the start time of the server.
    pub(crate) fn began(&self) -> SystemTime {
        self.began
    }

    /// Returns the advisory locks of the connections.
    pub(crate) fn advisory_locks(&self) -> &AdvisoryLocks {
        &self.advisory_locks
    }

    /// Adds a connection with the secret that its client receives.
    pub(crate) fn add(self: &Arc<Self>, secret: SecretKey) -> Registered {
        let number = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let (running, terminated) = (Running::default(), Arc::<End>::default());
        let activity = Arc::<Mutex<Activity>>::default();
        let entry = Entry {
            secret,
            running: Arc::clone(&running),
            terminated: Arc::clone(&terminated),
            activity: Arc::clone(&activity),
        };
        lock(&self.connections).insert(number, entry);
        self.advisory_locks.begin(number);
        Registered { registry: Arc::clone(self), number, running, terminated, activity }
    }

    /// Cancels the statements of a connection on behalf of another connection. Returns false if
    /// there is no such connection.
    pub(crate) fn cancel_backend(&self, number: i32) -> bool {
        let connections = lock(&self.connections);
        let Some(entry) = connections.get(&number) else { return false };
        lock(&entry.running).iter().for_each(|running| running.give());
        true
    }

    /// Ends a connection on behalf of another one. Returns false if there is no such connection.
    pub(crate) fn terminate_backend(&self, number: i32) -> bool {
        let connections = lock(&self.connections);
        let entry = connections.get(&number);
        entry.inspect(|entry| entry.terminated.give()).is_some()
    }

    /// Returns the activity of all connections, by their numbers.
    pub(crate) fn activity(&self) -> Vec<(i32, Activity)> {
        let connections = lock(&self.connections);
        let of = |(number, entry): (&i32, &Entry)| (*number, lock(&entry.activity).clone());
        connections.iter().map(of).collect()
    }

    /// Returns the number of open connections, and of all that have logged in so far.
    pub(crate) fn connections(&self) -> (usize, u64) {
        let open = lock(&self.connections).len();
        (open, u64::from(self.last.load(Ordering::Relaxed).unsigned_abs()))
    }

    /// Cancels the statements of a connection, if the secret is right.
    pub(crate) fn cancel(&self, number: i32, secret: &SecretKey) {
        let connections = lock(&self.connections);
        let entry = connections.get(&number).filter(|entry| is_same(&entry.secret, secret));
        if let Some(entry) = entry {
            lock(&entry.running).iter().for_each(|running| running.give());
        }
    }
}

/// Compares secrets in constant time. A request to cancel does not say which version of the
/// protocol its sender speaks, and so which kind of secret it sends.
fn is_same(known: &SecretKey, given: &SecretKey) -> bool {
    let (known, given) = (bytes(known), bytes(given));
    let differences = known.iter().zip(&given).fold(0, |all, (a, b)| all | (a ^ b));
    known.len() == given.len() && differences == 0
}

fn bytes(secret: &SecretKey) -> Vec<u8> {
    match secret {
        SecretKey::I32(secret) => secret.to_be_bytes().to_vec(),
        SecretKey::Bytes(secret) => secret.to_vec(),
    }
}

/// A connection in the registry; dropping this value removes it.
#[derive(Debug)]
pub(crate) struct Registered {
    registry: Arc<Registry>,
    number: i32,
    running: Running,
    terminated: Arc<End>,
    activity: Arc<Mutex<Activity>>,
}

impl Registered {
    /// Records the user and the time of the login in the connection's activity.
    pub(crate) fn introduce(&self, user: &str) {
        let mut activity = lock(&self.activity);
        activity.user = user.to_owned();
        activity.began = Some(SystemTime::now());
    }

    /// Records the start of a statement in the connection's activity.
    pub(crate) fn show(&self, statement: &Shown) {
        let mut activity = lock(&self.activity);
        activity.statement.clone_from(statement);
        activity.statement_began = Some(SystemTime::now());
        activity.is_running = true;
    }

    /// Returns the latest statement, as shown to others.
    pub(crate) fn shown(&self) -> Shown {
        lock(&self.activity).statement.clone()
    }

    /// Records in the connection's activity that it waits for its client.
    pub(crate) fn rest(&self) {
        lock(&self.activity).is_running = false;
    }

    /// Releases the advisory locks of the connection's transaction, which has ended.
    pub(crate) fn end_transaction(&self) {
        self.registry.advisory_locks.end_transaction(self.number);
    }

    /// Waits until another connection terminates this one.
    pub(crate) async fn terminated(&self) {
        self.terminated.due().await;
    }

    /// Returns the handle by which another connection terminates this one.
    pub(crate) fn end(&self) -> Arc<End> {
        Arc::clone(&self.terminated)
    }

    /// Returns the registry of the server.
    pub(crate) fn registry(&self) -> &Arc<Registry> {
        &self.registry
    }

    /// Returns the connection's number, which PostgreSQL calls the process id of the backend.
    pub(crate) fn number(&self) -> i32 {
        self.number
    }

    /// Begins a statement, which the client may cancel until the returned value is dropped. The
    /// connection counts as idle once no statement is left.
    pub(crate) fn begin(&self) -> RunningStatement {
        let ended = Arc::<End>::default();
        lock(&self.running).push(Arc::clone(&ended));
        let (running, activity) = (Arc::clone(&self.running), Arc::clone(&self.activity));
        RunningStatement { running, ended, activity }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        lock(&self.registry.connections).remove(&self.number);
        self.registry.advisory_locks.end(self.number);
    }
}

/// A running statement that its client may cancel.
#[derive(Debug)]
pub(crate) struct RunningStatement {
    running: Running,
    ended: Arc<End>,
    activity: Arc<Mutex<Activity>>,
}

impl RunningStatement {
    /// Waits until the client cancels the statement.
    pub(crate) async fn cancelled(&self) {
        self.ended.due().await;
    }

    /// Returns the handle by which the client cancels the statement.
    pub(crate) fn end(&self) -> Arc<End> {
        Arc::clone(&self.ended)
    }
}

impl Drop for RunningStatement {
    fn drop(&mut self) {
        let mut running = lock(&self.running);
        running.retain(|other| !Arc::ptr_eq(other, &self.ended));
        if running.is_empty() {
            lock(&self.activity).is_running = false;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use tokio::time::timeout;

    use super::*;

    #[test]
    fn statements_about_passwords_are_hidden() {
        let long = format!("SELECT '{}'", "x".repeat(STATEMENT_BYTES_MAX));
        for (text, is_hidden, is_secret) in [
            ("SELECT 1".to_owned(), false, false),
            ("CREATE ROLE ada LOGIN PASSWORD 'hunter2'".to_owned(), true, true),
            ("alter role ada passwort 'hunter2'".to_owned(), true, true),
            ("CREATE OR REPLACE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')".to_owned(), true, true),
            ("SELECT 1; /* x */ CREATE USER ada Password 'hunter2'".to_owned(), true, true),
            ("COPY t FROM 'https://ada:hunter2@host/x.csv'".to_owned(), true, true),
            ("FROM 'https://host/x.csv?sig=hunter2'".to_owned(), true, true),
            ("FROM 'https://host/x.csv' WHERE mail = 'a@b'".to_owned(), false, false),
            (long.clone(), false, false),
            (format!("{long}; CREATE ROLE ada PASSWORD 'hunter2'"), false, true),
        ] {
            let shown = Shown::of(&text);
            assert!(!shown.text().contains("hunter2"), "{text}");
            assert_eq!(shown.text() == HIDDEN, is_hidden, "{text}");
            assert_eq!(shown.is_secret(), is_secret, "{text}");
        }
        // The text ends within the word that begins the password.
        let prefix = format!("SELECT '{}'; ALTER ROLE a ", "x".repeat(STATEMENT_BYTES_MAX - 28));
        let shown = Shown::of(&format!("{prefix}PASSWORD 'hunter2'"));
        assert!(shown.is_secret() && !shown.text().contains("hunter2"));
    }

    #[tokio::test]
    async fn the_right_secret_ends_the_statement_that_runs() {
        let registry = Arc::new(Registry::default());
        let connection = registry.add(SecretKey::I32(7));
        let soon = Duration::from_millis(20);
        registry.cancel(connection.number(), &SecretKey::I32(7));
        let statement = connection.begin();
        registry.cancel(connection.number(), &SecretKey::I32(8));
        registry.cancel(connection.number() + 1, &SecretKey::I32(7));
        assert!(timeout(soon, statement.cancelled()).await.is_err(), "nothing has ended it");
        registry.cancel(connection.number(), &SecretKey::Bytes(Bytes::from_static(&[0, 0, 0, 7])));
        assert!(timeout(soon, statement.cancelled()).await.is_ok());
        drop(statement);
        let number = connection.number();
        drop(connection);
        registry.cancel(number, &SecretKey::I32(7));
        assert!(lock(&registry.connections).is_empty());
    }
}
