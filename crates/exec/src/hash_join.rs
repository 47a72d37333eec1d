//! Hash join whose build side is kept in pages and may spill.
//!
//! [`PagedHashJoinExec`] replaces DataFusion's `HashJoinExec` in both of its modes, with every join
//! type, filters, projections and both ways to compare nulls. Of `null_aware` anti joins, which are
//! `NOT IN`, it replaces those without a filter whose build side is shared by all probe streams:
//! only then does the stream that emits the build rows know of a null in any probe row. It joins
//! like DataFusion's while the build side fits the grant, and spills partitions when it does not:
//! `build` keeps the build side, `probe` joins the probe rows, `spilled_partitions` joins the
//! partitions that do not fit. Semi, anti and mark joins need one match per row: a probe row is
//! compared until it has one, a build row that has one is not compared again, and without a filter
//! all build rows of equal key have a match as soon as the first has one. Probe batches keep their
//! order only as long as all of the build side is in memory, so the node declares no order as
//! maintained.

mod bounds;
mod build;
mod directory;
mod integer;
mod member;
mod metrics;
mod probe;
mod spec;
mod spilled_partitions;
mod table;
mod tags;

use std::fmt;
use std::sync::atomic::AtomicUsize;
use std::sync::{Arc, OnceLock};

use datafusion::common::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::PhysicalExpr;
use datafusion::physical_expr::expressions::DynamicFilterPhysicalExpr;
use datafusion::physical_plan::execution_plan::ReplaceChildrenOptions;
use datafusion::physical_plan::joins::{HashJoinExec, PartitionMode};
use datafusion::physical_plan::metrics::ExecutionPlanMetricsSet;
use datafusion::physical_plan::{DisplayAs, DisplayFormatType, ExecutionPlan};
use futures::FutureExt;

use crate::batch_limit::bounded;
use crate::delegate::{node_of_stock, statistics_of_stock};
use crate::memory::{MeteredGrant, QueryExtension};
use crate::rows::RowPages;
use crate::shared_side::{Collecting, SharedSide};
use crate::stream::{execute_input, generate};
pub(crate) use bounds::partitions;
use bounds::{KeyBounds, SharedFilter};
use build::{Build, Collector};
pub(crate) use metrics::JoinMetrics;
pub(crate) use probe::Output;
use probe::Prober;
use spec::Spec;
pub(crate) use table::Flags;

/// Plan node of a hash join whose build rows, and spilled probe rows, are in pages of the pool.
#[derive(Debug)]
pub struct PagedHashJoinExec {
    /// The join replaced, which defines everything except the execution.
    stock: Arc<HashJoinExec>,
    filter: OnceLock<Option<Arc<SharedFilter>>>,
    build: Arc<SharedSide<Build>>,
    metrics: ExecutionPlanMetricsSet,
}

impl PagedHashJoinExec {
    /// Returns the paged join that replaces `stock`; `None` if it has no join keys, has an
    /// undecided partition mode, or is null-aware in a way that is not supported (see the module).
    #[must_use]
    pub fn new(stock: Arc<HashJoinExec>) -> Option<Self> {
        let mode = *stock.partition_mode();
        let is_shared = mode == PartitionMode::CollectLeft;
        let null_aware = !stock.null_aware || (is_shared && stock.filter().is_none());
        let fits = mode != PartitionMode::Auto && null_aware && !stock.on().is_empty();
        let build = SharedSide::new(partitions(stock.right()));
        fits.then(|| Self {
            stock,
            filter: OnceLock::new(),
            build,
            metrics: ExecutionPlanMetricsSet::new(),
        })
    }

    /// Returns the join that this node replaces.
    #[must_use]
    pub fn stock(&self) -> &Arc<HashJoinExec> {
        &self.stock
    }

    fn again(&self, node: Arc<dyn ExecutionPlan>) -> Result<Arc<dyn ExecutionPlan>> {
        let node: Arc<dyn std::any::Any + Send + Sync> = node;
        let stock = Arc::downcast::<HashJoinExec>(node).ok().and_then(Self::new);
        match stock {
            Some(join) => Ok(Arc::new(join)),
            None => datafusion::common::internal_err!("a hash join became something else"),
        }
    }

    fn shared_filter(&self, spec: &Spec) -> Result<Option<Arc<SharedFilter>>> {
        if let Some(filter) = self.filter.get() {
            return Ok(filter.clone());
        }
        let Some(filter) = self.stock.dynamic_expressions_produced().into_iter().next() else {
            return Ok(None);
        };
        let Ok(filter) = Arc::downcast::<DynamicFilterPhysicalExpr>(filter) else {
            return Ok(None);
        };
        let told = match self.stock.partition_mode() {
            PartitionMode::Partitioned => partitions(self.stock.left()),
            _ => 1,
        };
        let right = self.stock.right();
        let shared = SharedFilter::new(&filter, right, spec, told)?;
        Ok(self.filter.get_or_init(|| shared.map(Arc::new)).clone())
    }

    fn is_build_shared(&self) -> bool {
        *self.stock.partition_mode() == PartitionMode::CollectLeft
    }

