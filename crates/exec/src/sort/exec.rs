//! Plan node of the external merge sort in pages.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{RecordBatch, RecordBatchOptions};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::Result;
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, RecordOutput};
use datafusion::physical_plan::sorts::sort::SortExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, EmptyRecordBatchStream, ExecutionPlan, ExecutionPlanProperties,
    PhysicalExpr,
};

use super::boundary::Boundary;
use super::key::SortKeys;
use super::merge::MergeContext;
use super::sizes::SortSizes;
use super::sorter::Sorter;
use super::top::Top;
use crate::batch_limit::bounded;
use crate::delegate::node_of_stock;
use crate::memory::{Grant, MeteredGrant, ObliviousGrant, QueryExtension};
use crate::stream::{Emitter, execute_input, generate, next_batch};

/// Reaction of a sort to its grant.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Adaptivity {
    /// Asks for bytes before it pins pages, and unpins when it is refused or asked to.
    #[default]
    Adaptive,
    /// Never asks and never unpins, as if memory were unlimited (the memory-oblivious operators of
    /// Otaki et al., CIDR 2025, section 5).
    Oblivious,
}

/// External merge sort in pages; replaces a [`SortExec`].
#[derive(Debug)]
pub struct PagedSortExec {
    /// The node replaced, which defines order, limit, properties and children.
    stock: Arc<SortExec>,
    adaptivity: Adaptivity,
    sizes: SortSizes,
    boundary: Arc<Boundary>,
    metrics: ExecutionPlanMetricsSet,
}

impl PagedSortExec {
    /// Creates a node that replaces `stock`.
    pub fn new(stock: Arc<SortExec>) -> Self {
        let metrics = ExecutionPlanMetricsSet::new();
        let boundary = Arc::new(Boundary::new(&stock));
        let (adaptivity, sizes) = Default::default();
        Self { stock, adaptivity, sizes, boundary, metrics }
    }

    /// Returns true if a paged sort can replace `stock`: all types of its keys have an encoding
    /// whose bytes compare like the values.
    ///
    /// # Errors
    /// If a key does not fit the input.
    pub fn can_do(stock: &SortExec) -> Result<bool> {
        let schema = stock.input().schema();
        let fields =
            stock.expr().iter().map(|key| Ok(SortField::new(key.expr.data_type(&schema)?)));
        Ok(RowConverter::supports_fields(&fields.collect::<Result<Vec<_>>>()?))
    }

    /// Sets the reaction to the grant.
    #[must_use]
    pub fn with_adaptivity(mut self, adaptivity: Adaptivity) -> Self {
        self.adaptivity = adaptivity;
        self
    }

    /// Sets the sizes of pieces and blocks.
    #[must_use]
    pub fn with_sizes(mut self, sizes: SortSizes) -> Self {
        self.sizes = sizes;
        self
    }

    /// Returns the node that this one replaces.
    pub fn stock(&self) -> &SortExec {
        &self.stock
    }

    /// Creates the top-k state for the first `limit` rows of a partition.
    fn top(
        &self,
        keys: &Arc<SortKeys>,
        schema: &SchemaRef,
        grant: &Arc<dyn Grant>,
        limit: usize,
    ) -> Result<Top> {
        let properties = self.stock.input().equivalence_properties();
        let (leading, _) = properties.extract_common_sort_prefix(self.stock.expr().clone())?;
        // The order of the input bounds the key only if it is a prefix of the key.
        let same = leading.iter().zip(self.stock.expr()).all(|(left, right)| left == right);
        let leading = LexOrdering::new(leading).filter(|_| same);
        let leading = leading.map(|order| SortKeys::new(schema, &order)).transpose()?;
        Ok(Top::new(
            Arc::clone(keys),
            leading,
            Arc::clone(&self.boundary),
            Arc::clone(schema),
            Arc::clone(grant),
            limit,
        ))
    }

    fn over(&self, stock: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let any: Arc<dyn std::any::Any + Send + Sync> = stock;
        let stock = any.downcast::<SortExec>().map_err(|_| {
            datafusion::common::DataFusionError::Internal("a sort became another node".to_owned())
        })?;
        Ok(Arc::new(Self { adaptivity: self.adaptivity, sizes: self.sizes, ..Self::new(stock) }))
    }
}

impl DisplayAs for PagedSortExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(kind, DisplayFormatType::Default | DisplayFormatType::Verbose) {
            f.write_str("Paged")?;
        }
        self.stock.fmt_as(kind, f)
    }
}

