//! Merge of sorted partitions, charged to a grant.
//!
//! DataFusion's `SortPreservingMergeExec` holds one or two batches of each input, and the keys of
//! one: no more than its inputs return, and nothing that could be spilled. Yet it asks for every
//! batch, and fails when it is refused. [`PagedMergeExec`] runs the same merge, counts its batches
//! in its grant, and is never refused: the resulting debt of the query is repaid by operators that
//! can spill. Each input runs in a task of its own, one batch ahead of the merge.

use std::fmt;
use std::pin::pin;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::memory_pool::{MemoryConsumer, MemoryPool};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::OrderingRequirements;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet};
use datafusion::physical_plan::sorts::sort_preserving_merge::SortPreservingMergeExec;
use datafusion::physical_plan::sorts::streaming_merge::StreamingMergeBuilder;
use datafusion::physical_plan::stream::RecordBatchReceiverStream;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
};

use futures::StreamExt;
use futures::future::{Either, select};
use tokio::runtime::{Handle, RuntimeFlavor};

use crate::delegate::node_of_stock;
use crate::memory::{CountedPool, Grant, MeteredGrant, QueryExtension};

/// Merges sorted partitions; replaces a [`SortPreservingMergeExec`].
#[derive(Debug)]
pub struct PagedMergeExec {
    stock: Arc<SortPreservingMergeExec>,
    metrics: ExecutionPlanMetricsSet,
}

impl PagedMergeExec {
    /// Creates a node that replaces `stock`.
    pub fn new(stock: Arc<SortPreservingMergeExec>) -> Self {
        Self { stock, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// Returns the node that this one replaces.
    #[must_use]
    pub fn stock(&self) -> &SortPreservingMergeExec {
        &self.stock
    }
}

impl DisplayAs for PagedMergeExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(kind, DisplayFormatType::Default | DisplayFormatType::Verbose) {
            f.write_str("Paged")?;
        }
        self.stock.fmt_as(kind, f)
    }
}

impl ExecutionPlan for PagedMergeExec {
    fn name(&self) -> &'static str {
        "PagedMergeExec"
    }

    node_of_stock!();

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.stock.required_input_ordering()
    }

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
        let any: Arc<dyn std::any::Any + Send + Sync> =
            replace_children_if_necessary(stock, children)?;
        let stock = any.downcast::<SortPreservingMergeExec>();
        let stock = stock
            .map_err(|_| DataFusionError::Internal("a merge became another node".to_owned()))?;
        Ok(Arc::new(Self::new(stock)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let input = self.stock.input();
        let partitions = input.output_partitioning().partition_count();
        if partitions < 2 {
            return self.stock.execute(partition, context);
        }
        let memory = QueryExtension::find(&context)?;
        let grant = memory.register(&format!("PagedMerge[{partition}]"));
        let grant = MeteredGrant::of(grant, &self.metrics, partition);
        let pool: Arc<dyn MemoryPool> = Arc::new(CountedPool::new(Arc::clone(&grant)));
        let streams = (0..partitions)
            .map(|partition| {
                Ok(buffered(input.execute(partition, Arc::clone(&context))?, Arc::clone(&grant)))
            })
            .collect::<Result<_>>()?;
        StreamingMergeBuilder::new()
            .with_streams(streams)
            .with_schema(self.schema())
            .with_expressions(self.stock.expr())
            .with_metrics(BaselineMetrics::new(&self.metrics, partition))
            .with_batch_size(context.session_config().batch_size())
            .with_fetch(self.stock.fetch())
            .with_reservation(MemoryConsumer::new("PagedMerge").register(&pool))
            .with_round_robin_tie_breaker(true)
            .build()
    }

    fn fetch(&self) -> Option<usize> {
        self.stock.fetch()
    }
}

/// Runs an input in a task of its own, one batch ahead of its reader.
///
/// A merge that waits for one input does not ask the others, and a sort that is not asked keeps the
/// first blocks of its runs pinned. So if the query is suspended while there is no room for a
/// batch, the task asks for it nevertheless: the sort then unpins its blocks, and waits.
fn buffered(
    mut input: SendableRecordBatchStream,
    grant: Arc<dyn Grant>,
) -> SendableRecordBatchStream {
    let flavor = Handle::try_current().map(|runtime| runtime.runtime_flavor());
    if !matches!(flavor, Ok(RuntimeFlavor::MultiThread)) {
        return input;
    }
    let mut builder = RecordBatchReceiverStream::builder(input.schema(), 1);
    let sender = builder.tx();
    builder.spawn(async move {
        loop {
            let room = pin!(sender.reserve());
            // The reader is gone if there will be no room any more.
            let (room, early) = match select(room, grant.suspends()).await {
                Either::Left((room, _)) => (room, None),
                Either::Right(((), room)) => {
                    let early = input.next().await;
                    (room.await, Some(early))
                }
            };
            let Ok(room) = room else { break };
            let item = match early {
                Some(item) => item,
                None => input.next().await,
            };
            match item {
                Some(item) => room.send(item),
                None => break,
            }
        }
        Ok(())
    });
    builder.build()
}
