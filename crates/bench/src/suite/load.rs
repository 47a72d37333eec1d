//! Loading of a benchmark's tables through SQL, unless they exist already.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Instant;

use datafusion::arrow::array::{Array, BooleanArray, Int64Array, RecordBatch, UInt64Array};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::error::DataFusionError;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::stream;
use terrace_sql::{Encoding, Engine, Output, Session};
use terrace_sys::sync::lock;

use crate::error::{BenchError, Result};
use crate::suite::feed::{Batches, Generator};
use crate::suite::table::Generated;

/// Name of the incoming batches in SQL.
const SOURCE: &str = "benchmark_generator";

/// Result of loading.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Load {
    /// Tables loaded now, with their row counts; empty if all existed.
    pub tables: Vec<(&'static str, u64)>,
    /// Duration of the load in seconds.
    pub seconds: f64,
    /// Encodings of the tables in the engine, such as `compact`.
    pub encoding: String,
}

impl Load {
    /// Returns true if all tables existed.
    pub fn was_there(&self) -> bool {
        self.tables.is_empty()
    }
}

/// Loads those tables that the engine does not have at the generator's scale. They are created with
/// `encoding`; existing tables keep their encoding, which [`Load::encoding`] names.
///
/// Each table is loaded by one statement, so after an interruption it is complete or empty, and
/// only incomplete tables are loaded.
///
/// # Errors
/// [`BenchError::Input`] if there are tables of another scale; otherwise errors of the engine or
/// the generator.
pub async fn load<T: Generated>(
    engine: &Engine,
    generator: &Generator,
    encoding: Encoding,
    mut observe: impl FnMut(T),
) -> Result<Load> {
    let began = Instant::now();
    let session = loading_session(engine).await?;
    let mut missing = Vec::new();
    for table in T::all().iter().copied() {
        if !is_loaded(&session, table, generator.scale, encoding).await? {
            missing.push(table);
        }
    }
    let mut load = Load { encoding: stored_encodings::<T>(engine), ..Load::default() };
    if missing.is_empty() {
        return Ok(load);
    }
    let (feed, batches) = generator.start(&missing)?;
    for (table, batches) in missing.iter().zip(batches) {
        observe(*table);
        let rows = insert(&session, *table, batches).await?;
        check_rows(*table, generator.scale, rows)?;
        load.tables.push((table.name(), rows));
    }
    feed.finish()?;
    load.seconds = began.elapsed().as_secs_f64();
    Ok(load)
}

/// Returns the encodings of the existing tables as text.
fn stored_encodings<T: Generated>(engine: &Engine) -> String {
    let catalog = engine.catalog();
    let stored = |table: &T| {
        let mut schemas = catalog.schemas().into_iter();
        schemas.find_map(|schema| catalog.table(&schema, table.name()))
    };
    let encodings = T::all().iter().filter_map(stored).map(|table| table.encoding().to_string());
    let distinct: BTreeSet<String> = encodings.collect();
    distinct.into_iter().collect::<Vec<_>>().join(" and ")
}

/// Creates a session whose inserts keep the order of their input. The keys of each chunk are then a
/// range, so that scans can skip chunks.
async fn loading_session(engine: &Engine) -> Result<Session> {
    let session = engine.session().map_err(refused)?;
    run(&session, "SET datafusion.optimizer.enable_round_robin_repartition = false").await?;
    Ok(session)
}

/// Returns true if a table exists with the rows of the scale.
async fn is_loaded<T: Generated>(
    session: &Session,
    table: T,
    scale: f64,
    encoding: Encoding,
) -> Result<bool> {
    if !session.context().table_exist(table.name())? {
        let text = format!("{} WITH (encoding = '{encoding}')", table.definition());
        run(session, &text).await?;
        return Ok(false);
    }
    let rows = number(session, &format!("SELECT count(*) FROM {table}")).await?.unwrap_or(0);
    if rows == 0 {
        return Ok(false);
    }
    let same = match (table.row_count(scale), table.witness(scale)) {
        (Some(expected), _) => u64::try_from(rows) == Ok(expected),
        (None, Some(witness)) => is_true(session, &witness).await?,
        (None, None) => true,
    };
    if same {
        return Ok(true);
    }
    Err(BenchError::input(format!(
        "the data directory holds a table {table} of {rows} rows, which is not that of scale \
         {scale}; name another directory with --data, or drop the tables"
    )))
}

