//! Advisory locks: locks of numbers that clients agree on, as PostgreSQL has them.
//!
//! A connection holds a lock until it gives it back as often as it has taken it, or until the end
//! of its transaction, as it asks for. Deadlocks among these locks are found when a connection
//! begins to wait; those with locks of tables are not.

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
    /// True if others may hold the lock in this mode as well.
    pub(crate) is_shared: bool,
    /// True until the end of the transaction, false until it is given back.
    pub(crate) of_transaction: bool,
}

/// An error of a connection that does not get a lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum LockError {
    /// A wait that would make connections wait for each other for ever.
    #[error("deadlock detected: the connection that holds the advisory lock waits for this one")]
    Deadlock,
    /// A wait for the maximum time.
    #[error(
        "canceling statement due to lock timeout: another connection holds the advisory lock for \
         longer than {0:?}"
    )]
    Timeout(Duration),
    /// A lock more than [`LOCKS_MAX`].
    #[error(
        "the connection holds {max} advisory locks, the maximum; give some of them back, or end \
         the transaction",
        max = LOCKS_MAX
    )]
    TooMany,
    /// A statement that runs for a moment longer than its connection.
    #[error("the connection has ended")]
    Ended,
}

/// The advisory locks of all connections of a server.
#[derive(Debug, Default)]
pub(crate) struct AdvisoryLocks {
    state: Mutex<State>,
    /// Number of locks that are held: most servers have none.
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

/// Locks that are held, shared or not, and the number of times that each has been taken so.
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

    /// Takes a lock that no other connection holds in a mode that excludes this one. Returns false
    /// if one does.
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

    /// Gives a lock of the session back once. Returns the remaining number of times; `None` if the
    /// connection does not hold it.
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

    /// True if a connection that waits for a lock would wait for itself.
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
    /// Has a connection take locks, until [`AdvisoryLocks::end`].
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

    /// Notes that a connection waits for a lock.
    fn wait(&self, connection: i32, key: Key, mode: Mode) -> Result<Waiting<'_>, LockError> {
        let mut state = lock(&self.state);
        if state.closes_circle(connection, key, mode) {
            return Err(LockError::Deadlock);
        }
        let own = state.connections.get_mut(&connection).ok_or(LockError::Ended)?;
        own.waiting.push((key, mode));
        Ok(Waiting { locks: self, connection, wait: (key, mode) })
    }

    /// Gives a lock of the session back once. Returns false if the connection does not hold it.
    pub(crate) fn give(&self, connection: i32, key: Key, is_shared: bool) -> bool {
        let mut left = None;
        self.change(|state| {
            left = state.give(connection, key, is_shared);
            left == Some(0)
        });
        left.is_some()
    }

    /// Gives all locks of the session back.
    pub(crate) fn give_all(&self, connection: i32) {
        self.change(|state| state.release(connection, false));
    }

    /// Gives the locks of the transaction back.
    pub(crate) fn end_transaction(&self, connection: i32) {
        if self.held.load(Ordering::Acquire) > 0 {
            self.change(|state| state.release(connection, true));
        }
    }

    /// Gives all locks of a connection back, which has ended. Its statements take no more.
    pub(crate) fn end(&self, connection: i32) {
        self.change(|state| {
            let had_any = [false, true].map(|of| state.release(connection, of)).contains(&true);
            state.connections.remove(&connection);
            had_any
        });
    }

    /// Changes the locks, and wakes the waiting connections if the change has released any.
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
