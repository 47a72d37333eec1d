//! The connections of a server, by the numbers that clients cancel their statements with.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicI32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pgwire::messages::startup::SecretKey;
use tokio::sync::Notify;

/// All connections that have logged in.
#[derive(Debug, Default)]
pub(crate) struct Registry {
    last: AtomicI32,
    connections: Mutex<BTreeMap<i32, Entry>>,
}

#[derive(Debug)]
struct Entry {
    secret: SecretKey,
    running: Running,
}

/// Cancellation of the statement that a connection runs; none between two statements.
type Running = Arc<Mutex<Option<Arc<Notify>>>>;

impl Registry {
    /// Adds a connection with the secret that its client is told.
    pub(crate) fn add(self: &Arc<Self>, secret: SecretKey) -> Registered {
        let number = self.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let running = Running::default();
        let entry = Entry { secret, running: Arc::clone(&running) };
        lock(&self.connections).insert(number, entry);
        Registered { registry: Arc::clone(self), number, running }
    }

    /// The number of connections, and of those that have logged in so far.
    pub(crate) fn connections(&self) -> (usize, u64) {
        let open = lock(&self.connections).len();
        (open, u64::from(self.last.load(Ordering::Relaxed).unsigned_abs()))
    }

    /// Ends the statement of a connection, if it runs one and the secret is right.
    pub(crate) fn cancel(&self, number: i32, secret: &SecretKey) {
        let connections = lock(&self.connections);
        let entry = connections.get(&number).filter(|entry| is_same(&entry.secret, secret));
        if let Some(running) = entry.and_then(|entry| lock(&entry.running).clone()) {
            running.notify_one();
        }
    }
}

/// Compares secrets in a time that does not tell how much of one was right. A request to cancel
/// does not say which version of the protocol, and so which kind of secret, its sender speaks.
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

/// A connection in the registry, until this is dropped.
#[derive(Debug)]
pub(crate) struct Registered {
    registry: Arc<Registry>,
    number: i32,
    running: Running,
}

impl Registered {
    /// Its number, which PostgreSQL calls the process id of the backend.
    pub(crate) fn number(&self) -> i32 {
        self.number
    }

    /// A statement begins, which the client may end until this is dropped.
    pub(crate) fn begin(&self) -> RunningStatement {
        let ended = Arc::new(Notify::new());
        *lock(&self.running) = Some(Arc::clone(&ended));
        RunningStatement { running: Arc::clone(&self.running), ended }
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        lock(&self.registry.connections).remove(&self.number);
    }
}

/// A statement that its client may end.
#[derive(Debug)]
pub(crate) struct RunningStatement {
    running: Running,
    ended: Arc<Notify>,
}

impl RunningStatement {
    /// Ends once the client has asked for the end of the statement.
    pub(crate) async fn cancelled(&self) {
        self.ended.notified().await;
    }
}

impl Drop for RunningStatement {
    fn drop(&mut self) {
        *lock(&self.running) = None;
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use tokio::time::timeout;

    use super::*;

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
