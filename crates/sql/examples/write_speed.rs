//! Benchmark of loading rows that are in memory: rows per second of collecting statistics alone,
//! and of the whole load into a table on disk.
//!
//! `cargo run --release -p terrace-sql --example write_speed [DIRECTORY]`

#![allow(clippy::print_stdout, reason = "it prints its figures")]

use std::error::Error;
use std::sync::Arc;
use std::time::Instant;

use datafusion::arrow::array::{
    Array, Date32Array, Decimal128Array, Int64Array, RecordBatch, StringViewArray,
};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::execution::memory_pool::{MemoryPool, UnboundedMemoryPool};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use futures::stream;
use terrace_ledger::Ledger;
use terrace_pool::{Pool, PoolConfig};
use terrace_sql::Encoding;
use terrace_sql::catalog::{
    Catalog, DEFAULT_SCHEMA, IfExists, Lifetime, Properties, TableDefinition,
};
use terrace_sql::files::SystemFiles;
use terrace_sql::pins::PagePins;
use terrace_sql::statistics::Collector;
use terrace_store::{EngineChoice, FileBlocks, Store};
use terrace_sys::file::DirectFile;

const BLOCK: i64 = 8_192;
const ROWS: i64 = 4 << 20;

const INSTRUCTIONS: &[&str] = &["DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN"];
const MODES: &[&str] = &["AIR", "FOB", "MAIL", "RAIL", "REG AIR", "SHIP", "TRUCK"];

/// Types of TPC-H `lineitem`.
fn schema() -> SchemaRef {
    let decimal = DataType::Decimal128(15, 2);
    let fields = [
        ("orderkey", DataType::Int64),
        ("partkey", DataType::Int64),
        ("suppkey", DataType::Int64),
        ("linenumber", DataType::Int64),
        ("quantity", decimal.clone()),
        ("extendedprice", decimal.clone()),
        ("discount", decimal.clone()),
        ("tax", decimal),
        ("returnflag", DataType::Utf8View),
        ("linestatus", DataType::Utf8View),
        ("shipdate", DataType::Date32),
        ("commitdate", DataType::Date32),
        ("receiptdate", DataType::Date32),
        ("shipinstruct", DataType::Utf8View),
        ("shipmode", DataType::Utf8View),
        ("comment", DataType::Utf8View),
    ];
    let fields = fields.map(|(name, data_type)| Field::new(name, data_type, false));
    Arc::new(Schema::new(fields.to_vec()))
}

/// Returns a pseudo-random number.
fn mix(row: i64, column: i64) -> i64 {
    let hash = (row * 31 + column).wrapping_mul(0x5851_f42d_4c95_7f2d);
    (hash ^ (hash >> 29)).rem_euclid(1 << 40)
}

fn block(schema: &SchemaRef, first: i64) -> Result<RecordBatch, Box<dyn Error>> {
    let rows = || first..first + BLOCK;
    let text = |column: i64, words: &'static [&'static str]| {
        let len = i64::try_from(words.len()).unwrap_or(1);
        let pick = move |row| words[usize::try_from(mix(row, column) % len).unwrap_or(0)];
        StringViewArray::from_iter_values(rows().map(pick))
    };
    let mut columns: Vec<Arc<dyn Array>> = Vec::new();
    for (index, field) in (0_i64..).zip(schema.fields()) {
        let column: Arc<dyn Array> = match (field.data_type(), field.name().as_str()) {
            (DataType::Int64, "orderkey") => {
                Arc::new(Int64Array::from_iter_values(rows().map(|row| row / 4)))
            }
            (DataType::Int64, _) => {
                Arc::new(Int64Array::from_iter_values(rows().map(|row| mix(row, index) % 200_000)))
            }
            (DataType::Date32, _) => Arc::new(Date32Array::from_iter_values(
                rows().map(|row| i32::try_from(mix(row, index) % 2_500 + 8_000).unwrap_or(0)),
            )),
            (DataType::Decimal128(..), _) => {
                let values = rows().map(|row| i128::from(mix(row, index) % 10_000_000));
                let values = Decimal128Array::from_iter_values(values);
                Arc::new(values.with_precision_and_scale(15, 2)?)
            }
            (_, "shipinstruct") => Arc::new(text(index, INSTRUCTIONS)),
            (_, "shipmode") => Arc::new(text(index, MODES)),
            (_, "comment") => Arc::new(StringViewArray::from_iter_values(
                rows().map(|row| format!("carefully {} deposits", mix(row, index))),
            )),
            _ => Arc::new(text(index, &["A", "N", "R"])),
        };
        columns.push(column);
    }
    Ok(RecordBatch::try_new(schema.clone(), columns)?)
}

