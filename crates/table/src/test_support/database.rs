//! A database with an in-memory store, for tests of the catalog and of writes.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, Int64Array, RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig};
use terrace_store::{Blocks, Store};

use crate::catalog::{
    Catalog, DEFAULT_SCHEMA, IfExists, LABEL_BYTES, Lifetime, Properties, TableDefinition,
};
use crate::chunk::Chunk;
use crate::error::SqlError;
use crate::files::SystemFiles;
use crate::segment::{Encoding, Segment};
use crate::table::Table;
use terrace_governor::pins::PagePins;

const STORE_BYTES: u64 = 1 << 30;

/// An open database.
pub struct Database {
    pub catalog: Arc<Catalog>,
    pub store: Arc<Store>,
    pub pool: Pool,
}

impl Database {
    /// Opens the database with this catalog file and these blocks.
    pub fn open(catalog: &Path, blocks: Arc<dyn Blocks>) -> Result<Self, SqlError> {
        Self::open_with(catalog, blocks, 64 << 20)
    }

    pub(crate) fn open_with(
        catalog: &Path,
        blocks: Arc<dyn Blocks>,
        dram_bytes: u64,
    ) -> Result<Self, SqlError> {
        let store = Arc::new(Store::open(blocks, "test", STORE_BYTES)?);
        let mut config = PoolConfig::new("test", Ledger::new(dram_bytes));
        config.store = Some(store.clone());
        let pool = Pool::new(config)?;
        let pins = Arc::new(PagePins::new(dram_bytes / 16));
        let catalog = Catalog::open(&SystemFiles, catalog, pool.clone(), pins, Lifetime::Lasting)?;
        Ok(Self { catalog, store, pool })
    }

    /// Creates an empty table in the default schema.
    pub async fn table(&self, name: &str, columns: &SchemaRef) -> Arc<Table> {
        let created = self.catalog.create_table(definition(name, columns), IfExists::Fail).await;
        created.expect("create table").expect("a new table")
    }

    /// Creates an empty table with plain encoding, whose segments have the size of their values.
    pub(crate) async fn plain_table(&self, name: &str, columns: &SchemaRef) -> Arc<Table> {
        let definition = TableDefinition { encoding: Encoding::Plain, ..definition(name, columns) };
        let created = self.catalog.create_table(definition, IfExists::Fail).await;
        created.expect("create table").expect("a new table")
    }

    /// Creates a table with `rows`.
    pub(crate) async fn table_as(
        &self,
        name: &str,
        if_exists: IfExists,
        columns: &SchemaRef,
        rows: Vec<RecordBatch>,
    ) -> Result<Option<u64>, SqlError> {
        let rows = stream_of(columns, rows);
        self.catalog.create_table_as(definition(name, columns), if_exists, rows, &memory()).await
    }

    pub fn find(&self, name: &str) -> Option<Arc<Table>> {
        self.catalog.table(DEFAULT_SCHEMA, name)
    }

    /// Bytes of the store in use, without its label.
    pub fn used_bytes(&self) -> u64 {
        self.store.stats().used_bytes - LABEL_BYTES
    }

    /// Bytes of all extents that the catalog refers to.
    pub(crate) fn directory_bytes(&self) -> u64 {
        let schemas = self.catalog.schemas();
        let tables = schemas.iter().flat_map(|schema| self.catalog.tables(schema));
        tables.map(|table| table.snapshot().extent_bytes()).sum()
    }

    /// Asserts that the store holds exactly the extents that the catalog refers to.
    pub fn assert_no_leak(&self) {
        assert_eq!(self.used_bytes(), self.directory_bytes(), "extents leaked");
        assert_eq!(self.store.stats().double_frees, 0);
    }
}

fn definition(name: &str, columns: &SchemaRef) -> TableDefinition {
    TableDefinition {
        schema_name: DEFAULT_SCHEMA.to_owned(),
        name: name.to_owned(),
        columns: columns.clone(),
        encoding: Encoding::Compact,
        properties: Properties::default(),
        owner: None,
    }
}

/// A memory pool without a limit.
pub fn memory() -> Arc<dyn MemoryPool> {
    Arc::new(UnboundedMemoryPool::default())
}

/// A column `i` of integers and a column `s` of strings.
pub fn int_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("i", DataType::Int64, false),
        Field::new("s", DataType::Utf8View, true),
    ]))
}

/// Rows with these integers, and strings derived from them.
pub fn ints(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let values: Int64Array = values.into_iter().map(Some).collect();
    let strings: StringViewArray = values
        .iter()
        .map(|value| value.filter(|v| v % 7 != 0).map(|v| format!("string number {v} of many")))
        .collect();
    batch(&int_schema(), vec![Arc::new(values), Arc::new(strings)])
}

pub fn batch(schema: &SchemaRef, columns: Vec<ArrayRef>) -> RecordBatch {
    RecordBatch::try_new(schema.clone(), columns).expect("a batch")
}

/// The batches as a stream.
pub fn stream_of(schema: &SchemaRef, batches: Vec<RecordBatch>) -> SendableRecordBatchStream {
    let batches = stream::iter(batches.into_iter().map(Ok));
    Box::pin(RecordBatchStreamAdapter::new(schema.clone(), batches))
}

/// Reads the blocks of a chunk through the pool.
async fn blocks(table: &Table, chunk: &Chunk) -> Result<Vec<RecordBatch>, SqlError> {
    let all: Vec<usize> = (0..table.schema().fields().len()).collect();
    let pages = chunk.space().fetch(&chunk.pages(&all)).await?;
    let segments = pages.into_iter().zip(table.schema().fields());
    let segments = segments.map(|(page, f)| Segment::open(page, f.data_type()).expect("open"));
    let segments: Vec<Segment> = segments.collect();
    assert!(segments.iter().all(|segment| segment.rows() == chunk.rows));
    let blocks = (0..segments[0].blocks()).map(|block| {
        let columns = segments.iter().map(|segment| segment.block(block).expect("block"));
        batch(table.schema(), columns.collect())
    });
    Ok(blocks.collect())
}

/// All rows of a table, block by block, all pinned at the same time.
pub async fn collect(table: &Table) -> Result<Vec<RecordBatch>, SqlError> {
    let mut batches = Vec::new();
    for chunk in &table.snapshot().chunks {
        batches.extend(blocks(table, chunk).await?);
    }
    Ok(batches)
}

/// The integers of a table's first column, sorted.
pub async fn rows_of(table: &Table) -> Vec<i64> {
    let mut values = Vec::new();
    for chunk in &table.snapshot().chunks {
        for batch in blocks(table, chunk).await.expect("read") {
            values.extend_from_slice(batch.column(0).as_primitive::<Int64Type>().values());
        }
    }
    values.sort_unstable();
    values
}
