//! Target table of an UPDATE or DELETE, with the number of each row as an additional column.
//!
//! Rows are numbered from 0 in the order of the chunks of one version, so a statement that reads
//! the numbers must write to the same version.

use std::fmt;
use std::sync::Arc;

use async_trait::async_trait;
use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, UInt64Array};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::catalog::{Session as CatalogSession, TableProvider};
use datafusion::common::stats::Precision;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{
    ColumnStatistics, DFSchema, DataFusionError, Result, Statistics, internal_err,
};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::utils::conjunction;
use datafusion::logical_expr::{Expr, TableProviderFilterPushDown, TableType};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, Partitioning, PlanProperties,
};
use futures::{StreamExt as _, TryStreamExt as _, stream};
use terrace_sys::size::to_u64;
use terrace_table::scan::{Blocks, ChunkReader};
use terrace_table::statistics::prune;
use terrace_table::table::TableVersion;

use crate::provider::StoredTable;

/// Name of the column of row numbers. It cannot be confused with a column of a table: a statement
/// names columns of the target by the target's own schema.
pub const ROW_NUMBER: &str = "terrace row number";

/// A stored table with the numbers of its rows.
#[derive(Debug)]
pub struct TargetTable {
    stored: StoredTable,
    schema: SchemaRef,
}

impl TargetTable {
    /// Wraps `stored`, numbering its rows as of its version.
    pub(crate) fn new(stored: StoredTable) -> Self {
        let fields = stored.table().schema().fields().iter().cloned();
        let number = Arc::new(Field::new(ROW_NUMBER, DataType::UInt64, false));
        let schema = Arc::new(Schema::new(fields.chain([number]).collect::<Vec<_>>()));
        Self { stored, schema }
    }

    pub(crate) fn stored(&self) -> &StoredTable {
        &self.stored
    }

    /// Returns the index of the column of row numbers.
    pub(crate) fn number_index(&self) -> usize {
        self.schema.fields().len() - 1
    }
}

#[async_trait]
impl TableProvider for TargetTable {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.schema)
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    fn statistics(&self) -> Option<Statistics> {
        let version = self.stored.version();
        let mut statistics = version.statistics().as_ref().clone();
        let mut numbers = ColumnStatistics::new_unknown();
        numbers.distinct_count = Precision::Exact(version.rows());
        statistics.column_statistics.push(numbers);
        Some(statistics)
    }

    /// Returns `Inexact` for each filter: it prunes chunks here, and rows are filtered above.
    fn supports_filters_pushdown(
        &self,
        filters: &[&Expr],
    ) -> Result<Vec<TableProviderFilterPushDown>> {
        Ok(vec![TableProviderFilterPushDown::Inexact; filters.len()])
    }

    async fn scan(
        &self,
        state: &dyn CatalogSession,
        projection: Option<&Vec<usize>>,
        filters: &[Expr],
        _limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let version = self.stored.version();
        let numbered = DFSchema::try_from(Arc::clone(&self.schema))?;
        let filter = conjunction(filters.iter().cloned());
        let filter = filter.map(|filter| state.create_physical_expr(filter, &numbered));
        let possible = match filter.transpose()? {
            Some(filter) => prune(&filter, version.schema(), &version.chunks),
            None => vec![true; version.chunks.len()],
        };
        let all = || (0..self.schema.fields().len()).collect();
        let columns = projection.cloned().unwrap_or_else(all);
        let partitions = state.config().target_partitions();
        Ok(Arc::new(TargetScanExec::new(self, version, columns, &possible, partitions)?))
    }
}

/// A chunk and the number of its first row.
#[derive(Clone, Copy)]
struct NumberedChunk {
    index: usize,
    first_row: u64,
}

/// Scan of the chunks of one version of a table, with the numbers of their rows.
struct TargetScanExec {
    scan: Arc<NumberedScan>,
    /// Chunks of each partition.
    groups: Vec<Vec<NumberedChunk>>,
    properties: Arc<PlanProperties>,
}

/// State shared by the partitions of a scan.
struct NumberedScan {
    name: Arc<str>,
    version: Arc<TableVersion>,
    /// `None` if no column is read.
    reader: Option<Arc<ChunkReader>>,
    /// For each column of the output, its index among the columns that are read; `None` for the row
    /// number.
    places: Vec<Option<usize>>,
    schema: SchemaRef,
}