impl ExecutionPlan for PagedSortExec {
    fn name(&self) -> &'static str {
        "PagedSortExec"
    }

    node_of_stock!();

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.stock.dynamic_expressions_produced()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.stock.benefits_from_input_partitioning()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.stock.maintains_input_order()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let stock: Arc<dyn ExecutionPlan> = Arc::clone(&self.stock) as _;
        self.over(datafusion::physical_plan::execution_plan::replace_children_if_necessary(
            stock, children,
        )?)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let stock: Arc<dyn ExecutionPlan> = Arc::clone(&self.stock) as _;
        self.over(stock.reset_state()?)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let memory = QueryExtension::find(&context)?;
        let grant = memory.register(&format!("PagedSort[{partition}]"));
        let grant = MeteredGrant::of(grant, &self.metrics, partition);
        let grant: Arc<dyn Grant> = match self.adaptivity {
            Adaptivity::Adaptive => grant,
            Adaptivity::Oblivious => Arc::new(ObliviousGrant::new(grant)),
        };
        let input = execute_input(self.stock.input(), partition, Arc::clone(&context))?;
        let input = bounded(input);
        let schema = input.schema();
        let keys = Arc::new(SortKeys::new(&schema, self.stock.expr())?);
        let width = keys.stored(schema.fields().len()).len();
        let limit = self.stock.fetch();
        let top = limit.map(|limit| self.top(&keys, &schema, &grant, limit)).transpose()?;
        let (space, sizes) = (memory.space().clone(), self.sizes);
        let merge = MergeContext { keys, space, grant, width, sizes };
        let work = Work {
            input,
            sorter: Sorter::new(merge, limit),
            top,
            batch_rows: context.session_config().batch_size(),
            limit,
            metrics: BaselineMetrics::new(&self.metrics, partition),
        };
        Ok(generate("PagedSortExec", &memory, schema, |emitter| work.run(emitter)))
    }

    fn fetch(&self) -> Option<usize> {
        self.stock.fetch()
    }
}

/// The sort of one partition, as its stream runs it.
struct Work {
    input: SendableRecordBatchStream,
    sorter: Sorter,
    top: Option<Top>,
    batch_rows: usize,
    limit: Option<usize>,
    metrics: BaselineMetrics,
}

impl Work {
    async fn run(mut self, emitter: Emitter) -> Result<()> {
        let schema: SchemaRef = self.input.schema();
        self.take_in().await?;
        let compute = self.metrics.elapsed_compute().clone();
        let mut timer = compute.timer();
        if let Some(first) = self.top.take().map(|mut top| top.finish()).transpose()?.flatten() {
            timer.done();
            for start in (0..first.num_rows()).step_by(self.batch_rows) {
                let batch = first.slice(start, self.batch_rows.min(first.num_rows() - start));
                emitter.emit(batch.record_output(&self.metrics)).await;
            }
            return Ok(());
        }
        let mut merge = self.sorter.finish().await?;
        let mut left = self.limit.unwrap_or(usize::MAX);
        while left > 0 {
            merge = self.sorter.adapt(merge).await?;
            let Some((rows, columns)) = merge.next_columns(self.batch_rows.min(left)).await? else {
                break;
            };
            left -= rows;
            let options = RecordBatchOptions::new().with_row_count(Some(rows));
            let batch = RecordBatch::try_new_with_options(Arc::clone(&schema), columns, &options)?;
            timer.done();
            emitter.emit(batch.record_output(&self.metrics)).await;
            timer = compute.timer();
        }
        timer.done();
        Ok(())
    }

    /// Reads the input to its end, or until no later row can be in the output.
    async fn take_in(&mut self) -> Result<()> {
        let compute = self.metrics.elapsed_compute().clone();
        let empty: SendableRecordBatchStream =
            Box::pin(EmptyRecordBatchStream::new(self.input.schema()));
        let mut input = std::mem::replace(&mut self.input, empty);
        let grant = Arc::clone(self.sorter.grant());
        while let Some(batch) = next_batch(&mut input, &grant, || {
            self.sorter.unpin(u64::MAX);
            Ok(())
        })
        .await
        {
            let timer = compute.timer();
            let batch = batch?;
            let enough = match &mut self.top {
                Some(top) => top.push(batch, &mut self.sorter).await?,
                None => self.sorter.push(batch).await.map(|()| false)?,
            };
            timer.done();
            if enough {
                break;
            }
        }
        Ok(())
    }
}
