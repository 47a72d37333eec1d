//! Definitions as autocommit statements: each is applied to a draft and committed at once. If
//! another commit conflicts, the definition is repeated on a new snapshot.

use std::sync::Arc;

use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::MemoryPool;
use futures::future::BoxFuture;

use super::draft::Draft;
use super::sequence::Sequence;
use super::state::Catalog;
use super::table_definition::{IfExists, TableDefinition};
use crate::error::SqlError;
use crate::table::Table;
use crate::transaction::{LockTimeout, Scope};
use crate::write::{self, Changes, Terms};

impl Catalog {
    /// Creates a schema. Returns true if it is new.
    ///
    /// # Errors
    /// [`SqlError::SchemaExists`] unless `keep` is set; errors of the catalog's file.
    pub async fn create_schema(self: &Arc<Self>, name: &str, keep: bool) -> Result<bool, SqlError> {
        self.define(|draft| draft.create_schema(name, keep)).await
    }

    /// Drops a schema, with `cascade` all of its objects too, atomically. Returns true if it
    /// existed.
    ///
    /// # Errors
    /// [`SqlError::SchemaNotEmpty`] without `cascade`; errors of the catalog's file.
    pub async fn drop_schema(
        self: &Arc<Self>,
        name: &str,
        cascade: bool,
    ) -> Result<bool, SqlError> {
        self.define(|draft| draft.drop_schema(name, cascade)).await
    }

    /// Creates an empty table. Returns `None` if an existing table was kept.
    ///
    /// # Errors
    /// [`SqlError::Exists`], [`SqlError::MissingSchema`], [`SqlError::Segment`] for a column type
    /// that cannot be stored; errors of the catalog's file.
    pub fn create_table<'a>(
        self: &'a Arc<Self>,
        definition: TableDefinition,
        if_exists: IfExists,
    ) -> BoxFuture<'a, Result<Option<Arc<Table>>, SqlError>> {
        Box::pin(async move { self.create_table_in(&Scope::ALONE, definition, if_exists).await })
    }

    /// Creates a table as [`Catalog::create_table`] does, possibly in a transaction.
    pub async fn create_table_in(
        self: &Arc<Self>,
        scope: &Scope,
        definition: TableDefinition,
        if_exists: IfExists,
    ) -> Result<Option<Arc<Table>>, SqlError> {
        self.create_table_with(scope, definition, vec![], if_exists).await
    }

    /// Creates a table as [`Catalog::create_table_in`] does, together with the sequences of its
    /// columns.
    ///
    /// # Errors
    /// As [`Catalog::create_table`].
    pub async fn create_table_with(
        self: &Arc<Self>,
        scope: &Scope,
        definition: TableDefinition,
        sequences: Vec<Arc<Sequence>>,
        if_exists: IfExists,
    ) -> Result<Option<Arc<Table>>, SqlError> {
        if scope.snapshot(self)?.is_kept(&definition, if_exists)? {
            return Ok(None);
        }
        let owner = definition.owner.clone();
        let table = self.unnamed(definition)?;
        let empty = Changes::empty(table.schema());
        let put = |draft: &mut Draft| {
            let owner = owner.as_deref();
            let is_made = draft.put_owned_table(&table, empty.clone(), if_exists, owner)?;
            for sequence in sequences.iter().filter(|_| is_made) {
                draft.put_sequence(sequence, false, owner)?;
            }
            Ok(is_made)
        };
        Ok(scope.define(self, put).await?.then_some(table))
    }

    /// Creates a table from `rows`: it appears with all of them or not at all. Returns the number
    /// of rows, or `None` if an existing table was kept. `memory` accounts for the rows in flight.
    ///
    /// # Errors
    /// As [`Catalog::create_table`]; errors of the rows, the pool and the store.
    pub fn create_table_as<'a>(
        self: &'a Arc<Self>,
        definition: TableDefinition,
        if_exists: IfExists,
        rows: SendableRecordBatchStream,
        memory: &'a Arc<dyn MemoryPool>,
    ) -> BoxFuture<'a, Result<Option<u64>, SqlError>> {
        Box::pin(async move {
            self.create_table_as_in(&Scope::ALONE, definition, if_exists, rows, memory).await
        })
    }

    /// Creates a table as [`Catalog::create_table_as`] does, possibly in a transaction.
    pub async fn create_table_as_in(
        self: &Arc<Self>,
        scope: &Scope,
        definition: TableDefinition,
        if_exists: IfExists,
        rows: SendableRecordBatchStream,
        memory: &Arc<dyn MemoryPool>,
    ) -> Result<Option<u64>, SqlError> {
        if scope.snapshot(self)?.is_kept(&definition, if_exists)? {
            return Ok(None);
        }
        let owner = definition.owner.clone();
        let table = self.unnamed(definition)?;
        let rows = write::write_rows(&table, rows, Terms::default(), memory).await?;
        let put = |draft: &mut Draft| {
            draft.put_owned_table(&table, rows.clone(), if_exists, owner.as_deref())
        };
        Ok(scope.define(self, put).await?.then_some(rows.rows()))
    }

    /// Drops a table and frees its space, now or with its last reader. Returns true if it existed.
    ///
    /// # Errors
    /// Errors of the catalog's file.
    pub async fn drop_table(self: &Arc<Self>, schema: &str, name: &str) -> Result<bool, SqlError> {
        self.define(|draft| draft.drop_table(schema, name)).await
    }

    /// Stores the text of a view.
    ///
    /// # Errors
    /// [`SqlError::Exists`] if the name is taken by a table, or by a view that is not to be
    /// replaced; [`SqlError::MissingSchema`]; errors of the catalog's file.
    pub fn put_view<'a>(
        self: &'a Arc<Self>,
        schema: &'a str,
        name: &'a str,
        sql: &'a str,
        replace: bool,
    ) -> BoxFuture<'a, Result<(), SqlError>> {
        Box::pin(
            async move { self.define(|draft| draft.put_view(schema, name, sql, replace)).await },
        )
    }

    /// Drops a view. Returns true if it existed.
    ///
    /// # Errors
    /// Errors of the catalog's file.
    pub async fn drop_view(self: &Arc<Self>, schema: &str, name: &str) -> Result<bool, SqlError> {
        self.define(|draft| draft.drop_view(schema, name)).await
    }

    /// Commits a definition by itself. Waits for the transactions that rewrite the tables which it
    /// drops.
    ///
    /// # Errors
    /// Those of the definition; errors of the store and of the catalog's file.
    pub async fn define<T>(
        self: &Arc<Self>,
        define: impl Fn(&mut Draft) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        self.define_within(&LockTimeout::NONE, define).await
    }

    /// Commits a definition as [`Catalog::define`] does, after waiting at most for `limit` for each
    /// lock of a table.
    ///
    /// # Errors
    /// As [`Catalog::define`]; [`SqlError::LockTimeout`].
    pub(crate) async fn define_within<T>(
        self: &Arc<Self>,
        limit: &LockTimeout,
        define: impl Fn(&mut Draft) -> Result<T, SqlError>,
    ) -> Result<T, SqlError> {
        loop {
            let mut draft = Draft::new(self.snapshot());
            let defined = define(&mut draft)?;
            let holder = self.journal.locks.statement();
            holder.lock_all(draft.dropped(), limit).await?;
            match self.commit(draft, limit).await {
                Err(SqlError::Conflict { .. }) => {}
                committed => return committed.map(|()| defined),
            }
        }
    }
}
