//! Repartitioning whose queues may be in pages: distributes the rows of its input streams to output
//! streams, by the hash of their keys or round-robin.
//!
//! DataFusion's keeps on the heap all batches that its readers are not ready for, however many
//! these become when one reader waits for another, and cannot safely spill them.
//! [`PagedRepartitionExec`] replaces it: batches that its grant has no room for become blocks of
//! unpinned pages, and are read back in their turn. With one input, rows reach each output in input
//! order; with several, rows of one input may overtake those of another.

mod exchange;
mod key;
mod queue;

use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion::common::{Result, internal_datafusion_err, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::Partitioning;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricBuilder};
use datafusion::physical_plan::repartition::{BatchPartitioner, RepartitionExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
};

use crate::batch_limit::bounded;
use crate::delegate::{node_of_stock, statistics_of_stock};
use crate::hash_join::partitions;
use crate::memory::{MeteredGrant, QueryExtension};
use crate::stream::{execute_input, generate};
use exchange::{Exchange, Input, Reader};
use terrace_sys::sync::lock;

/// Plan node of a repartitioning whose queued batches may be in pages.
#[derive(Debug)]
pub struct PagedRepartitionExec {
    /// The node that it replaces, which defines everything except the execution.
    stock: Arc<RepartitionExec>,
    /// For each output its reader, until that is taken; `None` before the first execution.
    readers: Mutex<Option<Vec<Option<Reader>>>>,
    metrics: ExecutionPlanMetricsSet,
}

impl PagedRepartitionExec {
    /// Returns the paged node that replaces `stock`; `None` if that merges its inputs to preserve
    /// their order, or partitions neither by hash nor round-robin.
    #[must_use]
    pub fn new(stock: Arc<RepartitionExec>) -> Option<Self> {
        let kind = matches!(
            stock.partitioning(),
            Partitioning::Hash(..) | Partitioning::RoundRobinBatch(_)
        );
        let stands_in = kind && !stock.preserve_order();
        let (readers, metrics) = (Mutex::default(), ExecutionPlanMetricsSet::new());
        stands_in.then_some(Self { stock, readers, metrics })
    }

    /// Returns the node that this one replaces.
    #[must_use]
    pub fn stock(&self) -> &RepartitionExec {
        &self.stock
    }

    fn again(stock: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let any: Arc<dyn std::any::Any + Send + Sync> = stock;
        match any.downcast::<RepartitionExec>().ok().and_then(Self::new) {
            Some(node) => Ok(Arc::new(node)),
            None => internal_err!("a repartitioning became something else"),
        }
    }

    /// Opens the inputs, and creates a reader for each output.
    fn open(&self, context: &Arc<TaskContext>) -> Result<Vec<Option<Reader>>> {
        let memory = QueryExtension::find(context)?;
        let input = self.stock.input();
        let inputs = partitions(input);
        let outputs = self.stock.partitioning().partition_count();
        let open = |partition: usize| {
            let time = MetricBuilder::new(&self.metrics).subset_time("repartition_time", partition);
            let partitioning = key::canonical(self.stock.partitioning(), &input.schema())?;
            Ok(Input {
                stream: bounded(execute_input(input, partition, Arc::clone(context))?),
                partitioner: BatchPartitioner::try_new(partitioning, time, partition, inputs)?,
            })
        };
        let inputs = (0..inputs).map(open).collect::<Result<Vec<_>>>()?;
        let grant = |partition: usize| {
            let grant = memory.register(&format!("PagedRepartition[{partition}]"));
            MeteredGrant::of(grant, &self.metrics, partition)
        };
        let batch_size = context.session_config().batch_size();
        let coalesces = !input.boundedness().is_unbounded();
        let exchange = Exchange::new(
            self.schema(),
            memory.space().clone(),
            inputs,
            (0..outputs).map(grant).collect(),
            coalesces.then_some(batch_size),
        );
        Ok(exchange.readers().into_iter().map(Some).collect())
    }

    /// Takes the reader of one output.
    fn reader(&self, partition: usize, context: &Arc<TaskContext>) -> Result<Reader> {
        let mut readers = lock(&self.readers);
        if readers.is_none() {
            *readers = Some(self.open(context)?);
        }
        let reader = readers.as_mut().and_then(|it| it.get_mut(partition)?.take());
        reader.ok_or_else(|| internal_datafusion_err!("output {partition} was read before"))
    }
}

impl DisplayAs for PagedRepartitionExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !matches!(t, DisplayFormatType::TreeRender) {
            f.write_str("Paged")?;
        }
        self.stock.fmt_as(t, f)
    }
}

impl ExecutionPlan for PagedRepartitionExec {
    fn name(&self) -> &'static str {
        "PagedRepartitionExec"
    }

    node_of_stock!();

    statistics_of_stock!();

    fn maintains_input_order(&self) -> Vec<bool> {
        self.stock.maintains_input_order()
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        self.stock.benefits_from_input_partitioning()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let stock: Arc<dyn ExecutionPlan> = Arc::clone(&self.stock) as _;
        #[expect(deprecated, reason = "the trait has it")]
        Self::again(stock.with_new_children(children)?)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let stock: Arc<dyn ExecutionPlan> = Arc::clone(&self.stock) as _;
        Self::again(stock.replace_children(children, options)?)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let stock: Arc<dyn ExecutionPlan> = Arc::clone(&self.stock) as _;
        Self::again(stock.reset_state()?)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let mut reader = self.reader(partition, &context)?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        let memory = QueryExtension::find(&context)?;
        Ok(generate("PagedRepartitionExec", &memory, self.schema(), move |emitter| async move {
            while let Some(batch) = reader.next().await? {
                metrics.record_output(batch.num_rows());
                emitter.emit(batch).await;
            }
            Ok(())
        }))
    }

    fn cardinality_effect(&self) -> datafusion::physical_plan::execution_plan::CardinalityEffect {
        self.stock.cardinality_effect()
    }
}
