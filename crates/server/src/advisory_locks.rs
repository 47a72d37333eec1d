//! Advisory locks: locks of numbers that clients agree on, as PostgreSQL has them.
//!
//! A connection holds a lock until it gives it back as often as it has taken it, or until the end
//! of its transaction, as it asks for. Deadlocks among these locks are found when a connection
//! begins to wait; those with locks of tables are not.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use terrace_sys::sync::lock;
use tokio::sync::Notify;

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

/// The error of a wait that would make connections wait for each other for ever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Circle;

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
    held: BTreeMap<Key, Vec<Hold>>,
    /// The locks that each connection waits for.
    waiting: BTreeMap<i32, Vec<(Key, Mode)>>,
}

#[derive(Debug)]
struct Hold {
    connection: i32,
    mode: Mode,
    /// Number of times that the connection has taken the lock so.
    times: u64,
}

impl State {
    /// Returns the other connections that hold a lock in a mode that excludes this one.
    fn holders(&self, connection: i32, key: Key, is_shared: bool) -> Vec<i32> {
        let holds = self.held.get(&key).into_iter().flatten();
        let excludes =
            |hold: &&Hold| hold.connection != connection && !(hold.mode.is_shared && is_shared);
        holds.filter(excludes).map(|hold| hold.connection).collect()
    }

    /// Takes a lock that no other connection holds in a mode that excludes this one. Returns false
    /// if one does.
    fn take(&mut self, connection: i32, key: Key, mode: Mode) -> bool {
        if !self.holders(connection, key, mode.is_shared).is_empty() {
            return false;
        }
        let holds = self.held.entry(key).or_default();
        let is_same = |hold: &&mut Hold| hold.connection == connection && hold.mode == mode;
        match holds.iter_mut().find(is_same) {
            Some(hold) => hold.times += 1,
            None => holds.push(Hold { connection, mode, times: 1 }),
        }
        true
    }

    /// True if a connection that waits for a lock would wait for itself.
    fn closes_circle(&self, connection: i32, key: Key, mode: Mode) -> bool {
        let mut next = self.holders(connection, key, mode.is_shared);
        let mut seen = BTreeSet::new();
        while let Some(holder) = next.pop() {
            if holder == connection {
                return true;
            }
            if seen.insert(holder) {
                let waits = self.waiting.get(&holder).into_iter().flatten();
                next.extend(
                    waits.flat_map(|(key, mode)| self.holders(holder, *key, mode.is_shared)),
                );
            }
        }
        false
    }
}

impl AdvisoryLocks {
    /// Takes a lock if it is free. Returns false if another connection holds it.
    pub(crate) fn try_take(&self, connection: i32, key: Key, mode: Mode) -> bool {
        let mut state = lock(&self.state);
        let is_taken = state.take(connection, key, mode);
        self.held.store(state.held.len(), Ordering::Release);
        is_taken
    }

    /// Waits for a lock and takes it. Dropping the future ends the wait.
    ///
    /// # Errors
    /// [`Circle`].
    pub(crate) async fn take(&self, connection: i32, key: Key, mode: Mode) -> Result<(), Circle> {
        let mut waiting = None;
        loop {
            let mut released = std::pin::pin!(self.released.notified());
            released.as_mut().enable();
            if self.try_take(connection, key, mode) {
                return Ok(());
            }
            if waiting.is_none() {
                waiting = Some(self.wait(connection, key, mode)?);
            }
            released.await;
        }
    }

