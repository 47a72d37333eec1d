//! The paged nested-loop join, and the cross join as one without a filter.
//!
//! DataFusion's keep the left side on the heap and fail when their memory is refused, or read the
//! left input again for every part of it that fits. [`PagedLoopJoinExec`] stands in for both, with
//! every join type: the left side is collected once, in blocks that are pinned one at a time, and
//! each round of right rows passes all of them. What it holds is a block and a round; how many
//! blocks stay in memory between rounds is the pool's to say.

mod build;
mod run;
mod spec;

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use datafusion::common::stats::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::metrics::{ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    ChildStats, DisplayAs, DisplayFormatType, ExecutionPlan, InputDistributionRequirements,
    PlanProperties, StatisticsArgs,
};
use futures::FutureExt;
use futures::future::{BoxFuture, Shared};

use crate::hash_join::{JoinMetrics, Output, partitions};
use crate::memory::QueryExtension;
use crate::stream::generate;
use build::Left;
use run::Runner;
use spec::{Inputs, LoopSpec};

type SharedLeft = Shared<BoxFuture<'static, Result<Arc<Left>, Arc<DataFusionError>>>>;

/// A join by comparing every pair of rows, whose left side is in pages.
#[derive(Debug)]
pub struct PagedLoopJoinExec {
    /// The join it stands in for, which knows all there is to know of it but how to run it.
    stock: Arc<dyn ExecutionPlan>,
    inputs: Inputs,
    collected: Arc<Collected>,
    metrics: ExecutionPlanMetricsSet,
}

/// The left side that all partitions share, for as long as any of their streams is to come.
#[derive(Debug)]
struct Collected {
    left: Mutex<Option<SharedLeft>>,
    streams: AtomicUsize,
}

/// A stream's share in it: with the last one the left side goes.
struct Share(Arc<Collected>);

impl Drop for Share {
    fn drop(&mut self) {
        if self.0.streams.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.0.left.lock().unwrap_or_else(PoisonError::into_inner).take();
        }
    }
}

impl PagedLoopJoinExec {
    /// The paged join in place of `stock`; `None` if that is neither a nested-loop join nor a
    /// cross join.
    #[must_use]
    pub fn new(stock: Arc<dyn ExecutionPlan>) -> Option<Self> {
        let inputs = Inputs::of(&stock)?;
        let streams = AtomicUsize::new(partitions(&inputs.right));
        let collected = Arc::new(Collected { left: Mutex::default(), streams });
        Some(Self { stock, inputs, collected, metrics: ExecutionPlanMetricsSet::new() })
    }

    fn again(stock: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        match Self::new(stock) {
            Some(join) => Ok(Arc::new(join)),
            None => datafusion::common::internal_err!("a join became something else"),
        }
    }

    /// The left side, being collected.
    fn left(
        &self,
        spec: &Arc<LoopSpec>,
        metrics: &JoinMetrics,
        context: &Arc<TaskContext>,
    ) -> Result<SharedLeft> {
        let mut collected = self.collected.left.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(left) = collected.as_ref() {
            return Ok(left.clone());
        }
        let memory = QueryExtension::find(context)?;
        let grant = metrics.watch(memory.register("PagedLoopJoin[0]"));
        let input = self.inputs.left.execute(0, Arc::clone(context))?;
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
        let left = collect.boxed().shared();
        *collected = Some(left.clone());
        Ok(left)
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

    fn properties(&self) -> &Arc<PlanProperties> {
        self.stock.properties()
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        self.stock.input_distribution_requirements()
    }

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        self.stock.children()
    }

    fn apply_expressions(
        &self,
        f: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        self.stock.apply_expressions(f)
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
        let left = self.left(&spec, &metrics, &context)?;
        let input = self.inputs.right.execute(partition, context)?;
        let grant = metrics.watch(memory.register(&format!("PagedLoopJoinRight[{partition}]")));
        let share = Share(Arc::clone(&self.collected));
        Ok(generate(Arc::clone(&spec.schema), move |emitter| async move {
            let left = left.await.map_err(DataFusionError::Shared)?;
            let output = Output::new(emitter, &spec.schema, batch_size, None, metrics.clone());
            let joined = Runner { spec, grant, left, output, metrics }.run(input).await;
            drop(share);
            joined
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn child_stats_requests(&self, partition: Option<usize>) -> Vec<ChildStats> {
        self.stock.child_stats_requests(partition)
    }

    fn statistics_from_inputs(
        &self,
        input_stats: &[Arc<Statistics>],
        args: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        self.stock.statistics_from_inputs(input_stats, args)
    }

    fn fetch(&self) -> Option<usize> {
        self.stock.fetch()
    }
}
