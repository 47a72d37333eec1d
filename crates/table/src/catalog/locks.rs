//! Table locks of statements that rewrite rows.
//!
//! A transaction that updates or deletes rows of a table holds the table's lock until it ends, so
//! that no other transaction rewrites chunks that it has rewritten. Appends need no lock: two
//! transactions that add rows do not conflict. Deadlocks are detected when a lock is requested: the
//! request that would close a cycle of waiting transactions fails with [`SqlError::Deadlock`]. A
//! request that is not granted within the limit of its statement leaves the queue and fails with
//! [`SqlError::LockTimeout`].
//!
//! Locking order: these locks are taken before the writers of tables.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Mutex, MutexGuard};

use terrace_sys::sync::lock;
use tokio::sync::oneshot;

use crate::error::SqlError;
use crate::transaction::LockTimeout;

/// Table that can be locked: the lock is by id, and errors have the name.
pub(crate) trait Lockable {
    /// Returns its id.
    fn id(&self) -> u64;

    /// Returns its schema and name, for errors.
    fn full_name(&self) -> String;
}

/// The locks of all tables of a catalog. Clones share the same locks.
#[derive(Clone, Default)]
pub(crate) struct TableLocks(Arc<Mutex<State>>);

#[derive(Default)]
struct State {
    last_holder: u64,
    /// Number of holders that are transactions of several statements.
    transactions: usize,
    /// By table id. A lock that is not held is absent.
    locks: HashMap<u64, Lock>,
    /// Table that each waiting holder waits for.
    waiting: HashMap<Number, u64>,
}

struct Lock {
    holder: Number,
    /// Waiting holders, in order.
    queue: VecDeque<(Number, oneshot::Sender<()>)>,
}

/// Number of a lock holder: a transaction of several statements, or an autocommit statement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Number {
    Transaction(u64),
    Statement(u64),
}

impl State {
    /// Returns true if waiting for `table` would make `holder` wait for itself.
    fn closes_circle(&self, holder: Number, table: u64) -> bool {
        let mut next = Some(table);
        while let Some(table) = next {
            let Some(lock) = self.locks.get(&table) else { return false };
            if lock.holder == holder {
                return true;
            }
            next = self.waiting.get(&lock.holder).copied();
        }
        false
    }

    /// Passes the lock of `table` to the first waiting holder.
    fn hand_over(&mut self, table: u64) {
        let Some(lock) = self.locks.get_mut(&table) else { return };
        while let Some((next, granted)) = lock.queue.pop_front() {
            self.waiting.remove(&next);
            lock.holder = next;
            if granted.send(()).is_ok() {
                return;
            }
        }
        self.locks.remove(&table);
    }
}

impl TableLocks {
    /// Returns a holder for a transaction of several statements, without locks yet.
    pub fn transaction(&self) -> Holder {
        self.state().transactions += 1;
        Holder { locks: self.clone(), number: Number::Transaction(self.next_number()) }
    }

    /// Returns a holder for an autocommit statement, without locks yet.
    pub fn statement(&self) -> Holder {
        Holder { locks: self.clone(), number: Number::Statement(self.next_number()) }
    }

    /// Returns true while a transaction of several statements holds the lock of a table.
    pub(crate) fn is_in_transaction(&self, table: &impl Lockable) -> bool {
        let state = self.state();
        let lock = state.locks.get(&table.id());
        lock.is_some_and(|lock| matches!(lock.holder, Number::Transaction(_)))
    }

    /// Returns true while a transaction of several statements exists, with locks or without.
    pub(crate) fn has_transactions(&self) -> bool {
        self.state().transactions > 0
    }

    fn next_number(&self) -> u64 {
        let mut state = self.state();
        state.last_holder += 1;
        state.last_holder
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.0)
    }
}

/// Lock holder: a transaction, or an autocommit statement. Dropping it releases its locks.
pub(crate) struct Holder {
    locks: TableLocks,
    number: Number,
}

impl Holder {
    /// Waits for the lock of a table, at most for `limit`, and holds it. A lock that is held
    /// already is kept.
    ///
    /// # Errors
    /// [`SqlError::Deadlock`] if the lock's holder waits for this one; [`SqlError::LockTimeout`].
    pub async fn lock(&self, table: &impl Lockable, limit: &LockTimeout) -> Result<(), SqlError> {
        let Some(granted) = self.enqueue(table)? else { return Ok(()) };
        let mut waiting = Waiting { holder: self, table: table.id(), is_granted: false };
        // The sender stays in the queue until it grants the lock.
        let _granted = limit.wait(|| table.full_name(), granted).await?;
        waiting.is_granted = true;
        Ok(())
    }

    /// Takes the lock of a table if no other holder has it. Returns false if one does.
    pub(crate) fn try_lock(&self, table: &impl Lockable) -> bool {
        let mut state = self.locks.state();
        if let Some(lock) = state.locks.get(&table.id()) {
            return lock.holder == self.number;
        }
        let lock = Lock { holder: self.number, queue: VecDeque::new() };
        state.locks.insert(table.id(), lock);
        true
    }

