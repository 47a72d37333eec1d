//! Scan of files: readers split files into blocks of rows, and the partitions decode them.
//!
//! The partitions of a scan share one reader, which splits the files in order under a lock; the
//! slow part, the conversion of text into values, happens outside of the lock. So all partitions
//! decode a single file, even a compressed one or one with line ends in values.

use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, ScalarValue, Statistics, internal_err};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryReservation};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties, StatisticsArgs,
};
use futures::stream;
use terrace_sys::sync::lock;

/// Reader that splits one file into blocks of rows.
pub(super) trait Reader: Send {
    /// Returns the next block of rows, not decoded yet; `None` at the end of the file.
    fn next_block(&mut self) -> Result<Option<Box<dyn Block>>>;
}

/// A block of consecutive rows of a file, not decoded yet.
pub(super) trait Block: Send {
    /// Estimated bytes of memory that the block and its decoded columns take.
    fn bytes(&self) -> usize;

    /// Decodes the columns that the scan reads from the file.
    fn decode(&self) -> Result<Decoded>;
}

/// The decoded rows of a block: an array for each column that the scan reads from the file.
pub(super) struct Decoded {
    pub(super) columns: Vec<ArrayRef>,
    pub(super) rows: usize,
}

/// The files of a scan.
pub(super) trait Files: fmt::Debug + Send + Sync {
    /// Name of the format.
    fn format(&self) -> &str;

    /// Number of files.
    fn count(&self) -> usize;

    /// Opens the file of index `file` to read the columns of the indexes `columns`; a column that
    /// the file does not have is null.
    fn open(&self, file: usize, columns: &[usize]) -> Result<Box<dyn Reader>>;

    /// The value of the constant column of index `constant` in the file of index `file`.
    fn constant(&self, file: usize, constant: usize) -> ScalarValue;
}

/// Origin of a column of a scan.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    /// A column of the files, by its index.
    File(usize),
    /// A column with one value for all rows of a file, by its index.
    Constant(usize),
}

/// Plan node that scans files, with columns from the files and constant ones.
pub(super) struct FileScanExec {
    files: Arc<dyn Files>,
    schema: SchemaRef,
    origins: Arc<[Origin]>,
    limit: Option<usize>,
    rows: Precision<usize>,
    properties: Arc<PlanProperties>,
    rounds: Mutex<Rounds>,
    metrics: ExecutionPlanMetricsSet,
}

/// The queues of a plan that is executed repeatedly: the n-th execution of each partition uses the
/// n-th queue.
#[derive(Default)]
struct Rounds {
    executed: Vec<usize>,
    queues: Vec<Arc<Mutex<Queue>>>,
}

/// The blocks of all files, in order.
#[derive(Default)]
struct Queue {
    next_file: usize,
    current: Option<(usize, Box<dyn Reader>)>,
    has_failed: bool,
}