impl TargetScanExec {
    fn new(
        target: &TargetTable,
        version: Arc<TableVersion>,
        columns: Vec<usize>,
        possible: &[bool],
        partitions: usize,
    ) -> Result<Self> {
        let table = target.stored.table();
        let name: Arc<str> = table.full_name().into();
        let schema = Arc::new(target.schema.project(&columns)?);
        let mut read: Vec<usize> = columns.clone();
        read.retain(|column| *column != target.number_index());
        read.sort_unstable();
        read.dedup();
        let places = columns.iter().map(|column| read.binary_search(column).ok()).collect();
        let reader = match read.is_empty() {
            true => None,
            false => Some(table.reader(read)?),
        };
        let groups = groups(&version, possible, partitions);
        let properties = PlanProperties::new(
            EquivalenceProperties::new(Arc::clone(&schema)),
            Partitioning::UnknownPartitioning(groups.len()),
            EmissionType::Incremental,
            Boundedness::Bounded,
        );
        let scan = Arc::new(NumberedScan { name, version, reader, places, schema });
        Ok(Self { scan, groups, properties: Arc::new(properties) })
    }
}

impl NumberedScan {
    /// Builds the columns of the output for `rows` rows from `first_row` on.
    fn batch(&self, arrays: &[ArrayRef], first_row: u64, rows: usize) -> Result<RecordBatch> {
        let number = || -> ArrayRef {
            Arc::new(UInt64Array::from_iter_values(first_row..first_row + to_u64(rows)))
        };
        let columns = self.places.iter();
        let columns = columns.map(|place| place.map_or_else(number, |at| Arc::clone(&arrays[at])));
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let schema = Arc::clone(&self.schema);
        Ok(RecordBatch::try_new_with_options(schema, columns.collect(), &options)?)
    }

    async fn open(&self, chunk: NumberedChunk) -> Result<Option<Blocks>> {
        match &self.reader {
            Some(reader) => Ok(Some(reader.open(&self.version.chunks[chunk.index]).await?)),
            None => Ok(None),
        }
    }
}

/// Returns the chunks that may hold matching rows, in at most `partitions` groups of neighbours.
fn groups(version: &TableVersion, possible: &[bool], partitions: usize) -> Vec<Vec<NumberedChunk>> {
    let mut chunks = Vec::new();
    let mut first_row = 0;
    for (index, chunk) in version.chunks.iter().enumerate() {
        if possible.get(index).copied().unwrap_or(true) {
            chunks.push(NumberedChunk { index, first_row });
        }
        first_row += to_u64(chunk.rows);
    }
    let size = chunks.len().div_ceil(partitions.max(1)).max(1);
    let groups: Vec<_> = chunks.chunks(size).map(<[NumberedChunk]>::to_vec).collect();
    if groups.is_empty() { vec![vec![]] } else { groups }
}

/// A chunk that is being read.
struct Reading {
    scan: Arc<NumberedScan>,
    blocks: Option<Blocks>,
    next_row: u64,
    rows_left: usize,
}

impl Reading {
    async fn next(mut self) -> Result<Option<(RecordBatch, Self)>> {
        if self.rows_left == 0 {
            return Ok(None);
        }
        let (arrays, rows) = match &mut self.blocks {
            None => (vec![], self.rows_left),
            Some(blocks) => {
                let Some(arrays) = blocks.next().await? else { return Ok(None) };
                let rows = arrays.first().map_or(0, |array| array.len());
                (arrays, rows)
            }
        };
        let batch = self.scan.batch(&arrays, self.next_row, rows)?;
        self.next_row += to_u64(rows);
        self.rows_left = self.rows_left.saturating_sub(rows);
        Ok(Some((batch, self)))
    }
}

impl fmt::Debug for TargetScanExec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "TargetScanExec: table={}", self.scan.name)
    }
}

impl DisplayAs for TargetScanExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let chunks: usize = self.groups.iter().map(Vec::len).sum();
        write!(f, "TargetScanExec: table={}, chunks={chunks}", self.scan.name)
    }
}

impl ExecutionPlan for TargetScanExec {
    fn name(&self) -> &str {
        "TargetScanExec"
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
            false => internal_err!("a scan of {} has no inputs", self.scan.name),
        }
    }

    fn execute(
        &self,
        partition: usize,
        _context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let Some(chunks) = self.groups.get(partition).cloned() else {
            return internal_err!("a scan of {} has no partition {partition}", self.scan.name);
        };
        let (scan, schema) = (Arc::clone(&self.scan), Arc::clone(&self.scan.schema));
        let batches = stream::iter(chunks).then(move |chunk| {
            let scan = Arc::clone(&scan);
            async move {
                let blocks = scan.open(chunk).await?;
                let rows_left = scan.version.chunks[chunk.index].rows;
                let reading = Reading { scan, blocks, next_row: chunk.first_row, rows_left };
                Ok::<_, DataFusionError>(stream::try_unfold(reading, Reading::next))
            }
        });
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema, batches.try_flatten())))
    }
}
