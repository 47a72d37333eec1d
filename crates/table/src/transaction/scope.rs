//! Transaction scope of a statement.

use std::sync::Arc;

use datafusion::execution::TaskContext;
use datafusion::prelude::SessionConfig;
use tokio::sync::OwnedMutexGuard;

use super::open::Transaction;
use crate::catalog::{Catalog, Draft, Holder, IfExists, Snapshot};
use crate::error::SqlError;
use crate::table::{Table, TableVersion};
use crate::write::Changes;

/// The transaction that a statement belongs to. Plans find it in their task context.
#[derive(Clone, Debug)]
pub enum Scope {
    /// The statement is a transaction by itself.
    Alone,
    /// The statement is part of a transaction of several.
    Within(Arc<Transaction>),
}

impl Scope {
    /// The scope of a plan that runs in `context`.
    pub fn of(context: &TaskContext) -> Self {
        let within = context.session_config().get_extension::<Transaction>();
        within.map_or(Self::Alone, Self::Within)
    }

    /// Adds the scope to the configuration that plans run with.
    pub fn put_in(&self, config: SessionConfig) -> SessionConfig {
        match self {
            Self::Alone => config,
            Self::Within(transaction) => config.with_extension(Arc::clone(transaction)),
        }
    }

    /// The catalog as the statement sees it, with the transaction's changes so far.
    ///
    /// # Errors
    /// For a transaction that has failed or ended.
    pub fn snapshot(&self, catalog: &Catalog) -> Result<Snapshot, SqlError> {
        match self {
            Self::Alone => Ok(catalog.snapshot()),
            Self::Within(transaction) => transaction.snapshot(),
        }
    }

    /// Refuses a statement in a failed transaction.
    ///
    /// # Errors
    /// [`SqlError::TransactionFailed`].
    pub fn refuse_failed(&self) -> Result<(), SqlError> {
        match self {
            Self::Within(transaction) if transaction.is_failed() => {
                Err(SqlError::TransactionFailed)
            }
            _ => Ok(()),
        }
    }

    /// Marks the transaction of a failed statement as failed.
    pub fn fail(&self) {
        if let Self::Within(transaction) = self {
            transaction.fail();
        }
    }

    /// Applies a definition, and commits it unless it is part of a transaction.
    ///
    /// # Errors
    /// Errors of the definition and of the commit.
    pub async fn define<T>(
        &self,
        catalog: &Arc<Catalog>,
        define: impl Fn(&mut Draft) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        match self {
            Self::Alone => catalog.define(define).await,
            Self::Within(transaction) => transaction.define(define).await,
        }
    }

    /// Adds rows to a table.
    ///
    /// # Errors
    /// [`SqlError::Dropped`]; errors of the commit.
    pub async fn append(&self, table: &Arc<Table>, changes: Changes) -> Result<(), SqlError> {
        match self {
            Self::Alone => {
                let writer = table.lock_writer().await;
                table.commit(writer, changes).await
            }
            Self::Within(transaction) => transaction.change_rows(table, None, changes),
        }
    }

    /// Begins a rewrite of rows of a table.
    ///
    /// # Errors
    /// [`SqlError::Dropped`], [`SqlError::Conflict`], [`SqlError::Deadlock`].
    pub async fn rewrite(&self, table: &Arc<Table>) -> Result<Rewrite, SqlError> {
        let (version, hold) = match self {
            Self::Alone => {
                let lock = table.locks().statement();
                lock.lock(table.as_ref()).await?;
                // Held to the end: concurrently added chunks would be missed.
                let writer = table.lock_writer().await;
                (table.current()?, Hold::Alone(lock, writer))
            }
            Self::Within(transaction) => {
                let version = transaction.lock_rows(table).await?;
                (version, Hold::Within(Arc::clone(transaction)))
            }
        };
        Ok(Rewrite { table: Arc::clone(table), version, hold })
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
    Alone(Holder, OwnedMutexGuard<()>),
    Within(Arc<Transaction>),
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
            Hold::Alone(lock, writer) => {
                // Replaced chunks free their space at the commit.
                drop(version);
                table.commit((lock, writer), changes).await
            }
            Hold::Within(transaction) => transaction.change_rows(&table, Some(&version), changes),
        }
    }

    /// Replaces this table by a new one with its rows.
    ///
    /// # Errors
    /// [`SqlError::Conflict`]; errors of the commit.
    pub async fn replace(
        self,
        catalog: &Arc<Catalog>,
        table: &Arc<Table>,
        changes: Changes,
    ) -> Result<(), SqlError> {
        let replace = |draft: &mut Draft| {
            draft.put_table(table, changes.clone(), IfExists::Replace).map(drop)
        };
        let Self { table: held, version, hold } = self;
        // Replaced chunks free their space at the commit.
        drop(version);
        match hold {
            Hold::Alone(lock, writer) => {
                let mut draft = Draft::new(catalog.snapshot());
                replace(&mut draft)?;
                catalog.commit_holding(draft, &held, (lock, writer)).await
            }
            Hold::Within(transaction) => transaction.define(replace).await,
        }
    }
}
