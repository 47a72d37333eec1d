//! Transaction scope of a statement.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::prelude::SessionConfig;
use terrace_governor::query::Suspension;
use tokio::sync::OwnedMutexGuard;

use super::lock_timeout::LockTimeout;
use super::open::Transaction;
use crate::catalog::{Catalog, Draft, Holder, IfExists, KnownViews, Snapshot};
use crate::error::SqlError;
use crate::sketch::Sketch;
use crate::table::{Table, TableVersion};
use crate::write::Changes;

/// The transaction that a statement belongs to, and the limit of its waits for locks. Plans find it
/// in their task context.
#[derive(Clone, Debug)]
pub enum Scope {
    /// The statement is a transaction by itself.
    Alone(LockTimeout),
    /// The statement is part of a transaction of several.
    Within(Arc<Transaction>, LockTimeout),
}

impl Scope {
    /// The scope of a statement that is a transaction by itself and waits without a limit.
    pub const ALONE: Self = Self::Alone(LockTimeout::NONE);

    /// The scope of a plan that runs in `context`.
    pub fn of(context: &TaskContext) -> Self {
        let config = context.session_config();
        let limit = config.get_extension::<LockTimeout>();
        let limit = limit.map_or(LockTimeout::NONE, |limit| LockTimeout::clone(&limit));
        match config.get_extension::<Transaction>() {
            None => Self::Alone(limit),
            Some(transaction) => Self::Within(transaction, limit),
        }
    }

    /// Adds the scope to the configuration that plans run with.
    pub fn put_in(&self, config: SessionConfig) -> SessionConfig {
        let (Self::Alone(limit) | Self::Within(_, limit)) = self;
        let config = config.with_extension(Arc::new(limit.clone()));
        match self {
            Self::Alone(_) => config,
            Self::Within(transaction, _) => config.with_extension(Arc::clone(transaction)),
        }
    }

    /// The same scope, with waits for locks that a query shows as its own.
    #[must_use]
    pub fn shown_by(&self, query: &Arc<Suspension>) -> Self {
        match self {
            Self::Alone(limit) => Self::Alone(limit.shown_by(query)),
            Self::Within(transaction, limit) => {
                Self::Within(Arc::clone(transaction), limit.shown_by(query))
            }
        }
    }

    /// The catalog as the statement sees it, with the transaction's changes so far.
    ///
    /// # Errors
    /// For a transaction that has failed or ended.
    pub fn snapshot(&self, catalog: &Catalog) -> Result<Snapshot, SqlError> {
        match self {
            Self::Alone(_) => Ok(catalog.snapshot()),
            Self::Within(transaction, _) => transaction.snapshot(),
        }
    }

    /// Refuses a statement in a failed transaction.
    ///
    /// # Errors
    /// [`SqlError::TransactionFailed`].
    pub fn refuse_failed(&self) -> Result<(), SqlError> {
        match self {
            Self::Within(transaction, _) if transaction.is_failed() => {
                Err(SqlError::TransactionFailed)
            }
            _ => Ok(()),
        }
    }

    /// Marks the transaction of a failed statement as failed.
    pub fn fail(&self) {
        if let Self::Within(transaction, _) = self {
            transaction.fail();
        }
    }

    /// Applies a definition, and commits it unless it is part of a transaction.
    ///
    /// # Errors
    /// Errors of the definition and of the commit; [`SqlError::LockTimeout`].
    pub async fn define<T>(
        &self,
        catalog: &Arc<Catalog>,
        define: impl Fn(&mut Draft) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        match self {
            Self::Alone(limit) => catalog.define_within(limit, define).await,
            Self::Within(transaction, limit) => transaction.define(limit, define).await,
        }
    }

    /// Adds rows to a table.
    ///
    /// # Errors
    /// [`SqlError::Dropped`], [`SqlError::LockTimeout`]; errors of the commit.
    pub async fn append(&self, table: &Arc<Table>, changes: Changes) -> Result<(), SqlError> {
        match self {
            Self::Alone(limit) => {
                let writer = table.lock_writer_within(limit).await?;
                table.commit(writer, changes).await
            }
            Self::Within(transaction, _) => transaction.change_rows(table, None, changes),
        }
    }