impl FileScanExec {
    /// A scan of columns with these origins by `partitions` partitions.
    pub(super) fn new(
        files: Arc<dyn Files>,
        schema: SchemaRef,
        origins: Vec<Origin>,
        partitions: usize,
        limit: Option<usize>,
        rows: Precision<usize>,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(partitions),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        Self {
            files,
            schema,
            origins: origins.into(),
            limit,
            rows,
            properties: Arc::new(properties),
            rounds: Mutex::default(),
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// The queue of the next execution of a partition.
    fn queue(&self, partition: usize) -> Arc<Mutex<Queue>> {
        let mut rounds = lock(&self.rounds);
        if rounds.executed.len() <= partition {
            rounds.executed.resize(partition + 1, 0);
        }
        let round = rounds.executed[partition];
        rounds.executed[partition] += 1;
        if rounds.queues.len() <= round {
            rounds.queues.push(Arc::default());
        }
        Arc::clone(&rounds.queues[round])
    }
}

/// A partition of a scan that is being read.
struct Scanning {
    files: Arc<dyn Files>,
    schema: SchemaRef,
    origins: Arc<[Origin]>,
    read: Vec<usize>,
    queue: Arc<Mutex<Queue>>,
    held: MemoryReservation,
    limit: Option<usize>,
    metrics: BaselineMetrics,
}

impl Scanning {
    /// Takes the next block from the queue. Returns the index of its file with it; `None` at the
    /// end of all files.
    fn take(&self) -> Result<Option<(usize, Box<dyn Block>)>> {
        let mut queue = lock(&self.queue);
        if queue.has_failed {
            return Ok(None);
        }
        let taken = queue.take(self.files.as_ref(), &self.read);
        queue.has_failed = taken.is_err();
        taken
    }

    fn next_batch(&mut self) -> Result<Option<RecordBatch>> {
        if self.limit == Some(0) {
            return Ok(None);
        }
        self.held.free();
        loop {
            let Some((file, block)) = self.take()? else { return Ok(None) };
            self.held.try_resize(block.bytes())?;
            let Decoded { columns, rows } = block.decode()?;
            if rows == 0 {
                continue;
            }
            let batch = self.batch(file, &columns, rows)?;
            let batch = match self.limit.filter(|limit| *limit < rows) {
                Some(limit) => batch.slice(0, limit),
                None => batch,
            };
            self.limit = self.limit.map(|limit| limit - batch.num_rows());
            self.metrics.record_output(batch.num_rows());
            return Ok(Some(batch));
        }
    }

    fn batch(&self, file: usize, columns: &[ArrayRef], rows: usize) -> Result<RecordBatch> {
        let mut read = columns.iter();
        let mut arrays = Vec::with_capacity(self.origins.len());
        for origin in self.origins.iter() {
            let array = match origin {
                Origin::File(_) => read.next().map(Arc::clone),
                Origin::Constant(constant) => {
                    Some(self.files.constant(file, *constant).to_array_of_size(rows)?)
                }
            };
            arrays.extend(array);
        }
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(schema, arrays, &options)?)
    }
}

impl Queue {
    fn take(
        &mut self,
        files: &dyn Files,
        columns: &[usize],
    ) -> Result<Option<(usize, Box<dyn Block>)>> {
        loop {
            if let Some((file, reader)) = &mut self.current {
                if let Some(block) = reader.next_block()? {
                    return Ok(Some((*file, block)));
                }
                self.current = None;
            }
            if self.next_file == files.count() {
                return Ok(None);
            }
            let file = self.next_file;
            self.next_file += 1;
            self.current = Some((file, files.open(file, columns)?));
        }
    }
}

impl fmt::Debug for FileScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "FileScanExec: {:?}", self.files)
    }
}

impl DisplayAs for FileScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> =
            self.schema.fields().iter().map(|field| field.name().as_str()).collect();
        let (format, files) = (self.files.format(), self.files.count());
        let names = names.join(", ");
        write!(f, "FileScanExec: format={format}, files={files}, columns=[{names}]")?;
        self.limit.iter().try_for_each(|limit| write!(f, ", limit={limit}"))
    }
}

impl ExecutionPlan for FileScanExec {
    fn name(&self) -> &str {
        "FileScanExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match children.is_empty() {
            true => Ok(self),
            false => internal_err!("a scan of files has no inputs"),
        }
    }

    fn statistics_from_inputs(
        &self,
        _: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        let mut statistics = Statistics::new_unknown(&self.schema);
        if args.partition().is_none() {
            statistics.num_rows = self.rows;
        }
        Ok(Arc::new(statistics))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let read = self.origins.iter().filter_map(|origin| match origin {
            Origin::File(column) => Some(*column),
            Origin::Constant(_) => None,
        });
        let name = format!("FileScan[{partition}]");
        let scanning = Scanning {
            files: Arc::clone(&self.files),
            schema: Arc::clone(&self.schema),
            origins: Arc::clone(&self.origins),
            read: read.collect(),
            queue: self.queue(partition),
            held: MemoryConsumer::new(name).register(context.memory_pool()),
            limit: self.limit,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        let batches = stream::try_unfold(scanning, |mut scanning| async move {
            let batch = scanning.next_batch()?;
            Ok(batch.map(|batch| (batch, scanning)))
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches)))
    }
}
