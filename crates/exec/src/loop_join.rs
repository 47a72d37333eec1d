//! Nested-loop join whose left side is in pages; a cross join is one without a filter.
//!
//! DataFusion's keep the left side on the heap and fail when their memory is refused, or read the
//! left input again for every part of it that fits. [`PagedLoopJoinExec`] replaces both, with every
//! join type: the left side is collected once, in blocks that are pinned one at a time, and each
//! round of right rows is joined with all of them. It holds one block and one round; the pool
//! decides how many blocks stay in memory between rounds. If the filter compares an expression of
//! one side with lower or upper bounds from the other, only rows within the bounds are paired
//! (`range`).

mod build;
mod pairs;
mod range;
mod run;
mod spec;

use std::fmt;
use std::sync::Arc;

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::FutureExt;

use crate::batch_limit::bounded;
use crate::delegate::{node_of_stock, statistics_of_stock};
use crate::hash_join::{JoinMetrics, Output, partitions};
use crate::memory::{MeteredGrant, QueryExtension};
use crate::shared_side::{Collecting, SharedSide};
use crate::stream::{execute_input, generate};
use build::Left;
use run::Runner;
use spec::{Inputs, LoopSpec};

/// Nested-loop join whose left side is in pages.
#[derive(Debug)]
pub struct PagedLoopJoinExec {
    /// The join replaced, which defines everything except the execution.
    stock: Arc<dyn ExecutionPlan>,
    inputs: Inputs,
    left: Arc<SharedSide<Left>>,
    metrics: ExecutionPlanMetricsSet,
}

impl PagedLoopJoinExec {
    /// Returns the paged join in place of `stock`; `None` if that is neither a nested-loop join nor
    /// a cross join.
    #[must_use]
    pub fn new(stock: Arc<dyn ExecutionPlan>) -> Option<Self> {
        let inputs = Inputs::of(&stock)?;
        let left = SharedSide::new(partitions(&inputs.right));
        Some(Self { stock, inputs, left, metrics: ExecutionPlanMetricsSet::new() })
    }

    /// Returns the join that this node replaces.
    #[must_use]
    pub fn stock(&self) -> &Arc<dyn ExecutionPlan> {
        &self.stock
    }

    fn again(stock: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        match Self::new(stock) {
            Some(join) => Ok(Arc::new(join)),
            None => datafusion::common::internal_err!("a join became something else"),
        }
    }

    /// Starts collecting the left side.
    fn collect(
        &self,
        spec: &Arc<LoopSpec>,
        metrics: &JoinMetrics,
        context: &Arc<TaskContext>,
    ) -> Result<Collecting<Left>> {
        let memory = QueryExtension::find(context)?;
        let grant = MeteredGrant::of(memory.register("PagedLoopJoin[0]"), &self.metrics, 0);
        let input = bounded(execute_input(&self.inputs.left, 0, Arc::clone(context))?);
        let (spec, metrics) = (Arc::clone(spec), metrics.clone());
        let streams = partitions(&self.inputs.right);
        let collect = async move {
            let timer = metrics.build_time.timer();
            let left = Left::collect(&spec, memory.as_ref(), &grant, input, streams);
            let left = left.await.map_err(Arc::new)?;
            drop(timer);
            metrics.build_rows.add(terrace_sys::size::to_usize(left.rows));
            Ok(Arc::new(left))
        };
        Ok(collect.boxed().shared())
    }
}

impl DisplayAs for PagedLoopJoinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !matches!(t, DisplayFormatType::TreeRender) {
            f.write_str("Paged")?;
        }
        self.stock.fmt_as(t, f)
    }
}

impl ExecutionPlan for PagedLoopJoinExec {
    fn name(&self) -> &str {
        "PagedLoopJoinExec"
    }

    node_of_stock!();

    statistics_of_stock!();

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        #[expect(deprecated, reason = "the trait has it")]
        Self::again(Arc::clone(&self.stock).with_new_children(children)?)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        Self::again(Arc::clone(&self.stock).replace_children(children, options)?)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        Self::again(Arc::clone(&self.stock).reset_state()?)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let memory = QueryExtension::find(&context)?;
        let batch_size = context.session_config().batch_size();
        let spec = Arc::new(LoopSpec::new(&self.inputs, self.schema(), batch_size));
        let metrics = JoinMetrics::new(&self.metrics, partition);
        let left = self.left.get(|| self.collect(&spec, &metrics, &context))?;
        let input = bounded(execute_input(&self.inputs.right, partition, context)?);
        let grant = memory.register(&format!("PagedLoopJoinRight[{partition}]"));
        let grant = MeteredGrant::of(grant, &self.metrics, partition);
        let share = self.left.share();
        Ok(generate(
            "PagedLoopJoinExec",
            &memory,
            Arc::clone(&spec.schema),
            move |emitter| async move {
                let left = left.await.map_err(DataFusionError::Shared)?;
                let output = Output::new(emitter, &spec.schema, batch_size, None, metrics.clone());
                let joined = Runner { spec, grant, left, output, metrics }.run(input).await;
                drop(share);
                joined
            },
        ))
    }

    fn fetch(&self) -> Option<usize> {
        self.stock.fetch()
    }
}