    /// Begins a rewrite of rows of the table that has a name once it is locked.
    ///
    /// # Errors
    /// [`SqlError::Dropped`] if there is none; as [`Scope::rewrite`].
    pub async fn rewrite_named(
        &self,
        catalog: &Catalog,
        schema: &str,
        name: &str,
    ) -> Result<Rewrite, SqlError> {
        loop {
            let found = self.snapshot(catalog)?.table(schema, name);
            let missing = || SqlError::Dropped { name: format!("{schema}.{name}") };
            let (table, _) = found.ok_or_else(missing)?;
            match self.rewrite(&table).await {
                // Another table may have the name by now.
                Err(SqlError::Dropped { .. }) => {}
                locked => return locked,
            }
        }
    }

    /// Begins a rewrite of rows of a table.
    ///
    /// # Errors
    /// [`SqlError::Dropped`], [`SqlError::Conflict`], [`SqlError::Deadlock`],
    /// [`SqlError::LockTimeout`].
    pub async fn rewrite(&self, table: &Arc<Table>) -> Result<Rewrite, SqlError> {
        let (version, hold) = match self {
            Self::Alone(limit) => {
                let lock = table.locks().statement();
                lock.lock(table.as_ref(), limit).await?;
                // Held to the end: concurrently added chunks would be missed.
                let writer = table.lock_writer_within(limit).await?;
                (table.current()?, Hold::Alone(lock, writer, limit.clone()))
            }
            Self::Within(transaction, limit) => {
                let version = transaction.lock_rows(table, limit).await?;
                (version, Hold::Within(Arc::clone(transaction), limit.clone()))
            }
        };
        Ok(Rewrite { table: Arc::clone(table), version, hold })
    }

    /// Locks a table until the end of the transaction, as [`Scope::rewrite`] does, if no other
    /// transaction or statement holds its lock. Returns false if one does.
    ///
    /// # Errors
    /// [`SqlError::NoTransaction`] for a statement that is a transaction by itself; as
    /// [`Scope::rewrite`].
    pub async fn try_lock(&self, table: &Arc<Table>) -> Result<bool, SqlError> {
        match self {
            Self::Alone(_) => Err(SqlError::NoTransaction),
            Self::Within(transaction, limit) => transaction.try_lock_rows(table, limit).await,
        }
    }
}

/// A table whose rows no other statement can rewrite until this is dropped, or until the end of its
/// transaction.
pub struct Rewrite {
    table: Arc<Table>,
    version: Arc<TableVersion>,
    hold: Hold,
}

enum Hold {
    Alone(Holder, OwnedMutexGuard<()>, LockTimeout),
    Within(Arc<Transaction>, LockTimeout),
}

impl Rewrite {
    /// The table.
    pub fn table(&self) -> &Arc<Table> {
        &self.table
    }

    /// The version to read and to change.
    pub fn version(&self) -> &Arc<TableVersion> {
        &self.version
    }

    /// Applies the changes, with the transaction if there is one.
    ///
    /// # Errors
    /// [`SqlError::Dropped`]; errors of the commit.
    pub async fn finish(self, changes: Changes) -> Result<(), SqlError> {
        let Self { table, version, hold } = self;
        match hold {
            Hold::Alone(lock, writer, _) => {
                // Replaced chunks free their space at the commit.
                drop(version);
                table.commit((lock, writer), changes).await
            }
            Hold::Within(transaction, _) => {
                transaction.change_rows(&table, Some(&version), changes)
            }
        }
    }

    /// Returns the sketches of the table's columns, including those of uncommitted rows of the
    /// transaction.
    ///
    /// # Errors
    /// Errors of the catalog's file; as [`Transaction::statement`].
    pub fn sketches(&self) -> Result<Vec<Sketch>, SqlError> {
        let transaction = match &self.hold {
            Hold::Alone(..) => None,
            Hold::Within(transaction, _) => Some(transaction.as_ref()),
        };
        sketches_of(&self.table, transaction)
    }

