//! An open transaction.

use std::collections::HashSet;
use std::sync::{Arc, Mutex, MutexGuard};

use terrace_sys::sync::lock;

use super::lock_timeout::LockTimeout;
use crate::catalog::{Catalog, Draft, Holder, Snapshot};
use crate::error::SqlError;
use crate::sketch::Sketch;
use crate::table::{Table, TableVersion};
use crate::write::Changes;

/// State of a session's transaction between two statements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionStatus {
    /// No transaction: each statement is a transaction by itself.
    Idle,
    /// A transaction is open.
    Open,
    /// A statement of the transaction has failed: it can only end, or roll back to a savepoint.
    Failed,
}

/// An open transaction of several statements: its changes so far, its savepoints and its locks.
pub struct Transaction {
    catalog: Arc<Catalog>,
    /// Shared with the transactions of [`Transaction::for_parts`].
    locks: Arc<Holder>,
    state: Mutex<State>,
}

/// The open transaction of a session, if any.
pub type OpenTransaction = Arc<Mutex<Option<Arc<Transaction>>>>;

struct State {
    /// The changes so far; `None` before the first statement.
    draft: Option<Draft>,
    /// The catalog as of the first statement.
    begun: Option<Snapshot>,
    /// Savepoints by name, oldest first. Of two with the same name the newer one counts.
    savepoints: Vec<(String, Option<Draft>)>,
    /// Number of statements begun.
    statements: u64,
    is_read_only: bool,
    phase: Phase,
    /// In a transaction of [`Transaction::for_parts`]: the changes of the parts, in order, which
    /// are not applied yet. `None` in any other, which applies each change at once.
    collected: Option<Vec<Collected>>,
}

/// A change of rows of a table by a part of a statement.
struct Collected {
    table: Arc<Table>,
    /// The version that the part has read, if it rewrites rows.
    read: Option<Arc<TableVersion>>,
    changes: Changes,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Open,
    Failed,
    Ended,
}

impl Transaction {
    /// Begins a transaction. Its first statement determines the snapshot that it reads.
    pub fn begin(catalog: &Arc<Catalog>, is_read_only: bool) -> Self {
        let (savepoints, phase) = (vec![], Phase::Open);
        let (draft, begun, collected, statements) = (None, None, None, 0);
        let state = State { draft, begun, savepoints, statements, is_read_only, phase, collected };
        let (catalog, locks) = (Arc::clone(catalog), Arc::new(catalog.locks().transaction()));
        Self { catalog, locks, state: Mutex::new(state) }
    }

    /// Returns a transaction for the parts of one statement: the INSERT, UPDATE, DELETE and MERGE
    /// queries of its WITH clause, and its main query. Each of them sees this transaction as it is
    /// now, and none sees the changes of another, which [`Transaction::add_parts`] applies. The
    /// parts share the locks of this transaction.
    ///
    /// # Errors
    /// As [`Transaction::statement`].
    pub fn for_parts(&self) -> Result<Self, SqlError> {
        let mut state = self.state();
        let draft = Some(self.draft(&mut state)?.clone());
        let (savepoints, phase) = (vec![], Phase::Open);
        let (begun, is_read_only) = (None, state.is_read_only);
        // More than one: no part may begin with a later snapshot.
        let (statements, collected) = (2, Some(vec![]));
        let parts = State { draft, begun, savepoints, statements, is_read_only, phase, collected };
        let (catalog, locks) = (Arc::clone(&self.catalog), Arc::clone(&self.locks));
        Ok(Self { catalog, locks, state: Mutex::new(parts) })
    }

    /// Applies the changes of the parts of a statement, once all of them are complete.
    ///
    /// # Errors
    /// [`SqlError::Dropped`]; [`SqlError::Refused`] if another statement of the transaction has
    /// changed a table that a part has rewritten, or if two parts have; as
    /// [`Transaction::statement`]. Some of the changes may be applied then: the transaction must
    /// fail.
    pub fn add_parts(&self, parts: &Self) -> Result<(), SqlError> {
        let collected = parts.state().collected.take().unwrap_or_default();
        // Rewrites first: they have read the version that additions change.
        let (rewrites, additions): (Vec<_>, Vec<_>) =
            collected.into_iter().partition(|it| it.read.is_some());
        for Collected { table, read, changes } in rewrites.into_iter().chain(additions) {
            self.change_rows(&table, read.as_ref(), changes)?;
        }
        Ok(())
    }

