//! Tests of DELETE and UPDATE from SQL text.

use std::path::Path;
use std::sync::Arc;

use datafusion::arrow::array::{AsArray, Int64Array, RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Int64Type, Schema, SchemaRef};
use datafusion::common::Result;
use datafusion::datasource::empty::EmptyTable;
use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};
use datafusion::logical_expr::LogicalPlan;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{collect, displayable};
use datafusion::prelude::{SessionConfig, SessionContext};
use futures::stream;
use tempfile::TempDir;
use terrace_governor::pins::PagePins;
use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig};
use terrace_store::{MemoryBlocks, Store};
use terrace_table::Encoding;
use terrace_table::catalog::{
    Catalog, DEFAULT_SCHEMA, IfExists, LABEL_BYTES, Lifetime, Properties, TableDefinition,
};
use terrace_table::files::SystemFiles;
use terrace_table::table::Table;

use super::dml_plan;

const STORE_BYTES: u64 = 1 << 30;
const DRAM_BYTES: u64 = 64 << 20;

struct Session {
    _directory: TempDir,
    _catalog: Arc<Catalog>,
    store: Arc<Store>,
    table: Arc<Table>,
    context: SessionContext,
}

/// A column `i` of integers and a column `s` of strings.
fn int_schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("i", DataType::Int64, false),
        Field::new("s", DataType::Utf8View, true),
    ]))
}

/// Rows with these integers, and strings derived from them.
fn ints(values: impl IntoIterator<Item = i64>) -> RecordBatch {
    let values: Int64Array = values.into_iter().map(Some).collect();
    let strings: StringViewArray = values
        .iter()
        .map(|value| value.filter(|v| v % 7 != 0).map(|v| format!("string number {v} of many")))
        .collect();
    RecordBatch::try_new(int_schema(), vec![Arc::new(values), Arc::new(strings)]).expect("a batch")
}

/// The integers of a table's first column, sorted.
async fn rows_of(table: &Table) -> Vec<i64> {
    let mut values = Vec::new();
    let reader = table.reader(vec![0]).expect("a reader");
    for chunk in &table.snapshot().chunks {
        let mut blocks = reader.open(chunk).await.expect("open");
        while let Some(arrays) = blocks.next().await.expect("read") {
            values.extend_from_slice(arrays[0].as_primitive::<Int64Type>().values());
        }
    }
    values.sort_unstable();
    values
}

fn open(catalog: &Path) -> (Arc<Catalog>, Arc<Store>) {
    let blocks = Arc::new(MemoryBlocks::new(STORE_BYTES));
    let store = Arc::new(Store::open(blocks, "test", STORE_BYTES).expect("a store"));
    let mut config = PoolConfig::new("test", Ledger::new(DRAM_BYTES));
    config.store = Some(Arc::clone(&store));
    let pool = Pool::new(config).expect("a pool");
    let pins = Arc::new(PagePins::new(DRAM_BYTES / 16));
    let catalog = Catalog::open(&SystemFiles, catalog, pool, pins, Lifetime::Lasting);
    (catalog.expect("a catalog"), store)
}

async fn session() -> Session {
    let directory = tempfile::tempdir().expect("tempdir");
    let (catalog, store) = open(&directory.path().join("catalog.redb"));
    let definition = TableDefinition {
        schema_name: DEFAULT_SCHEMA.to_owned(),
        name: "t".to_owned(),
        columns: int_schema(),
        encoding: Encoding::Compact,
        properties: Properties::default(),
        owner: None,
    };
    let table = catalog.create_table(definition, IfExists::Fail).await;
    let table = table.expect("create table").expect("a new table");
    let rows = stream::iter([Ok(ints(0..10))]);
    let rows = Box::pin(RecordBatchStreamAdapter::new(int_schema(), rows));
    let memory: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
    table.append(rows, &memory).await.expect("append");
    let context = SessionContext::new_with_config(SessionConfig::new());
    for name in ["t", "other"] {
        let provider = Arc::new(EmptyTable::new(int_schema()));
        context.register_table(name, provider).expect("register");
    }
    Session { _directory: directory, _catalog: catalog, store, table, context }
}

