//! The sessions of an engine: their identity, and the memory that they hold apart from queries.
//!
//! A session holds memory for its client: messages that are read or written, rows on their way into
//! a table, results that wait to be taken, plans of prepared statements. The consumer `sessions` of
//! the ledger accounts for it. The bytes are charged even if the ledger has no room, since they are
//! in use already: the buffer pool gives up frames for them. Half of the budget remains for
//! queries.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use std::time::SystemTime;

use terrace_governor::memory::MemoryBudget;
use terrace_governor::query::Suspension;
use terrace_sys::sync::lock;
use terrace_table::transaction::{OpenTransaction, TransactionStatus};

/// The sessions of an engine.
pub(crate) struct Sessions {
    budget: Arc<MemoryBudget>,
    all: Mutex<BTreeMap<u64, Weak<SessionInfo>>>,
}

/// A session as seen by other sessions.
pub struct SessionInfo {
    sessions: Arc<Sessions>,
    number: u64,
    role: Option<Arc<str>>,
    tenant: Option<Arc<str>>,
    began_at: SystemTime,
    client: OnceLock<String>,
    transaction: Mutex<OpenTransaction>,
    /// Shows the waits of its commits for locks; commits have no query that would show them.
    commits: Arc<Suspension>,
    client_bytes: AtomicU64,
    prepared: AtomicU64,
    prepared_bytes: AtomicU64,
}

/// A purpose that a session holds memory for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HeldFor {
    /// Messages of its client, and rows received from and sent to it.
    Client,
    /// The plan of a prepared statement.
    Prepared,
}

/// Bytes that a session holds and the ledger accounts for, until this is dropped.
pub struct HeldBytes {
    session: Arc<SessionInfo>,
    purpose: HeldFor,
    bytes: u64,
}

impl Sessions {
    pub(crate) fn new(budget: &Arc<MemoryBudget>) -> Self {
        Self { budget: Arc::clone(budget), all: Mutex::default() }
    }

    /// Adds a session with its number, its role and the role's tenant.
    pub(crate) fn add(
        self: &Arc<Self>,
        number: u64,
        role: Option<Arc<str>>,
        tenant: Option<Arc<str>>,
    ) -> Arc<SessionInfo> {
        let info = Arc::new(SessionInfo {
            sessions: Arc::clone(self),
            number,
            role,
            tenant,
            began_at: SystemTime::now(),
            client: OnceLock::new(),
            transaction: Mutex::default(),
            commits: Arc::default(),
            client_bytes: AtomicU64::new(0),
            prepared: AtomicU64::new(0),
            prepared_bytes: AtomicU64::new(0),
        });
        lock(&self.all).insert(number, Arc::downgrade(&info));
        info
    }

    /// Returns the sessions by number.
    pub(crate) fn list(&self) -> Vec<Arc<SessionInfo>> {
        lock(&self.all).values().filter_map(Weak::upgrade).collect()
    }
}

impl SessionInfo {
    /// Returns the number of the session.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Returns the role that its statements act for; `None` for a session with all privileges.
    pub(crate) fn role(&self) -> Option<&str> {
        self.role.as_deref()
    }

    /// Returns the tenant of its role.
    pub(crate) fn tenant(&self) -> Option<&str> {
        self.tenant.as_deref()
    }

    pub(crate) fn began_at(&self) -> SystemTime {
        self.began_at
    }

    /// Returns its client, once known.
    pub(crate) fn client(&self) -> Option<&str> {
        self.client.get().map(String::as_str)
    }

    /// Sets the client that other sessions see, such as its address. The first name stays.
    pub fn introduce(&self, client: &str) {
        let _stays = self.client.set(client.to_owned());
    }

    /// Sets the transaction of the session, whose status [`Self::transaction_status`] reports.
    pub(crate) fn follow(&self, transaction: &OpenTransaction) {
        *lock(&self.transaction) = Arc::clone(transaction);
    }

    pub(crate) fn transaction_status(&self) -> TransactionStatus {
        let transaction = Arc::clone(&lock(&self.transaction));
        let transaction = lock(&transaction).clone();
        match transaction {
            None => TransactionStatus::Idle,
            Some(transaction) if transaction.is_failed() => TransactionStatus::Failed,
            Some(_) => TransactionStatus::Open,
        }
    }

    /// Returns what shows the waits of its commits for locks.
    pub(crate) fn commits(&self) -> &Arc<Suspension> {
        &self.commits
    }

    /// Returns the bytes that it holds for its client.
    pub(crate) fn client_bytes(&self) -> u64 {
        self.client_bytes.load(Ordering::Relaxed)
    }

    /// Returns the number of prepared statements, and the bytes of their plans.
    pub(crate) fn prepared(&self) -> (u64, u64) {
        (self.prepared.load(Ordering::Relaxed), self.prepared_bytes.load(Ordering::Relaxed))
    }

    /// Charges `bytes` of memory in use for `purpose` to the ledger, until the result is dropped.
    /// Bytes beyond the free ones of the ledger become debt of the consumer `sessions`.
    #[must_use]
    pub fn hold(self: &Arc<Self>, purpose: HeldFor, bytes: u64) -> HeldBytes {
        if purpose == HeldFor::Prepared {
            self.prepared.fetch_add(1, Ordering::Relaxed);
        }
        let mut held = HeldBytes { session: Arc::clone(self), purpose, bytes: 0 };
        held.set(bytes);
        held
    }

    fn of(&self, purpose: HeldFor) -> &AtomicU64 {
        match purpose {
            HeldFor::Client => &self.client_bytes,
            HeldFor::Prepared => &self.prepared_bytes,
        }
    }
}

impl HeldBytes {
    /// Changes the number of bytes held.
    pub fn set(&mut self, bytes: u64) {
        let (all, budget) = (self.session.of(self.purpose), &self.session.sessions.budget);
        if bytes > self.bytes {
            all.fetch_add(bytes - self.bytes, Ordering::Relaxed);
            budget.hold_for_sessions(bytes - self.bytes);
        } else if bytes < self.bytes {
            all.fetch_sub(self.bytes - bytes, Ordering::Relaxed);
            budget.release_of_sessions(self.bytes - bytes);
        }
        self.bytes = bytes;
    }
}

impl Drop for HeldBytes {
    fn drop(&mut self) {
        self.set(0);
        if self.purpose == HeldFor::Prepared {
            self.session.prepared.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for SessionInfo {
    fn drop(&mut self) {
        lock(&self.sessions.all).remove(&self.number);
    }
}

impl fmt::Debug for SessionInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SessionInfo").field("number", &self.number).finish_non_exhaustive()
    }
}

impl fmt::Debug for HeldBytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HeldBytes").field(&self.purpose).field(&self.bytes).finish()
    }
}
