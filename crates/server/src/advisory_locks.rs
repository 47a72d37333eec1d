//! PostgreSQL's advisory locks: locks on numbers whose meaning the clients agree on.
//!
//! A connection holds a lock of its session until it has released the lock as often as it has taken
//! it, and a lock of its transaction until the transaction ends. A deadlock among advisory locks is
//! found when a connection begins to wait; a deadlock that includes a lock on a table is not found.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use terrace_sys::sync::lock;
use tokio::sync::Notify;

/// Maximum number of locks that a connection holds at a time; each takes less than 200 bytes.
const LOCKS_MAX: usize = 8192;

/// The name of a lock: a number of 64 bits, or two of 32 bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Key {
    One(i64),
    Pair(i32, i32),
}

/// The kind of a hold on a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Mode {
    /// True if other connections may hold the lock in shared mode at the same time.
    pub(crate) is_shared: bool,
    /// True if the lock is held until the transaction ends, false if until the client releases it.
    pub(crate) of_transaction: bool,
}

/// Reasons for which a connection does not get a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LockError {
    /// Waiting for the lock would close a circle of connections that wait for each other.
    #[error("deadlock detected: the connection that holds the advisory lock waits for this one")]
    Deadlock,
    /// The wait has reached `lock_timeout`.
    #[error(
        "canceling statement due to lock timeout: another connection holds the advisory lock for \
         longer than {0:?}"
    )]
    Timeout(Duration),
    /// The connection already holds [`LOCKS_MAX`] locks.
    #[error(
        "the connection holds {max} advisory locks, the maximum; give some of them back, or end \
         the transaction",
        max = LOCKS_MAX
    )]
    TooMany,
    /// The connection has ended while its statement was still running.
    #[error("the connection has ended")]
    Ended,
}

/// The advisory locks of all connections of a server.
#[derive(Debug, Default)]
pub(crate) struct AdvisoryLocks {
    state: Mutex<State>,
    /// Number of locks that are held. While it is 0, the end of a transaction need not lock
    /// `state`.
    held: AtomicUsize,
    released: Notify,
}

#[derive(Debug, Default)]
struct State {
    /// The connections that hold each lock, and their modes.
    held: BTreeMap<Key, Vec<(i32, Mode)>>,
    connections: BTreeMap<i32, Own>,
}

/// The locks of a connection.
#[derive(Debug, Default)]
struct Own {
    of_session: Holds,
    of_transaction: Holds,
    /// The locks that its statements wait for.
    waiting: Vec<(Key, Mode)>,
}

/// The number of times that each lock has been taken; the flag is true for shared mode.
type Holds = BTreeMap<(Key, bool), u64>;

impl Own {
    fn holds(&mut self, of_transaction: bool) -> &mut Holds {
        if of_transaction { &mut self.of_transaction } else { &mut self.of_session }
    }
}

impl State {
    /// Returns the other connections that hold a lock in a mode that excludes this one.
    fn holders(&self, connection: i32, key: Key, is_shared: bool) -> impl Iterator<Item = i32> {
        let holds = self.held.get(&key).into_iter().flatten();
        let excludes = move |(holder, mode): &&(i32, Mode)| {
            *holder != connection && !(mode.is_shared && is_shared)
        };
        holds.filter(excludes).map(|(holder, _)| *holder)
    }

    /// Takes the lock. Returns false if another connection holds it in a mode that excludes this
    /// one.
    fn take(&mut self, connection: i32, key: Key, mode: Mode) -> Result<bool, LockError> {
        let is_free = self.holders(connection, key, mode.is_shared).next().is_none();
        let own = self.connections.get_mut(&connection).ok_or(LockError::Ended)?;
        if !is_free {
            return Ok(false);
        }
        let count = own.of_session.len() + own.of_transaction.len();
        let holds = own.holds(mode.of_transaction);
        match holds.get_mut(&(key, mode.is_shared)) {
            Some(times) => *times += 1,
            None if count >= LOCKS_MAX => return Err(LockError::TooMany),
            None => {
                holds.insert((key, mode.is_shared), 1);
                self.held.entry(key).or_default().push((connection, mode));
            }
        }
        Ok(true)
    }

    /// Releases a lock of the session once. Returns how often it still has to be released; `None`
    /// if the connection does not hold it.
    fn give(&mut self, connection: i32, key: Key, is_shared: bool) -> Option<u64> {
        let own = self.connections.get_mut(&connection)?;
        let times = own.of_session.get_mut(&(key, is_shared))?;
        *times -= 1;
        let left = *times;
        if left == 0 {
            own.of_session.remove(&(key, is_shared));
            self.free(connection, key, Mode { is_shared, of_transaction: false });
        }
        Some(left)
    }