impl Session {
    /// Asserts that the store holds exactly the extents of the table.
    fn assert_no_leak(&self) {
        let stats = self.store.stats();
        let held = self.table.snapshot().extent_bytes();
        assert_eq!(stats.used_bytes - LABEL_BYTES, held, "extents leaked");
        assert_eq!(stats.double_frees, 0);
    }

    /// Runs a statement. Returns the reported number of changed rows, and the output of EXPLAIN.
    async fn run(&self, text: &str) -> Result<(u64, String)> {
        let state = self.context.state();
        let plan = state.create_logical_plan(text).await?;
        let LogicalPlan::Dml(statement) = plan else { panic!("{text} is no change of rows") };
        let plan = dml_plan(&state, &self.table, &statement, None)?;
        let shown = displayable(plan.as_ref()).indent(false).to_string();
        let result = collect(plan, self.context.task_ctx()).await?;
        let count = result[0].column(0).to_data().buffer::<u64>(0)[0];
        Ok((count, shown))
    }

    async fn changes(&self, text: &str) -> u64 {
        self.run(text).await.expect(text).0
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_that_nothing_satisfies_delete_nothing() {
    let session = session().await;
    for condition in ["1 = 0", "false", "NULL", "i IS NULL", "i > 5 AND 1 > 2", "i < 0"] {
        assert_eq!(session.changes(&format!("DELETE FROM t WHERE {condition}")).await, 0);
        let update = format!("UPDATE t SET i = 1 WHERE {condition}");
        assert_eq!(session.changes(&update).await, 0);
    }
    assert_eq!(rows_of(&session.table).await, (0..10).collect::<Vec<_>>());
}

#[tokio::test(flavor = "multi_thread")]
async fn conditions_are_coerced_and_computed() {
    let session = session().await;
    let delete = "DELETE FROM t WHERE t.i = CAST(3 AS INT) AND now() > TIMESTAMP '2020-01-01'";
    assert_eq!(session.changes(delete).await, 1);
    assert_eq!(session.changes("DELETE FROM t WHERE i + 1 > 8 AND i + 1 < 10").await, 1);
    let between = "DELETE FROM t WHERE i BETWEEN 4 AND 5.0 OR s LIKE '%number 6%'";
    let (count, shown) = session.run(between).await.expect(between);
    assert_eq!(count, 3);
    assert!(shown.starts_with("DeleteExec: table=public.t, filter="), "{shown}");
    assert_eq!(rows_of(&session.table).await, [0, 1, 2, 7, 9]);
    assert_eq!(session.changes("DELETE FROM t WHERE true OR i > 100").await, 5);
    session.assert_no_leak();
}

#[tokio::test(flavor = "multi_thread")]
async fn updates_set_what_they_name() {
    let session = session().await;
    let update = "UPDATE t SET i = i + 100, s = concat('was ', i) WHERE i % 2 = 0";
    let (count, shown) = session.run(update).await.expect(update);
    assert_eq!(count, 5);
    assert!(shown.starts_with("UpdateExec: table=public.t, set=[i="), "{shown}");
    assert_eq!(rows_of(&session.table).await, [1, 3, 5, 7, 9, 100, 102, 104, 106, 108]);
    assert_eq!(session.changes("DELETE FROM t WHERE s = 'was 4'").await, 1);
    assert_eq!(session.changes("UPDATE t SET s = 'same'").await, 9);
    assert_eq!(session.changes("DELETE FROM t WHERE s <> 'same' OR s IS NULL").await, 0);
    session.assert_no_leak();
}

#[tokio::test(flavor = "multi_thread")]
async fn rows_chosen_by_other_tables_are_refused() {
    let session = session().await;
    for text in [
        "DELETE FROM t WHERE i IN (SELECT i FROM other)",
        "DELETE FROM t WHERE EXISTS (SELECT 1 FROM other WHERE other.i = t.i)",
        "UPDATE t SET i = 1 WHERE i = (SELECT max(i) FROM other)",
        "UPDATE t SET s = other.s FROM other WHERE other.i = t.i",
    ] {
        assert!(session.run(text).await.is_err(), "{text}");
    }
    assert_eq!(rows_of(&session.table).await, (0..10).collect::<Vec<_>>());
}
