//! Plan node of window functions over partitions that may be in pages.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions};
use datafusion::arrow::compute::{concat, concat_batches};
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::OrderingRequirements;
use datafusion::physical_expr::window::WindowExpr;
use datafusion::physical_plan::execution_plan::replace_children_if_necessary;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, RecordOutput};
use datafusion::physical_plan::windows::WindowAggExec;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use terrace_pool::Space;

use super::large::Large;
use super::ranks::{Groups, GroupsOf};
use crate::batch_limit::bounded;
use crate::block::Lease;
use crate::delegate::node_of_stock;
use crate::memory::{Grant, MeteredGrant, QueryExtension};
use crate::sort::piece::batch_bytes;
use crate::stream::{Emitter, execute_input, generate, next_batch};

/// Window functions computed one window partition at a time; replaces a [`WindowAggExec`].
#[derive(Debug)]
pub struct PagedWindowExec {
    stock: Arc<WindowAggExec>,
    metrics: ExecutionPlanMetricsSet,
}

impl PagedWindowExec {
    /// Creates a node that replaces `stock`.
    pub fn new(stock: Arc<WindowAggExec>) -> Self {
        Self { stock, metrics: ExecutionPlanMetricsSet::new() }
    }

    /// Returns the node that this one replaces.
    pub fn stock(&self) -> &WindowAggExec {
        &self.stock
    }
}

impl DisplayAs for PagedWindowExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if matches!(kind, DisplayFormatType::Default | DisplayFormatType::Verbose) {
            f.write_str("Paged")?;
        }
        self.stock.fmt_as(kind, f)
    }
}

