//! The `FileSource` of a scan: its table, projection and filters, and the opener of its chunks.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileOpener, FileScanConfig, FileSource};
use datafusion::datasource::table_schema::TableSchema;
use datafusion::physical_expr::projection::ProjectionExprs;
use datafusion::physical_expr::{
    EquivalenceProperties, PhysicalExpr, PhysicalSortExpr, conjunction,
};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::filter_pushdown::{FilterPushdownPropagation, PushedDown};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayFormatType, SortOrderPushdownResult};
use object_store::ObjectStore;

use super::counters::{ScanCounters, ScanProgress};
use super::open::ChunkOpener;
use super::options::{ChunkNumber, ScanOptions};
use super::order::{ChunkOrder, sequence};
use super::prune::ChunkFilter;
use super::readahead::ReadAhead;
use crate::table::TableVersion;

/// Source of a scan: a version of a table, some of its columns or expressions over them, and the
/// filters that prune its chunks.
///
/// Filters prune chunks, and rows before they are decoded; the operator that pushed them down still
/// applies them to the rows that it gets.
#[derive(Clone)]
pub struct SegmentSource {
    table: Arc<str>,
    version: Arc<TableVersion>,
    schema: TableSchema,
    projection: ProjectionExprs,
    filter: Option<Arc<dyn PhysicalExpr>>,
    order: Option<ChunkOrder>,
    options: ScanOptions,
    shared: Arc<Shared>,
    metrics: ExecutionPlanMetricsSet,
}

/// State shared by the partitions of one scan.
#[derive(Debug)]
struct Shared {
    filter: ChunkFilter,
    ahead: ReadAhead,
    progress: Arc<ScanProgress>,
}

impl SegmentSource {
    pub(super) fn new(table: String, version: Arc<TableVersion>, options: &ScanOptions) -> Self {
        let schema = TableSchema::from(Arc::clone(version.schema()));
        let all: Vec<usize> = (0..version.schema().fields().len()).collect();
        let projection = ProjectionExprs::from_indices(&all, version.schema());
        let shared = Shared::of(&version, None, None, options);
        Self {
            table: table.into(),
            version,
            schema,
            projection,
            filter: None,
            order: None,
            options: options.clone(),
            shared,
            metrics: ExecutionPlanMetricsSet::new(),
        }
    }

    /// Returns the name of the table, with its schema.
    #[must_use]
    pub fn table_name(&self) -> &str {
        &self.table
    }

    /// Returns the progress of the scan.
    #[must_use]
    pub fn progress(&self) -> &Arc<ScanProgress> {
        &self.shared.progress
    }
}

impl Shared {
    fn of(
        version: &Arc<TableVersion>,
        filter: Option<&Arc<dyn PhysicalExpr>>,
        order: Option<ChunkOrder>,
        options: &ScanOptions,
    ) -> Arc<Self> {
        let sequence = sequence(version, order);
        Arc::new(Self {
            filter: ChunkFilter::new(Arc::clone(version), filter.cloned()),
            ahead: ReadAhead::new(sequence, options.ahead_bytes),
            progress: Arc::new(ScanProgress::of_rows(version.rows())),
        })
    }
}

impl FileSource for SegmentSource {
    fn create_file_opener(
        &self,
        _object_store: Arc<dyn ObjectStore>,
        _base_config: &FileScanConfig,
        partition: usize,
    ) -> Result<Arc<dyn FileOpener>> {
        let counters = ScanCounters::new(&self.metrics, partition, &self.shared.progress);
        Ok(Arc::new(ChunkOpener::new(
            Arc::clone(&self.table),
            Arc::clone(&self.version),
            &self.projection,
            (self.shared.filter.clone(), self.filter.as_ref()),
            self.shared.ahead.clone(),
            Arc::clone(&self.options.pins),
            counters,
        )?))
    }

    fn table_schema(&self) -> &TableSchema {
        &self.schema
    }

    /// Ignores the batch size: the plan node splits batches if a smaller size is set.
    fn with_batch_size(&self, _batch_size: usize) -> Arc<dyn FileSource> {
        Arc::new(self.clone())
    }

    fn filter(&self) -> Option<Arc<dyn PhysicalExpr>> {
        self.filter.clone()
    }

    fn projection(&self) -> Option<&ProjectionExprs> {
        Some(&self.projection)
    }

    fn metrics(&self) -> &ExecutionPlanMetricsSet {
        &self.metrics
    }

    fn file_type(&self) -> &str {
        "segments"
    }

    fn fmt_extra(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match t {
            DisplayFormatType::TreeRender => writeln!(f, "table={}", self.table),
            DisplayFormatType::Default | DisplayFormatType::Verbose => {
                write!(f, ", table={}, chunks={}", self.table, self.version.chunks.len())?;
                self.filter.iter().try_for_each(|filter| write!(f, ", prunes_by={filter}"))
            }
        }
    }

    fn supports_repartitioning(&self) -> bool {
        false
    }

    fn try_pushdown_filters(
        &self,
        filters: Vec<Arc<dyn PhysicalExpr>>,
        _config: &ConfigOptions,
    ) -> Result<FilterPushdownPropagation<Arc<dyn FileSource>>> {
        let applied = vec![PushedDown::No; filters.len()];
        if filters.is_empty() {
            return Ok(FilterPushdownPropagation::with_parent_pushdown_result(applied));
        }
        let mut source = self.clone();
        let filter = conjunction(self.filter.iter().cloned().chain(filters));
        source.shared = Shared::of(&self.version, Some(&filter), self.order, &self.options);
        source.filter = Some(filter);
        Ok(FilterPushdownPropagation::with_parent_pushdown_result(applied)
            .with_updated_node(Arc::new(source)))
    }

    /// Supports a sort without replacing it: chunks with the best bounds come first.
    fn try_pushdown_sort(
        &self,
        order: &[PhysicalSortExpr],
        _eq_properties: &EquivalenceProperties,
    ) -> Result<SortOrderPushdownResult<Arc<dyn FileSource>>> {
        let Some(order) = ChunkOrder::serving(order, &self.projection) else {
            return Ok(SortOrderPushdownResult::Unsupported);
        };
        let mut source = self.clone();
        source.shared = Shared::of(&self.version, self.filter.as_ref(), Some(order), &self.options);
        source.order = Some(order);
        Ok(SortOrderPushdownResult::Inexact { inner: Arc::new(source) })
    }

    fn reorder_files(&self, mut files: Vec<PartitionedFile>) -> Vec<PartitionedFile> {
        if self.order.is_some() {
            let number = |file: &PartitionedFile| file.extension::<ChunkNumber>().map(|n| n.0);
            files.sort_by_key(|file| number(file).map(|chunk| self.shared.ahead.place(chunk)));
        }
        files
    }

    /// Leaves volatile expressions above the scan. It computes blocks of rows before a limit drops
    /// some of them, and `nextval` would take numbers for those.
    fn try_pushdown_projection(
        &self,
        projection: &ProjectionExprs,
    ) -> Result<Option<Arc<dyn FileSource>>> {
        if projection.iter().any(|projected| is_volatile(&projected.expr)) {
            return Ok(None);
        }
        let mut source = self.clone();
        source.projection = self.projection.try_merge(projection)?;
        Ok(Some(Arc::new(source)))
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        let projected = self.projection.iter().map(|projected| &projected.expr);
        for expression in self.filter.iter().chain(projected) {
            if f(expression)? == TreeNodeRecursion::Stop {
                return Ok(TreeNodeRecursion::Stop);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    }
}
