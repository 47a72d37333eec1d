//! Source of generated rows, and a grant that changes as batches are read.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use datafusion::arrow::array::{ArrayRef, Int64Array, RecordBatch, StringViewArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::stream;
use terrace_exec::FixedMemory;
use terrace_sys::size::to_usize;

/// Number of rows of a batch.
pub const BATCH_ROWS: u64 = 8192;
/// Bytes of a row in Arrow's layout: two numbers, a view, and its text.
pub const ROW_BYTES: u64 = 16 + 16 + TEXT_BYTES as u64;
const TEXT_BYTES: usize = 24;

/// Alternating grant: `high` and `low` for `period` batches each.
#[derive(Clone, Copy, Debug)]
pub struct Trace {
    /// Bytes of the grant in the first and every other period.
    pub high_bytes: u64,
    /// Bytes of the grant in the periods between.
    pub low_bytes: u64,
    /// Number of batches of a period.
    pub period: u64,
}

/// Sets the grant of an operator batch by batch, and samples the bytes that the operator holds
/// beyond it.
#[derive(Debug)]
pub struct Watch {
    memory: FixedMemory,
    trace: Trace,
    steps: AtomicU64,
    over_sum: AtomicU64,
    over_max: AtomicU64,
}

impl Watch {
    /// Creates a watch of `memory`, whose grant begins high.
    pub fn new(memory: FixedMemory, trace: Trace) -> Watch {
        memory.set_limit(trace.high_bytes);
        let zero = || AtomicU64::new(0);
        Watch { memory, trace, steps: zero(), over_sum: zero(), over_max: zero() }
    }

    /// Called when a batch is read or emitted: samples the bytes held beyond the limit, and sets
    /// the next limit.
    pub fn step(&self) {
        let step = self.steps.fetch_add(1, Ordering::Relaxed);
        // Memory reclaimed before this batch must have been released by now.
        let over = self.memory.held_bytes().saturating_sub(self.limit(step));
        self.over_sum.fetch_add(over, Ordering::Relaxed);
        self.over_max.fetch_max(over, Ordering::Relaxed);
        self.memory.set_limit(self.limit(step + 1));
    }

    fn limit(&self, step: u64) -> u64 {
        let Trace { high_bytes, low_bytes, period } = self.trace;
        if (step / period.max(1)).is_multiple_of(2) { high_bytes } else { low_bytes }
    }

    /// Returns the bytes held beyond the grant: the mean over all batches, and the maximum.
    pub fn over(&self) -> (u64, u64) {
        let steps = self.steps.load(Ordering::Relaxed).max(1);
        let sum = self.over_sum.load(Ordering::Relaxed);
        (sum / steps, self.over_max.load(Ordering::Relaxed))
    }
}

/// Stream of `rows` rows, each with a key, a number and a text; there are about `keys` distinct
/// keys.
#[derive(Debug)]
pub struct Feed {
    schema: SchemaRef,
    rows: u64,
    keys: u64,
    watch: Arc<Watch>,
}

impl Feed {
    /// Creates a stream that reports each batch to `watch`.
    pub fn new(rows: u64, keys: u64, watch: Arc<Watch>) -> Feed {
        Feed { schema: schema(), rows, keys: keys.max(1), watch }
    }
}

/// Returns the schema: the columns `key`, `value` and `text`.
pub fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![
        Field::new("key", DataType::Int64, false),
        Field::new("value", DataType::Int64, false),
        Field::new("text", DataType::Utf8View, false),
    ]))
}

impl PartitionStream for Feed {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (rows, keys, watch) = (self.rows, self.keys, Arc::clone(&self.watch));
        let schema = Arc::clone(&self.schema);
        let batches = (0..rows).step_by(to_usize(BATCH_ROWS)).map(move |from| {
            watch.step();
            batch(&schema, from..(from + BATCH_ROWS).min(rows), keys)
        });
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), stream::iter(batches)))
    }
}

fn batch(
    schema: &SchemaRef,
    numbers: std::ops::Range<u64>,
    keys: u64,
) -> datafusion::common::Result<RecordBatch> {
    let key = |number: u64| (mix(number) % keys).cast_signed();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(numbers.clone().map(key))),
        Arc::new(Int64Array::from_iter_values(numbers.clone().map(u64::cast_signed))),
        Arc::new(StringViewArray::from_iter_values(
            numbers.map(|number| format!("{number:0TEXT_BYTES$}")),
        )),
    ];
    Ok(RecordBatch::try_new(Arc::clone(schema), columns)?)
}

/// Returns a pseudo-random number for `number`, by a multiplicative hash.
fn mix(number: u64) -> u64 {
    let number = (number + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    (number ^ (number >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 1
}