    /// Releases the locks of the session or of the transaction. Returns true if there were any.
    fn release(&mut self, connection: i32, of_transaction: bool) -> bool {
        let Some(own) = self.connections.get_mut(&connection) else { return false };
        let holds = std::mem::take(own.holds(of_transaction));
        for (key, is_shared) in holds.keys() {
            self.free(connection, *key, Mode { is_shared: *is_shared, of_transaction });
        }
        !holds.is_empty()
    }

    /// Removes a connection from the holders of a lock.
    fn free(&mut self, connection: i32, key: Key, mode: Mode) {
        let Some(holds) = self.held.get_mut(&key) else { return };
        holds.retain(|hold| *hold != (connection, mode));
        if holds.is_empty() {
            self.held.remove(&key);
        }
    }

    /// True if the wait of `connection` for the lock would be a deadlock: it would wait for itself,
    /// by way of other waiting connections.
    fn closes_circle(&self, connection: i32, key: Key, mode: Mode) -> bool {
        let mut next: Vec<_> = self.holders(connection, key, mode.is_shared).collect();
        let mut seen = BTreeSet::new();
        while let Some(holder) = next.pop() {
            if holder == connection {
                return true;
            }
            if seen.insert(holder) {
                let waits = self.connections.get(&holder).into_iter().flat_map(|it| &it.waiting);
                next.extend(
                    waits.flat_map(|(key, mode)| self.holders(holder, *key, mode.is_shared)),
                );
            }
        }
        false
    }
}

impl AdvisoryLocks {
    /// Registers a connection, which can take locks until [`AdvisoryLocks::end`].
    pub(crate) fn begin(&self, connection: i32) {
        lock(&self.state).connections.insert(connection, Own::default());
    }

    /// Takes a lock if it is free. Returns false if another connection holds it.
    ///
    /// # Errors
    /// [`LockError::TooMany`], [`LockError::Ended`].
    pub(crate) fn try_take(
        &self,
        connection: i32,
        key: Key,
        mode: Mode,
    ) -> Result<bool, LockError> {
        let mut state = lock(&self.state);
        let is_taken = state.take(connection, key, mode)?;
        self.held.store(state.held.len(), Ordering::Release);
        Ok(is_taken)
    }

    /// Waits for a lock and takes it. Dropping the future ends the wait.
    ///
    /// # Errors
    /// [`LockError::Deadlock`], and those of [`AdvisoryLocks::try_take`].
    pub(crate) async fn take(
        &self,
        connection: i32,
        key: Key,
        mode: Mode,
    ) -> Result<(), LockError> {
        let mut waiting = None;
        loop {
            let mut released = std::pin::pin!(self.released.notified());
            released.as_mut().enable();
            if self.try_take(connection, key, mode)? {
                return Ok(());
            }
            if waiting.is_none() {
                waiting = Some(self.wait(connection, key, mode)?);
            }
            released.await;
        }
    }

    /// Registers the wait of a connection for a lock; fails with [`LockError::Deadlock`].
    fn wait(&self, connection: i32, key: Key, mode: Mode) -> Result<Waiting<'_>, LockError> {
        let mut state = lock(&self.state);
        if state.closes_circle(connection, key, mode) {
            return Err(LockError::Deadlock);
        }
        let own = state.connections.get_mut(&connection).ok_or(LockError::Ended)?;
        own.waiting.push((key, mode));
        Ok(Waiting { locks: self, connection, wait: (key, mode) })
    }

    /// Releases a lock of the session once. Returns false if the connection does not hold it.
    pub(crate) fn give(&self, connection: i32, key: Key, is_shared: bool) -> bool {
        let mut left = None;
        self.change(|state| {
            left = state.give(connection, key, is_shared);
            left == Some(0)
        });
        left.is_some()
    }

    /// Releases all locks of the session, but not those of the transaction.
    pub(crate) fn give_all(&self, connection: i32) {
        self.change(|state| state.release(connection, false));
    }

    /// Releases the locks of the transaction.
    pub(crate) fn end_transaction(&self, connection: i32) {
        if self.held.load(Ordering::Acquire) > 0 {
            self.change(|state| state.release(connection, true));
        }
    }

    /// Releases all locks of a connection that has ended. Its statements can take no more locks.
    pub(crate) fn end(&self, connection: i32) {
        self.change(|state| {
            let had_any = [false, true].map(|of| state.release(connection, of)).contains(&true);
            state.connections.remove(&connection);
            had_any
        });
    }

    /// Applies `change` to the locks. If it returns true, it has released a lock: wakes all waiting
    /// connections, which try again.
    fn change(&self, change: impl FnOnce(&mut State) -> bool) {
        let mut state = lock(&self.state);
        let has_released = change(&mut state);
        self.held.store(state.held.len(), Ordering::Release);
        drop(state);
        if has_released {
            self.released.notify_waiters();
        }
    }
}