fn report(what: &str, started: Instant, rows: i64) {
    let seconds = started.elapsed().as_secs_f64();
    #[expect(clippy::cast_precision_loss, reason = "a figure to look at")]
    let rate = rows as f64 / seconds / 1e6;
    println!("{what:<32} {rate:8.2} M rows/s");
}

fn parts(schema: &SchemaRef, blocks: &[RecordBatch]) -> Result<(), Box<dyn Error>> {
    let rows = BLOCK * i64::try_from(blocks.len())?;
    let started = Instant::now();
    for column in 0..schema.fields().len() {
        let mut collector = Collector::default();
        for block in blocks {
            collector.add(block.column(column))?;
        }
        std::hint::black_box(collector.finish());
    }
    report("statistics, all columns", started, rows);
    for (column, field) in schema.fields().iter().enumerate() {
        let started = Instant::now();
        let mut collector = Collector::default();
        for block in blocks {
            collector.add(block.column(column))?;
        }
        report(&format!("  {} {}", field.name(), field.data_type()), started, rows);
    }
    Ok(())
}

async fn table(schema: &SchemaRef, blocks: &[RecordBatch]) -> Result<(), Box<dyn Error>> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".into());
    let directory = tempfile::tempdir_in(directory)?;
    let file = DirectFile::create(&directory.path().join("store.terrace"))?;
    let blocks_on_disk = FileBlocks::open(file, 64 << 30, EngineChoice::Auto)?;
    let store = Store::open(Arc::new(blocks_on_disk), "store", 64 << 30)?;
    let mut config = PoolConfig::new("pool", Ledger::new(256 << 20));
    config.store = Some(Arc::new(store));
    let path = directory.path().join("catalog.redb");
    let pins = Arc::new(PagePins::new(16 << 20));
    let catalog = Catalog::open(&SystemFiles, &path, Pool::new(config)?, pins, Lifetime::Lasting)?;
    let memory: Arc<dyn MemoryPool> = Arc::new(UnboundedMemoryPool::default());
    for threads in ["first", "second"] {
        let rounds = usize::try_from(ROWS / BLOCK)?.div_ceil(blocks.len());
        let rows = std::iter::repeat_n(blocks, rounds).flatten().cloned().map(Ok);
        let rows: Vec<_> = rows.collect();
        let count = BLOCK * i64::try_from(rows.len())?;
        let rows = RecordBatchStreamAdapter::new(schema.clone(), stream::iter(rows));
        let definition = TableDefinition {
            schema_name: DEFAULT_SCHEMA.to_owned(),
            name: "lineitem".to_owned(),
            columns: schema.clone(),
            encoding: Encoding::Plain,
            properties: Properties::default(),
            owner: None,
        };
        let started = Instant::now();
        let rows = Box::pin(rows);
        catalog.create_table_as(definition, IfExists::Replace, rows, &memory).await?;
        report(&format!("table, {threads}"), started, count);
    }
    let small = &blocks[0].slice(0, 1);
    let table = catalog.table(DEFAULT_SCHEMA, "lineitem").ok_or("no table")?;
    let started = Instant::now();
    for _ in 0..100 {
        let row = stream::iter([Ok(small.clone())]);
        let row = RecordBatchStreamAdapter::new(schema.clone(), row);
        table.append(Box::pin(row), &memory).await?;
    }
    println!("{:<32} {:8.2} ms", "INSERT of one row", started.elapsed().as_secs_f64() * 10.0);
    drop((table, catalog));
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    let schema = schema();
    let blocks = (0..8).map(|block_number| block(&schema, block_number * BLOCK));
    let blocks = blocks.collect::<Result<Vec<_>, _>>()?;
    parts(&schema, &blocks)?;
    parts(&schema, &blocks)?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).build()?;
    runtime.block_on(table(&schema, &blocks))
}