    /// Sets the access mode of the transaction.
    ///
    /// # Errors
    /// [`SqlError::Refused`] for READ WRITE after the first statement of a read-only transaction.
    pub fn set_read_only(&self, is_read_only: bool) -> Result<(), SqlError> {
        let mut state = self.state();
        if state.is_read_only && !is_read_only && state.statements > 0 {
            return Err(SqlError::Refused {
                what: "READ WRITE after the first statement of a READ ONLY transaction".to_owned(),
                instead: "say it before any other statement".to_owned(),
            });
        }
        state.is_read_only = is_read_only;
        Ok(())
    }

    /// True for a transaction that changes nothing.
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.state().is_read_only
    }

    /// Refuses a change in a read-only transaction.
    ///
    /// # Errors
    /// [`SqlError::ReadOnly`].
    pub fn refuse_change(&self, what: &str) -> Result<(), SqlError> {
        match self.state().is_read_only {
            true => Err(SqlError::ReadOnly { what: what.to_owned() }),
            false => Ok(()),
        }
    }

    /// Begins a statement, and returns the catalog that it sees.
    ///
    /// # Errors
    /// [`SqlError::TransactionFailed`]; [`SqlError::NoTransaction`] if it has ended.
    pub fn statement(&self) -> Result<Snapshot, SqlError> {
        let mut state = self.state();
        state.statements += 1;
        Ok(self.draft(&mut state)?.snapshot().clone())
    }

    /// The catalog with the changes of the transaction so far.
    ///
    /// # Errors
    /// As [`Transaction::statement`].
    pub fn snapshot(&self) -> Result<Snapshot, SqlError> {
        Ok(self.draft(&mut self.state())?.snapshot().clone())
    }

    /// Marks the transaction as failed. Without a savepoint to roll back to, its changes are
    /// dropped and its locks released.
    pub fn fail(&self) {
        let mut state = self.state();
        if state.phase != Phase::Open {
            return;
        }
        state.phase = Phase::Failed;
        if state.savepoints.is_empty() {
            let undone = state.draft.take();
            drop(state);
            // Dropped chunks free their space outside of the lock.
            drop(undone);
            self.locks.release();
        }
    }

    /// True if one of its statements has failed.
    pub fn is_failed(&self) -> bool {
        self.state().phase == Phase::Failed
    }

    /// Sets a savepoint.
    ///
    /// # Errors
    /// As [`Transaction::statement`].
    pub fn set_savepoint(&self, name: String) -> Result<(), SqlError> {
        let mut state = self.state();
        refuse_ended(state.phase)?;
        let draft = state.draft.clone();
        state.savepoints.push((name, draft));
        Ok(())
    }

    /// Releases a savepoint and those after it.
    ///
    /// # Errors
    /// [`SqlError::MissingSavepoint`]; as [`Transaction::statement`].
    pub fn release_savepoint(&self, name: &str) -> Result<(), SqlError> {
        let mut state = self.state();
        refuse_ended(state.phase)?;
        let place = place_of(&state, name)?;
        state.savepoints.truncate(place);
        Ok(())
    }

    /// Rolls back to a savepoint, which remains. A failed transaction is open again.
    ///
    /// # Errors
    /// [`SqlError::MissingSavepoint`]; [`SqlError::NoTransaction`] if the transaction has ended.
    pub fn return_to_savepoint(&self, name: &str) -> Result<(), SqlError> {
        let mut state = self.state();
        if state.phase == Phase::Ended {
            return Err(SqlError::NoTransaction);
        }
        let place = place_of(&state, name)?;
        state.savepoints.truncate(place + 1);
        // A savepoint set before the first statement keeps that statement's snapshot.
        let begun = state.begun.clone().map(Draft::of_transaction);
        let draft = state.savepoints[place].1.clone().or(begun);
        let undone = std::mem::replace(&mut state.draft, draft);
        state.phase = Phase::Open;
        drop(state);
        // Dropped chunks free their space outside of the lock.
        drop(undone);
        Ok(())
    }

    /// Commits the changes and ends the transaction. Waits at most for `limit` for the writer of
    /// each changed table. Returns false for a failed transaction, which is rolled back.
    ///
    /// # Errors
    /// [`SqlError::Conflict`]; [`SqlError::LockTimeout`]; errors of the store and of the catalog's
    /// file. Nothing has changed then, unless the error is [`SqlError::InDoubt`], and the
    /// transaction has ended.
    pub async fn commit(&self, limit: &LockTimeout) -> Result<bool, SqlError> {
        let (phase, draft) = self.end();
        let committed = match (phase, draft) {
            (Phase::Open, Some(draft)) => self.catalog.commit(draft, limit).await.map(|()| true),
            (Phase::Open, None) => Ok(true),
            _ => Ok(false),
        };
        // Released explicitly: a result that was not read to its end may keep the transaction
        // alive.
        self.locks.release();
        committed
    }

    /// Ends the transaction and rolls it back.
    pub fn roll_back(&self) {
        drop(self.end());
        self.locks.release();
    }

    /// Ends the transaction. Returns its previous phase and its changes.
    fn end(&self) -> (Phase, Option<Draft>) {
        let mut state = self.state();
        (state.savepoints, state.begun) = (vec![], None);
        let phase = std::mem::replace(&mut state.phase, Phase::Ended);
        (phase, state.draft.take())
    }

    /// Applies a definition, after locking the tables that it drops. Waits at most for `limit` for
    /// each of them.
    ///
    /// # Errors
    /// Errors of the definition; [`SqlError::Deadlock`], [`SqlError::LockTimeout`]; as
    /// [`Transaction::statement`].
    pub async fn define<T>(
        &self,
        limit: &LockTimeout,
        define: impl Fn(&mut Draft) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        self.refuse_change("a definition")?;
        let mut trial = self.draft(&mut self.state())?.clone();
        define(&mut trial)?;
        self.locks.lock_all(trial.dropped(), limit).await?;
        drop(trial);
        define(self.draft(&mut self.state())?)
    }

    /// Returns the sketches of the uncommitted rows of a table; empty if there are none.
    ///
    /// # Errors
    /// As [`Transaction::statement`].
    pub(crate) fn sketches(&self, table: &Table) -> Result<Vec<Sketch>, SqlError> {
        let mut state = self.state();
        Ok(self.draft(&mut state)?.sketches(table).map(<[Sketch]>::to_vec).unwrap_or_default())
    }

    /// Adds rows to a table, or changes those of the version `read`.
    ///
    /// # Errors
    /// As [`Draft::change_rows`] and [`Transaction::statement`].
    pub(crate) fn change_rows(
        &self,
        table: &Arc<Table>,
        read: Option<&Arc<TableVersion>>,
        changes: Changes,
    ) -> Result<(), SqlError> {
        self.refuse_change("a change of rows")?;
        let mut state = self.state();
        if let Some(collected) = &mut state.collected {
            let (table, read) = (Arc::clone(table), read.map(Arc::clone));
            collected.push(Collected { table, read, changes });
            return Ok(());
        }
        self.draft(&mut state)?.change_rows(table, read, changes)
    }

    /// Locks a table whose rows are to be rewritten, and returns the version to read. Waits at most
    /// for `limit`. The first statement of the transaction then reads the latest snapshot.
    ///
    /// # Errors
    /// [`SqlError::Conflict`] if another transaction has rewritten rows of the table since this one
    /// began; [`SqlError::Deadlock`]; [`SqlError::LockTimeout`]; [`SqlError::Dropped`]; as
    /// [`Transaction::statement`].
    pub(crate) async fn lock_rows(
        &self,
        table: &Arc<Table>,
        limit: &LockTimeout,
    ) -> Result<Arc<TableVersion>, SqlError> {
        if !self.draft(&mut self.state())?.made(table) {
            self.locks.lock(table.as_ref(), limit).await?;
            self.read_locked(table, limit).await?;
        }
        let version = self.draft(&mut self.state())?.snapshot().version(table);
        version.ok_or_else(|| SqlError::Dropped { name: table.full_name() })
    }

    /// Locks a table as [`Transaction::lock_rows`] does if no other holder has its lock. Returns
    /// false if one does. Waits at most for `limit` for statements that add rows.
    ///
    /// # Errors
    /// As [`Transaction::lock_rows`].
    pub(crate) async fn try_lock_rows(
        &self,
        table: &Arc<Table>,
        limit: &LockTimeout,
    ) -> Result<bool, SqlError> {
        if self.draft(&mut self.state())?.made(table) {
            return Ok(true);
        }
        let is_locked = self.locks.try_lock(table.as_ref());
        if is_locked {
            self.read_locked(table, limit).await?;
        }
        Ok(is_locked)
    }

    /// Updates the snapshot of the transaction after it has locked a table, or reports a conflict.
    async fn read_locked(&self, table: &Arc<Table>, limit: &LockTimeout) -> Result<(), SqlError> {
        // Waits for the end of a merge that began before the lock was taken.
        let writer = table.lock_writer_within(limit).await?;
        self.follow(table)?;
        drop(writer);
        Ok(())
    }

    /// Verifies that the chunks of a locked table in the transaction's snapshot still exist. Takes
    /// the current version after a mere merge of chunks, and the current snapshot of the catalog
    /// before the first change of the first statement; otherwise missing chunks are a conflict.
    fn follow(&self, table: &Arc<Table>) -> Result<(), SqlError> {
        let mut state = self.state();
        let is_first = state.statements <= 1;
        let draft = self.draft(&mut state)?;
        let dropped = || SqlError::Dropped { name: table.full_name() };
        let base = draft.base(table).ok_or_else(dropped)?;
        let conflict = || SqlError::Conflict { what: format!("{} was changed", table.full_name()) };
        let current = table.current().map_err(|_dropped| conflict())?;
        if Arc::ptr_eq(&current, &base) {
            return Ok(());
        }
        if current.number == base.number {
            draft.rebase(table, current);
            return Ok(());
        }
        if is_first && draft.is_empty() {
            let now = self.catalog.snapshot();
            *draft = Draft::of_transaction(now.clone());
            state.begun = Some(now);
            return Ok(());
        }
        if current.rewrites != base.rewrites {
            return Err(conflict());
        }
        let there: HashSet<u64> = current.chunks.iter().map(|chunk| chunk.id).collect();
        if !base.chunks.iter().all(|chunk| there.contains(&chunk.id)) {
            let what = format!("rows were added to {} and merged with others", table.full_name());
            return Err(SqlError::Conflict { what });
        }
        Ok(())
    }

    /// The changes so far; begins them with the first statement.
    fn draft<'a>(&self, state: &'a mut State) -> Result<&'a mut Draft, SqlError> {
        refuse_ended(state.phase)?;
        let State { draft, begun, .. } = state;
        Ok(draft.get_or_insert_with(|| {
            let snapshot = begun.get_or_insert_with(|| self.catalog.snapshot());
            Draft::of_transaction(snapshot.clone())
        }))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        lock(&self.state)
    }
}

fn refuse_ended(phase: Phase) -> Result<(), SqlError> {
    match phase {
        Phase::Open => Ok(()),
        Phase::Failed => Err(SqlError::TransactionFailed),
        Phase::Ended => Err(SqlError::NoTransaction),
    }
}

fn place_of(state: &State, name: &str) -> Result<usize, SqlError> {
    let place = state.savepoints.iter().rposition(|(known, _)| known == name);
    place.ok_or_else(|| SqlError::MissingSavepoint { name: name.to_owned() })
}

impl std::fmt::Debug for Transaction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let state = self.state();
        f.debug_struct("Transaction")
            .field("statements", &state.statements)
            .field("is_read_only", &state.is_read_only)
            .finish_non_exhaustive()
    }
}
