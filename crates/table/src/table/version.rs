//! Versions of tables.

use std::fmt;
use std::sync::{Arc, OnceLock};

use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::Statistics;

use super::chunks::Chunks;
use crate::chunk::Chunk;
use crate::error::SqlError;
use crate::statistics;

/// Source of the sketches of the columns of all tables.
pub(crate) trait Sketches: Send + Sync {
    /// Returns the estimated number of distinct values of each column of a table as it is now.
    ///
    /// # Errors
    /// Errors of the file that has the sketches.
    fn distinct(&self, table: u64, columns: usize) -> Result<Vec<u64>, SqlError>;
}

/// The chunks of a table as of one statement. Immutable.
pub struct TableVersion {
    /// Number of commits that changed rows since the process started. Merging chunks does not
    /// change rows: two versions with the same number have the same rows, possibly in other chunks.
    pub number: u64,
    /// Number of those commits that removed or changed rows; the others only added rows.
    pub rewrites: u64,
    /// Chunks in row order: by [place](crate::chunk::Chunk::place), and by id within one place.
    pub chunks: Chunks,
    schema: SchemaRef,
    /// Source of the sketches of the table's columns: they stay in the catalog's file, and are read
    /// when statistics are requested.
    sketches: (Arc<dyn Sketches>, u64),
    statistics: OnceLock<Arc<Statistics>>,
}

impl TableVersion {
    /// Builds a version of a table with these chunks. `sketches` is the source of the sketches, and
    /// the id of the table in it.
    pub(super) fn new(
        number: u64,
        rewrites: u64,
        chunks: Chunks,
        schema: SchemaRef,
        sketches: (Arc<dyn Sketches>, u64),
    ) -> Self {
        Self { number, rewrites, chunks, schema, sketches, statistics: OnceLock::new() }
    }

    /// Returns the estimated number of distinct values of each column, over every row that the
    /// table has held since it was last emptied.
    pub fn distinct(&self) -> Vec<u64> {
        let (sketches, table) = &self.sketches;
        let found = sketches.distinct(*table, self.schema.fields().len());
        found.unwrap_or_else(|error| {
            tracing::warn!(%error, table, "the planner goes by what single chunks hold");
            vec![]
        })
    }

    /// Returns all segments by chunk and column, those of a column one after the other. Copied to a
    /// heap in this order, the blocks that a scan of some columns reads hold no other columns.
    pub(crate) fn segments_by_column(&self) -> impl Iterator<Item = (&Arc<Chunk>, usize)> {
        let columns = self.schema.fields().len();
        let all = (0..columns).flat_map(|column| self.chunks.iter().map(move |it| (it, column)));
        all.filter(|(chunk, column)| chunk.columns[*column].stored().is_some())
    }

    /// Returns the schema of the table.
    #[must_use]
    pub fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns the number of rows in all chunks.
    #[must_use]
    pub fn rows(&self) -> usize {
        self.chunks.iter().map(|chunk| chunk.rows).sum()
    }

    /// Returns the bytes of all extents.
    #[must_use]
    pub fn extent_bytes(&self) -> u64 {
        self.chunks.iter().map(|chunk| chunk.extent_bytes()).sum()
    }

    /// Returns the table's statistics for the planner, computed once per version: exact rows,
    /// nulls, minimum and maximum, estimated distinct values.
    #[must_use]
    pub fn statistics(&self) -> Arc<Statistics> {
        let statistics = || statistics::of_chunks(&self.schema, &self.chunks, || self.distinct());
        self.statistics.get_or_init(|| Arc::new(statistics())).clone()
    }
}

impl fmt::Debug for TableVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TableVersion")
            .field("number", &self.number)
            .field("chunks", &self.chunks)
            .finish_non_exhaustive()
    }
}