/// A wait for a lock, which ends when this is dropped.
struct Waiting<'a> {
    locks: &'a AdvisoryLocks,
    connection: i32,
    wait: (Key, Mode),
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = lock(&self.locks.state);
        let Some(own) = state.connections.get_mut(&self.connection) else { return };
        if let Some(place) = own.waiting.iter().position(|wait| *wait == self.wait) {
            own.waiting.remove(place);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::timeout;

    use super::*;

    const ALONE: Mode = Mode { is_shared: false, of_transaction: false };
    const SHARED: Mode = Mode { is_shared: true, of_transaction: false };
    const WITHIN: Mode = Mode { is_shared: false, of_transaction: true };

    /// The locks of three connections.
    fn locks_of_three() -> AdvisoryLocks {
        let locks = AdvisoryLocks::default();
        (1..=3).for_each(|connection| locks.begin(connection));
        locks
    }

    #[test]
    fn locks_are_held_as_often_as_they_are_taken() {
        let (locks, key) = (locks_of_three(), Key::One(7));
        let take = |connection, key, mode| locks.try_take(connection, key, mode).expect("few");
        assert!(take(1, key, ALONE) && take(1, key, ALONE));
        assert!(!take(2, key, ALONE) && !take(2, key, SHARED));
        assert!(take(2, Key::Pair(0, 7), ALONE), "another lock");
        assert!(locks.give(1, key, false) && !take(2, key, ALONE));
        assert!(!locks.give(1, key, true), "not shared");
        assert!(locks.give(1, key, false) && take(2, key, SHARED));
        assert!(take(3, key, SHARED) && !take(3, key, ALONE));
        assert!(!locks.give(1, key, false), "not held");
        locks.give_all(2);
        assert!(take(3, key, ALONE), "its own shared hold");
        locks.end(3);
        assert!(take(1, key, WITHIN));
        locks.give_all(1);
        assert!(!locks.give(1, key, false) && !take(2, key, ALONE));
        locks.end_transaction(1);
        assert!(take(2, key, ALONE));
        locks.end(2);
        assert!(lock(&locks.state).held.is_empty());
    }

    #[tokio::test]
    async fn a_connection_holds_few_locks_and_none_after_its_end() {
        let (locks, max) = (locks_of_three(), i64::try_from(LOCKS_MAX).expect("few"));
        for number in 0..max {
            let mode = if number % 2 == 0 { ALONE } else { WITHIN };
            assert_eq!(locks.try_take(1, Key::One(number), mode), Ok(true));
        }
        assert_eq!(locks.try_take(1, Key::One(max), ALONE), Err(LockError::TooMany));
        assert_eq!(locks.take(1, Key::One(max), SHARED).await, Err(LockError::TooMany));
        assert_eq!(locks.try_take(1, Key::One(0), ALONE), Ok(true), "held already");
        assert_eq!(locks.try_take(2, Key::One(max), ALONE), Ok(true), "of another connection");
        locks.end_transaction(1);
        assert_eq!(locks.try_take(1, Key::One(max + 1), ALONE), Ok(true));
        assert_eq!(locks.try_take(2, Key::One(0), ALONE), Ok(false));
        locks.end(1);
        assert_eq!(locks.try_take(1, Key::One(0), ALONE), Err(LockError::Ended));
        assert_eq!(locks.take(1, Key::One(max), ALONE).await, Err(LockError::Ended));
        assert_eq!(locks.try_take(2, Key::One(0), ALONE), Ok(true));
        locks.end(2);
        assert!(lock(&locks.state).held.is_empty());
    }

    #[tokio::test]
    async fn waits_end_with_the_lock_and_in_a_circle() {
        let locks = locks_of_three();
        let (one, other) = (Key::One(1), Key::One(2));
        assert_eq!(locks.try_take(1, one, ALONE), Ok(true));
        assert_eq!(locks.try_take(2, other, ALONE), Ok(true));
        let short = Duration::from_millis(20);
        assert!(timeout(short, locks.take(2, one, ALONE)).await.is_err(), "held");
        assert!(lock(&locks.state).connections.values().all(|own| own.waiting.is_empty()));
        let crossed = async {
            tokio::time::sleep(short).await;
            let circle = locks.take(1, other, SHARED).await;
            locks.end(1);
            circle
        };
        let (taken, circle) = tokio::join!(locks.take(2, one, ALONE), crossed);
        assert_eq!((taken, circle), (Ok(()), Err(LockError::Deadlock)));
    }
}