    /// Notes that a connection waits for a lock.
    fn wait(&self, connection: i32, key: Key, mode: Mode) -> Result<Waiting<'_>, Circle> {
        let mut state = lock(&self.state);
        if state.closes_circle(connection, key, mode) {
            return Err(Circle);
        }
        state.waiting.entry(connection).or_default().push((key, mode));
        Ok(Waiting { locks: self, connection, wait: (key, mode) })
    }

    /// Gives a lock of the session back once. Returns false if the connection does not hold it.
    pub(crate) fn give(&self, connection: i32, key: Key, is_shared: bool) -> bool {
        let mode = Mode { is_shared, of_transaction: false };
        let mut is_held = false;
        self.change(|holds_of, hold| {
            if *holds_of == key && hold.connection == connection && hold.mode == mode {
                is_held = true;
                hold.times -= 1;
            }
        });
        is_held
    }

    /// Gives all locks of the session back.
    pub(crate) fn give_all(&self, connection: i32) {
        self.release(|hold| hold.connection == connection && !hold.mode.of_transaction);
    }

    /// Gives the locks of the transaction back.
    pub(crate) fn end_transaction(&self, connection: i32) {
        self.release(|hold| hold.connection == connection && hold.mode.of_transaction);
    }

    /// Gives all locks of a connection back, which has ended.
    pub(crate) fn end(&self, connection: i32) {
        self.release(|hold| hold.connection == connection);
    }

    fn release(&self, is_released: impl Fn(&Hold) -> bool) {
        if self.held.load(Ordering::Acquire) == 0 {
            return;
        }
        self.change(|_, hold| {
            if is_released(hold) {
                hold.times = 0;
            }
        });
    }

    /// Changes the holds, removes those that are held no more, and wakes the waiting connections.
    fn change(&self, mut change: impl FnMut(&Key, &mut Hold)) {
        let mut state = lock(&self.state);
        let before: usize = state.held.values().map(Vec::len).sum();
        state.held.retain(|key, holds| {
            holds.iter_mut().for_each(|hold| change(key, hold));
            holds.retain(|hold| hold.times > 0);
            !holds.is_empty()
        });
        let after: usize = state.held.values().map(Vec::len).sum();
        self.held.store(state.held.len(), Ordering::Release);
        drop(state);
        if after < before {
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
        let Some(waits) = state.waiting.get_mut(&self.connection) else { return };
        if let Some(place) = waits.iter().position(|wait| *wait == self.wait) {
            waits.remove(place);
        }
        if waits.is_empty() {
            state.waiting.remove(&self.connection);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use tokio::time::timeout;

    use super::*;

    const ALONE: Mode = Mode { is_shared: false, of_transaction: false };
    const SHARED: Mode = Mode { is_shared: true, of_transaction: false };
    const WITHIN: Mode = Mode { is_shared: false, of_transaction: true };

    #[test]
    fn locks_are_held_as_often_as_they_are_taken() {
        let (locks, key) = (AdvisoryLocks::default(), Key::One(7));
        assert!(locks.try_take(1, key, ALONE) && locks.try_take(1, key, ALONE));
        assert!(!locks.try_take(2, key, ALONE) && !locks.try_take(2, key, SHARED));
        assert!(locks.try_take(2, Key::Pair(0, 7), ALONE), "another lock");
        assert!(locks.give(1, key, false) && !locks.try_take(2, key, ALONE));
        assert!(!locks.give(1, key, true), "not shared");
        assert!(locks.give(1, key, false) && locks.try_take(2, key, SHARED));
        assert!(locks.try_take(3, key, SHARED) && !locks.try_take(3, key, ALONE));
        assert!(!locks.give(1, key, false), "not held");
        locks.give_all(2);
        assert!(locks.try_take(3, key, ALONE), "its own shared hold");
        locks.end(3);
        assert!(locks.try_take(1, key, WITHIN));
        locks.give_all(1);
        assert!(!locks.give(1, key, false) && !locks.try_take(2, key, ALONE));
        locks.end_transaction(1);
        assert!(locks.try_take(2, key, ALONE));
        locks.end(2);
        assert!(lock(&locks.state).held.is_empty());
    }

    #[tokio::test]
    async fn waits_end_with_the_lock_and_in_a_circle() {
        let locks = AdvisoryLocks::default();
        let (one, other) = (Key::One(1), Key::One(2));
        assert!(locks.try_take(1, one, ALONE) && locks.try_take(2, other, ALONE));
        let short = Duration::from_millis(20);
        assert!(timeout(short, locks.take(2, one, ALONE)).await.is_err(), "held");
        assert!(lock(&locks.state).waiting.is_empty());
        let crossed = async {
            tokio::time::sleep(short).await;
            let circle = locks.take(1, other, SHARED).await;
            locks.end(1);
            circle
        };
        let (taken, circle) = tokio::join!(locks.take(2, one, ALONE), crossed);
        assert_eq!((taken, circle), (Ok(()), Err(Circle)));
    }
}