    /// Starts collecting the build side: of `partition`, or of all partitions if they share one.
    fn collect(
        &self,
        partition: usize,
        spec: &Arc<Spec>,
        metrics: &JoinMetrics,
        context: &Arc<TaskContext>,
    ) -> Result<Collecting<Build>> {
        let is_shared = self.is_build_shared();
        let memory = QueryExtension::find(context)?;
        let from = if is_shared { 0 } else { partition };
        let grant = memory.register(&format!("PagedHashJoin[{from}]"));
        let grant = MeteredGrant::of(grant, &self.metrics, from);
        let filter = self.shared_filter(spec)?;
        let left = self.stock.left();
        let bounds = match &filter {
            Some(_) => {
                let schema = left.schema();
                let types = spec.build_keys.iter().map(|key| key.data_type(&schema));
                let options = &context.session_config().options().optimizer;
                let values_max = options.hash_join_inlist_pushdown_max_distinct_values;
                Some(KeyBounds::new(&types.collect::<Result<Vec<_>>>()?, values_max, &grant)?)
            }
            None => None,
        };
        let probes = if is_shared { partitions(self.stock.right()) } else { 1 };
        let (spec, open_bytes) = (Arc::clone(spec), AtomicUsize::new(0));
        let compute = metrics.compute();
        let collector = Collector { spec, memory, grant, bounds, probes, open_bytes, compute };
        let input = bounded(execute_input(left, from, Arc::clone(context))?);
        let (metrics, told) = (metrics.clone(), Told { filter, is_told: false });
        let collect = async move {
            let timer = metrics.build_time.timer();
            let build = collector.collect(input).await.map_err(Arc::new)?;
            drop(timer);
            metrics.build_rows.add(terrace_sys::size::to_usize(build.rows));
            let build = told.tell(build).map_err(Arc::new)?;
            Ok(Arc::new(build))
        };
        Ok(collect.boxed().shared())
    }
}

/// Guard of a build partition that reports its bounds to the dynamic filter: [`Told::tell`] does,
/// and a drop before that reports that there are none.
struct Told {
    filter: Option<Arc<SharedFilter>>,
    is_told: bool,
}

impl Told {
    fn tell(mut self, mut build: Build) -> Result<Build> {
        self.is_told = true;
        if let Some(filter) = &self.filter {
            filter.tell(build.bounds.take())?;
        }
        Ok(build)
    }
}

impl Drop for Told {
    fn drop(&mut self) {
        if let Some(filter) = self.filter.as_ref().filter(|_| !self.is_told) {
            // Without this partition nothing is published, so nothing can fail.
            drop(filter.tell(None));
        }
    }
}

impl DisplayAs for PagedHashJoinExec {
    fn fmt_as(&self, t: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !matches!(t, DisplayFormatType::TreeRender) {
            f.write_str("Paged")?;
        }
        self.stock.fmt_as(t, f)
    }
}

impl ExecutionPlan for PagedHashJoinExec {
    fn name(&self) -> &str {
        "PagedHashJoinExec"
    }

    node_of_stock!();

    statistics_of_stock!();

    fn maintains_input_order(&self) -> Vec<bool> {
        vec![false, false]
    }

    fn dynamic_expressions_produced(&self) -> Vec<Arc<dyn PhysicalExpr>> {
        self.stock.dynamic_expressions_produced()
    }

    fn with_new_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        #[expect(deprecated, reason = "the trait has it")]
        let stock = Arc::clone(&self.stock).with_new_children(children)?;
        self.again(stock)
    }

    fn replace_children(
        self: Arc<Self>,
        children: Vec<Arc<dyn ExecutionPlan>>,
        options: ReplaceChildrenOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        self.again(Arc::clone(&self.stock).replace_children(children, options)?)
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        self.again(Arc::clone(&self.stock).reset_state()?)
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        let memory = QueryExtension::find(&context)?;
        let spec = Arc::new(Spec::new(&self.stock, context.session_config().batch_size())?);
        let metrics = JoinMetrics::new(&self.metrics, partition);
        let collect = || self.collect(partition, &spec, &metrics, &context);
        let build = if self.is_build_shared() { self.build.get(collect)? } else { collect()? };
        let filter = self.shared_filter(&spec)?;
        let input = bounded(execute_input(self.stock.right(), partition, context)?);
        let grant = memory.register(&format!("PagedHashJoinProbe[{partition}]"));
        let grant = MeteredGrant::of(grant, &self.metrics, partition);
        let share = self.build.share();
        let own = Arc::clone(&memory);
        Ok(generate(
            "PagedHashJoinExec",
            &own,
            Arc::clone(&spec.schema),
            move |emitter| async move {
                let build = build.await.map_err(DataFusionError::Shared)?;
                if let Some(filter) = filter {
                    filter.complete().await;
                }
                let nulls = RowPages::new(
                    memory.space().clone(),
                    Arc::clone(&grant),
                    spec.build_layout.clone(),
                );
                let output = Output::new(
                    emitter,
                    &spec.schema,
                    spec.batch_size,
                    spec.fetch,
                    metrics.clone(),
                );
                let prober = Prober { spec, memory, grant, build, output, nulls, metrics };
                let joined = prober.run(input).await;
                drop(share);
                joined
            },
        ))
    }

    fn fetch(&self) -> Option<usize> {
        self.stock.fetch()
    }
}