    /// Replaces this table by `table`, a successor with the same rows, which `changes` adds.
    ///
    /// # Errors
    /// [`SqlError::Exists`] if the name of the new table is taken; [`SqlError::Conflict`],
    /// [`SqlError::LockTimeout`]; errors of the commit.
    pub async fn alter(
        self,
        catalog: &Arc<Catalog>,
        table: &Arc<Table>,
        changes: Changes,
    ) -> Result<(), SqlError> {
        let before = Arc::clone(&self.table);
        let alter = |draft: &mut Draft| draft.alter_table(&before, table, changes.clone());
        self.define(catalog, alter).await
    }

    /// Replaces this table as [`Rewrite::alter`] does, by one that lacks a column or another
    /// property that views may depend on. `views` are the views that the caller has checked: none
    /// of them depends on it, except for those that `release` drops.
    ///
    /// # Errors
    /// As [`Rewrite::alter`]; [`SqlError::Conflict`] if another view has been made since; errors of
    /// `release`.
    pub async fn alter_beside(
        self,
        catalog: &Arc<Catalog>,
        table: &Arc<Table>,
        changes: Changes,
        views: &Arc<KnownViews>,
        release: impl Fn(&mut Draft) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let before = Arc::clone(&self.table);
        let alter = |draft: &mut Draft| {
            draft.alter_table(&before, table, changes.clone())?;
            draft.depend_on_views(views)?;
            release(draft)
        };
        self.define(catalog, alter).await
    }

    /// Replaces this table by `table`, a successor with the same rows and columns, which `changes`
    /// adds, and makes the changes of `beside` in the same commit. Sequences that belong to no
    /// column any more are kept.
    ///
    /// # Errors
    /// As [`Rewrite::alter`]; errors of `beside`.
    pub async fn alter_properties(
        self,
        catalog: &Arc<Catalog>,
        table: &Arc<Table>,
        changes: Changes,
        beside: impl Fn(&mut Draft) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let before = Arc::clone(&self.table);
        let alter = |draft: &mut Draft| {
            draft.replace_table(&before, table, changes.clone())?;
            beside(draft)
        };
        self.define(catalog, alter).await
    }

    /// Replaces this table by `table`, a new one whose rows `changes` adds.
    ///
    /// # Errors
    /// [`SqlError::Conflict`], [`SqlError::LockTimeout`]; errors of the commit.
    pub async fn replace(
        self,
        catalog: &Arc<Catalog>,
        table: &Arc<Table>,
        changes: Changes,
    ) -> Result<(), SqlError> {
        let replace = |draft: &mut Draft| {
            draft.put_table(table, changes.clone(), IfExists::Replace).map(drop)
        };
        self.define(catalog, replace).await
    }

    /// Commits a definition that replaces this table, with the transaction if there is one.
    async fn define(
        self,
        catalog: &Arc<Catalog>,
        define: impl Fn(&mut Draft) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let Self { table: held, version, hold } = self;
        // Replaced chunks free their space at the commit.
        drop(version);
        match hold {
            Hold::Alone(lock, writer, limit) => {
                let mut draft = Draft::new(catalog.snapshot());
                define(&mut draft)?;
                let held = std::slice::from_ref(&held);
                catalog.commit_holding(draft, held, (lock, writer), &limit).await
            }
            Hold::Within(transaction, limit) => transaction.define(&limit, define).await,
        }
    }
}

/// Returns the sketches of a table's columns, including those of uncommitted rows of a transaction.
pub(super) fn sketches_of(
    table: &Table,
    transaction: Option<&Transaction>,
) -> Result<Vec<Sketch>, SqlError> {
    let columns = table.schema().fields().len();
    let mut sketches = table.journal().sketches(table.id(), columns)?;
    if let Some(transaction) = transaction {
        let pending = transaction.sketches(table)?;
        sketches.iter_mut().zip(&pending).for_each(|(sketch, more)| sketch.merge(more));
    }
    Ok(sketches)
}