    /// Waits for the locks of several tables, for each at most for `limit`, in the order of table
    /// ids.
    ///
    /// # Errors
    /// As [`Holder::lock`].
    pub(crate) async fn lock_all<'a>(
        &self,
        tables: impl Iterator<Item = &'a Arc<impl Lockable + 'a>>,
        limit: &LockTimeout,
    ) -> Result<(), SqlError> {
        let mut tables: Vec<_> = tables.collect();
        tables.sort_by_key(|table| table.id());
        for table in tables {
            self.lock(table.as_ref(), limit).await?;
        }
        Ok(())
    }

    /// Takes the lock if it is free; otherwise joins its queue.
    fn enqueue(&self, table: &impl Lockable) -> Result<Option<oneshot::Receiver<()>>, SqlError> {
        let mut state = self.locks.state();
        let Some(lock) = state.locks.get(&table.id()) else {
            let lock = Lock { holder: self.number, queue: VecDeque::new() };
            state.locks.insert(table.id(), lock);
            return Ok(None);
        };
        if lock.holder == self.number {
            return Ok(None);
        }
        if state.closes_circle(self.number, table.id()) {
            return Err(SqlError::Deadlock { table: table.full_name() });
        }
        let (sender, receiver) = oneshot::channel();
        state.waiting.insert(self.number, table.id());
        if let Some(lock) = state.locks.get_mut(&table.id()) {
            lock.queue.push_back((self.number, sender));
        }
        Ok(Some(receiver))
    }
}

impl Drop for Holder {
    fn drop(&mut self) {
        self.release();
        if let Number::Transaction(_) = self.number {
            self.locks.state().transactions -= 1;
        }
    }
}

impl Holder {
    /// Releases all locks.
    pub fn release(&self) {
        let mut state = self.locks.state();
        let held = state.locks.iter().filter(|(_, lock)| lock.holder == self.number);
        let held: Vec<u64> = held.map(|(table, _)| *table).collect();
        held.into_iter().for_each(|table| state.hand_over(table));
    }
}

/// A place in a lock's queue, which is left if the waiting future is dropped.
struct Waiting<'a> {
    holder: &'a Holder,
    table: u64,
    is_granted: bool,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.is_granted {
            return;
        }
        let number = self.holder.number;
        let mut state = self.holder.locks.state();
        state.waiting.remove(&number);
        let Some(lock) = state.locks.get_mut(&self.table) else { return };
        lock.queue.retain(|(waiting, _)| *waiting != number);
        // The lock may have been granted at the same moment.
        if lock.holder == number {
            state.hand_over(self.table);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    use tokio::time::sleep;

    use super::*;

    struct Numbered(u64);

    impl Lockable for Numbered {
        fn id(&self) -> u64 {
            self.0
        }

        fn full_name(&self) -> String {
            format!("public.t{}", self.0)
        }
    }

    fn millis(limit: u64) -> LockTimeout {
        LockTimeout::new(Duration::from_millis(limit))
    }

    #[tokio::test]
    async fn a_wait_ends_at_its_limit() {
        let locks = TableLocks::default();
        let (one, other) = (locks.transaction(), locks.transaction());
        let table = Numbered(1);
        one.lock(&table, &LockTimeout::NONE).await.expect("free");
        let began = Instant::now();
        let late = other.lock(&table, &millis(50)).await.expect_err("held").to_string();
        assert!(began.elapsed() >= Duration::from_millis(50), "{:?}", began.elapsed());
        let words = "canceling statement due to lock timeout: table public.t1 ";
        assert!(late.starts_with(words), "{late}");
        assert!(one.try_lock(&table) && !other.try_lock(&table));
        one.lock(&table, &millis(1)).await.expect("held already");
        // The other has left the queue, so it may hold what the first one waits for.
        other.lock(&Numbered(2), &millis(1)).await.expect("free");
        let late = one.lock(&Numbered(2), &millis(50)).await.expect_err("held");
        assert!(matches!(late, SqlError::LockTimeout { .. }), "{late}");
        one.release();
        assert!(other.try_lock(&table), "free");
        other.release();
        locks.statement().lock(&table, &millis(1)).await.expect("no holder is left");
    }

    #[tokio::test]
    async fn a_lock_is_granted_within_the_limit() {
        let locks = TableLocks::default();
        let (one, other) = (locks.transaction(), locks.transaction());
        let tables = [Arc::new(Numbered(2)), Arc::new(Numbered(1))];
        one.lock_all(tables.iter(), &millis(1)).await.expect("free");
        let release = async {
            sleep(Duration::from_millis(20)).await;
            one.release();
        };
        let limit = millis(60_000);
        let (granted, ()) = tokio::join!(other.lock_all(tables.iter(), &limit), release);
        granted.expect("released");
        assert!(locks.is_in_transaction(&Numbered(1)));
        other.release();
        assert!(!locks.is_in_transaction(&Numbered(1)));
    }
}