impl ExecutionPlan for PagedWindowExec {
    fn name(&self) -> &'static str {
        "PagedWindowExec"
    }

    node_of_stock!();

    fn required_input_ordering(&self) -> Vec<Option<OrderingRequirements>> {
        self.stock.required_input_ordering()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        self.stock.maintains_input_order()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let stock: Arc<dyn ExecutionPlan> = Arc::clone(&self.stock) as _;
        let any: Arc<dyn std::any::Any + Send + Sync> =
            replace_children_if_necessary(stock, children)?;
        let stock = any
            .downcast::<WindowAggExec>()
            .map_err(|_| DataFusionError::Internal("a window became another node".to_owned()))?;
        Ok(Arc::new(Self::new(stock)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let memory = QueryExtension::find(&context)?;
        let functions = self.stock.window_expr().to_vec();
        let partition_by = functions.first().map(|it| it.partition_by().to_vec());
        let input = execute_input(self.stock.input(), partition, Arc::clone(&context))?;
        let input = bounded(input);
        let schema = self.stock.schema();
        let grant = memory.register(&format!("PagedWindow[{partition}]"));
        let work = Work {
            input_schema: input.schema(),
            functions,
            partitions: Groups::new(partition_by.clone().unwrap_or_default()),
            within: Groups::new(partition_by.unwrap_or_default()),
            space: memory.space().clone(),
            grant: MeteredGrant::of(grant, &self.metrics, partition),
            held: Held::default(),
            output: Output {
                schema: Arc::clone(&schema),
                batch_rows: context.session_config().batch_size(),
                metrics: BaselineMetrics::new(&self.metrics, partition),
            },
        };
        Ok(generate("PagedWindowExec", &memory, schema, |emitter| work.run(input, emitter)))
    }
}

/// The rows of the partition that is still arriving.
#[derive(Debug, Default)]
struct Held {
    batches: Vec<RecordBatch>,
    leases: Vec<Lease>,
    large: Option<Large>,
}

impl Held {
    fn is_empty(&self) -> bool {
        self.batches.is_empty() && self.large.is_none()
    }
}

struct Work {
    input_schema: SchemaRef,
    functions: Vec<Arc<dyn WindowExpr>>,
    /// The partitions of the input, across batches.
    partitions: Groups,
    /// The partitions of one batch that is evaluated, without earlier batches.
    within: Groups,
    space: Space,
    grant: Arc<dyn Grant>,
    held: Held,
    output: Output,
}

/// Output of the operator.
struct Output {
    schema: SchemaRef,
    batch_rows: usize,
    metrics: BaselineMetrics,
}

impl Work {
    async fn run(mut self, mut input: SendableRecordBatchStream, emitter: Emitter) -> Result<()> {
        let grant = Arc::clone(&self.grant);
        while let Some(batch) = next_batch(&mut input, &grant, || self.unpin()).await {
            let batch = batch?;
            if batch.num_rows() > 0 {
                self.rest().await?;
                self.take_in(batch, &emitter).await?;
            }
        }
        self.complete(None, &emitter).await
    }

    /// Spills if the grant wants bytes back, and waits while the query is suspended.
    async fn rest(&mut self) -> Result<()> {
        let suspended = self.grant.suspended();
        let owes = suspended.is_some() || self.grant.excess_bytes() > 0;
        if owes {
            self.unpin()?;
        }
        if let Some(resumed) = suspended {
            resumed.await;
        }
        Ok(())
    }

    fn unpin(&mut self) -> Result<()> {
        if self.held.batches.is_empty() { Ok(()) } else { self.spill() }
    }

    async fn take_in(&mut self, batch: RecordBatch, emitter: &Emitter) -> Result<()> {
        let GroupsOf { ranges, continues } = self.partitions.next(&batch)?;
        let begins = ranges.last().map_or(0, |range| range.start);
        if begins == 0 && (continues || self.held.is_empty()) {
            return self.hold(batch);
        }
        // Number of rows that belong to the held partition.
        let rest = if continues { ranges.first().map_or(0, |range| range.end) } else { 0 };
        let done = batch.slice(0, begins);
        self.complete(Some((done, rest)), emitter).await?;
        self.hold(batch.slice(begins, batch.num_rows() - begins))
    }

    /// Holds rows of the partition that is arriving.
    fn hold(&mut self, batch: RecordBatch) -> Result<()> {
        if let Some(large) = &mut self.held.large {
            return large.push(&batch);
        }
        let bytes = batch_bytes(&batch) as u64;
        match Lease::ask_heap(&self.grant, bytes) {
            Some(lease) => {
                self.held.batches.push(batch);
                self.held.leases.push(lease);
                Ok(())
            }
            None => {
                self.held.batches.push(batch);
                self.spill()
            }
        }
    }

    /// Moves the held rows to blocks in pages, which are not pinned, and releases their memory.
    fn spill(&mut self) -> Result<()> {
        let large = match self.held.large.take() {
            Some(large) => large,
            None => Large::new(
                self.space.clone(),
                Arc::clone(&self.grant),
                Arc::clone(&self.input_schema),
                &self.functions,
            )?,
        };
        let large = self.held.large.insert(large);
        self.held.leases.clear();
        self.held.batches.drain(..).try_for_each(|batch| large.push(&batch))
    }

    /// Computes and emits the held rows and those of `after`, of which the first (their number is
    /// in the pair) belong to the held partition; the others are whole partitions.
    async fn complete(
        &mut self,
        after: Option<(RecordBatch, usize)>,
        emitter: &Emitter,
    ) -> Result<()> {
        let Held { mut batches, leases, large } = std::mem::take(&mut self.held);
        match (large, after) {
            (Some(mut large), after) => {
                let (after, rest) = after.unzip();
                if let (Some(after), Some(rest)) = (&after, rest.filter(|rest| *rest > 0)) {
                    large.push(&after.slice(0, rest))?;
                }
                self.complete_large(large, emitter).await?;
                let rest = rest.unwrap_or(0);
                batches.extend(after.map(|it| it.slice(rest, it.num_rows() - rest)));
            }
            (None, after) => batches.extend(after.map(|(after, _)| after)),
        }
        let batch = concat_batches(&self.input_schema, &batches)?;
        drop(batches);
        if batch.num_rows() > 0 {
            // Charges, in addition to the rows, their concatenation and the results.
            let _lease = Lease::take_heap(&self.grant, batch_bytes(&batch) as u64);
            let values = self.evaluate(&batch)?;
            self.output.emit(&batch, values, emitter).await?;
        }
        drop(leases);
        Ok(())
    }

    async fn complete_large(&mut self, mut large: Large, emitter: &Emitter) -> Result<()> {
        let in_passes = large.finish()?;
        if in_passes {
            while let Some((lease, batch, values)) = large.next().await? {
                self.output.emit(&batch, values, emitter).await?;
                drop(lease);
                if let Some(resumed) = self.grant.suspended() {
                    resumed.await;
                }
            }
            return Ok(());
        }
        // A function that needs the whole partition at once gets it, whatever that costs.
        let (mut batches, mut leases) = (Vec::new(), Vec::new());
        while let Some((lease, batch, _)) = large.next().await? {
            batches.push(batch);
            leases.push(lease);
        }
        let batch = concat_batches(&self.input_schema, &batches)?;
        let values = self.evaluate(&batch)?;
        self.output.emit(&batch, values, emitter).await
    }

    /// Returns the functions' values for rows of whole partitions.
    fn evaluate(&mut self, batch: &RecordBatch) -> Result<Vec<ArrayRef>> {
        let compute = self.output.metrics.elapsed_compute().clone();
        let _timer = compute.timer();
        self.within.restart();
        let ranges = self.within.next(batch)?.ranges;
        let values = self.functions.iter().map(|function| -> Result<ArrayRef> {
            let parts = ranges.iter().map(|it| function.evaluate(&batch.slice(it.start, it.len())));
            let parts = parts.collect::<Result<Vec<_>>>()?;
            let parts: Vec<_> = parts.iter().map(AsRef::as_ref).collect();
            Ok(concat(&parts)?)
        });
        values.collect()
    }
}

impl Output {
    async fn emit(
        &self,
        batch: &RecordBatch,
        values: Vec<ArrayRef>,
        emitter: &Emitter,
    ) -> Result<()> {
        let rows = batch.num_rows();
        let columns = batch.columns().iter().cloned().chain(values).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(rows));
        let batch = RecordBatch::try_new_with_options(Arc::clone(&self.schema), columns, &options)?;
        for start in (0..rows).step_by(self.batch_rows.max(1)) {
            let part = batch.slice(start, self.batch_rows.min(rows - start));
            emitter.emit(part.record_output(&self.metrics)).await;
        }
        Ok(())
    }
}