fn check_rows<T: Generated>(table: T, scale: f64, rows: u64) -> Result<()> {
    match table.row_count(scale) {
        Some(expected) if expected != rows => Err(BenchError::Engine(format!(
            "{rows} rows of {table} were inserted instead of {expected}"
        ))),
        _ => Ok(()),
    }
}

/// Inserts a table's batches. Returns the number of rows that the engine acknowledged.
async fn insert<T: Generated>(session: &Session, table: T, batches: Batches) -> Result<u64> {
    let source = Source { schema: table.schema(), batches: Mutex::new(Some(batches)) };
    let provider = StreamingTable::try_new(table.schema(), vec![Arc::new(source)])?;
    session.context().register_table(SOURCE, Arc::new(provider))?;
    let inserted = number(session, &format!("INSERT INTO {table} SELECT * FROM {SOURCE}")).await;
    session.context().deregister_table(SOURCE)?;
    inserted?
        .and_then(|rows| u64::try_from(rows).ok())
        .ok_or_else(|| BenchError::Engine(format!("the insert into {table} returned no count")))
}

/// Incoming batches, readable once.
struct Source {
    schema: SchemaRef,
    batches: Mutex<Option<Batches>>,
}

impl fmt::Debug for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Source")
    }
}

impl PartitionStream for Source {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let batches = lock(&self.batches).take();
        let batches = stream::unfold(batches, |batches| async {
            let mut batches = batches?;
            let batch = batches.recv().await?;
            let batch = batch.map_err(|error| DataFusionError::External(Box::new(error)));
            Some((batch, Some(batches)))
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}

/// Runs statements and returns their outputs.
pub(crate) async fn run(session: &Session, text: &str) -> Result<Vec<Output>> {
    session.sql(text).await.map_err(refused)
}

/// Returns the first value of the first row, an integer of 64 bits, signed or unsigned; `None` if
/// there is none.
async fn number(session: &Session, text: &str) -> Result<Option<i64>> {
    let Some(batch) = first_batch(session, text).await? else { return Ok(None) };
    let Some(column) = batch.columns().first() else { return Ok(None) };
    let signed = column.as_any().downcast_ref::<Int64Array>();
    if let Some(values) = signed.filter(|values| values.is_valid(0)) {
        return Ok(Some(values.value(0)));
    }
    let unsigned = column.as_any().downcast_ref::<UInt64Array>();
    Ok(unsigned.and_then(|values| i64::try_from(values.value(0)).ok()))
}

/// Returns true if the first value of the first row is true.
async fn is_true(session: &Session, text: &str) -> Result<bool> {
    let batch = first_batch(session, text).await?;
    let column = batch.as_ref().and_then(|batch| batch.columns().first());
    let values = column.and_then(|column| column.as_any().downcast_ref::<BooleanArray>());
    Ok(values.is_some_and(|values| values.is_valid(0) && values.value(0)))
}

async fn first_batch(session: &Session, text: &str) -> Result<Option<RecordBatch>> {
    let outputs = run(session, text).await?;
    let batches = outputs.into_iter().flat_map(|output| output.batches);
    Ok(batches.into_iter().find(|batch| batch.num_rows() > 0))
}

/// Wraps the message of an error of the engine as a [`BenchError::Engine`].
pub(crate) fn refused(error: terrace_sql::SqlError) -> BenchError {
    BenchError::Engine(error.to_string())
}
