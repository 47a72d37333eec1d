//! Rewrites of several tables in one change of the catalog.

use std::sync::Arc;

use tokio::sync::OwnedMutexGuard;

use super::lock_timeout::LockTimeout;
use super::open::Transaction;
use super::scope::{Scope, sketches_of};
use crate::catalog::{Catalog, Draft, Holder};
use crate::error::SqlError;
use crate::sketch::Sketch;
use crate::table::{Table, TableVersion};
use crate::write::Changes;

/// Tables whose rows no other statement can rewrite until this is dropped, or until the end of its
/// transaction.
pub struct Rewrites {
    tables: Vec<(Arc<Table>, Arc<TableVersion>)>,
    hold: Hold,
}

enum Hold {
    Alone(Holder, Vec<OwnedMutexGuard<()>>, LockTimeout),
    Within(Arc<Transaction>, LockTimeout),
}

impl Scope {
    /// Begins a rewrite of several tables.
    ///
    /// # Errors
    /// As [`Scope::rewrite`].
    pub async fn rewrite_all(
        &self,
        catalog: &Arc<Catalog>,
        tables: &[Arc<Table>],
    ) -> Result<Rewrites, SqlError> {
        let mut tables = tables.to_vec();
        tables.sort_by_key(|table| table.id());
        let mut held = Vec::with_capacity(tables.len());
        let hold = match self {
            Self::Alone(limit) => {
                let lock = catalog.locks().statement();
                lock.lock_all(tables.iter(), limit).await?;
                // Held to the end: concurrently added chunks would be missed.
                let mut writers = Vec::with_capacity(tables.len());
                for table in tables {
                    writers.push(table.lock_writer_within(limit).await?);
                    let version = table.current()?;
                    held.push((table, version));
                }
                Hold::Alone(lock, writers, limit.clone())
            }
            Self::Within(transaction, limit) => {
                for table in &tables {
                    transaction.lock_rows(table, limit).await?;
                }
                // The first statement of a transaction may read a later snapshot with each lock.
                let snapshot = transaction.snapshot()?;
                for table in tables {
                    let version = snapshot.version(&table);
                    let dropped = || SqlError::Dropped { name: table.full_name() };
                    let version = version.ok_or_else(dropped)?;
                    held.push((table, version));
                }
                Hold::Within(Arc::clone(transaction), limit.clone())
            }
        };
        Ok(Rewrites { tables: held, hold })
    }
}

impl Rewrites {
    /// The tables, each with the version to read and to change, in the order of their ids.
    pub fn tables(&self) -> &[(Arc<Table>, Arc<TableVersion>)] {
        &self.tables
    }

    /// Returns the sketches of the columns of one of the tables, including those of uncommitted
    /// rows of the transaction.
    ///
    /// # Errors
    /// Errors of the catalog's file; as [`Transaction::statement`].
    pub fn sketches(&self, table: &Table) -> Result<Vec<Sketch>, SqlError> {
        let transaction = match &self.hold {
            Hold::Alone(..) => None,
            Hold::Within(transaction, _) => Some(transaction.as_ref()),
        };
        sketches_of(table, transaction)
    }

    /// Replaces the tables by successors with the same rows, which their changes add: one for each
    /// of [`Rewrites::tables`], in that order. `before` and `after` are called with the draft
    /// before and after these replacements, for the other changes of the statement.
    ///
    /// # Errors
    /// [`SqlError::Exists`] if the name of a new table is taken; [`SqlError::Conflict`],
    /// [`SqlError::LockTimeout`]; errors of `before` and `after`, and of the commit.
    pub async fn alter(
        self,
        catalog: &Arc<Catalog>,
        altered: &[(Arc<Table>, Changes)],
        before: impl Fn(&mut Draft) -> Result<(), SqlError>,
        after: impl Fn(&mut Draft) -> Result<(), SqlError>,
    ) -> Result<(), SqlError> {
        let Self { tables, hold } = self;
        // Replaced chunks free their space at the commit, unless a version holds them.
        let tables: Vec<_> = tables.into_iter().map(|(table, _)| table).collect();
        let define = |draft: &mut Draft| {
            before(draft)?;
            for (table, (successor, changes)) in tables.iter().zip(altered) {
                draft.alter_table(table, successor, changes.clone())?;
            }
            after(draft)
        };
        match hold {
            Hold::Alone(lock, writers, limit) => {
                let mut draft = Draft::new(catalog.snapshot());
                define(&mut draft)?;
                catalog.commit_holding(draft, &tables, (lock, writers), &limit).await
            }
            Hold::Within(transaction, limit) => transaction.define(&limit, define).await,
        }
    }
}
