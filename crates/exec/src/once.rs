//! Common subplan that occurs several times in a plan, and is evaluated once.
//!
//! Copies of a subplan return the same rows only if nothing in it depends on the order of rows or
//! on chance. Where two copies must return the same rows, each copy stands below an [`OnceExec`],
//! and these share an [`OnceRows`]: the first stream that is polled evaluates its own copy and
//! stores the rows in unpinned pages, from which all streams read them. The other copies do not
//! run. The pages are freed with the plan.

use std::fmt;
use std::sync::{Arc, Mutex};

use datafusion::common::stats::Statistics;
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{DataFusionError, Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{Distribution, EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_plan::execution_plan::EmissionType;
use datafusion::physical_plan::metrics::{BaselineMetrics, ExecutionPlanMetricsSet, MetricsSet};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties,
    InputDistributionRequirements, PlanProperties, StatisticsArgs,
};
use futures::{FutureExt, StreamExt};
use terrace_sys::size::to_u64;
use terrace_sys::sync::lock;

use crate::batch_limit::bounded;
use crate::memory::{QueryExtension, QueryMemory};
use crate::shared_side::Collecting;
use crate::stored_batches::StoredBatches;
use crate::stream::{execute_input, generate};

/// The rows of a common subplan, shared by all nodes above its copies.
#[derive(Debug, Default)]
pub struct OnceRows(Mutex<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The number of times that each node was reset. A recursion resets all nodes of its term
    /// before each iteration, which has its own rows.
    resets: Vec<u64>,
    /// The rows, and the number of resets of the nodes that read them.
    current: Option<(u64, Collecting<StoredBatches>)>,
}

impl OnceRows {
    /// Registers a new node; returns its index.
    fn add(&self) -> usize {
        let mut shared = lock(&self.0);
        shared.resets.push(0);
        shared.resets.len() - 1
    }

    /// Counts a reset of the node with index `place`; returns the number of its resets.
    fn reset(&self, place: usize) -> u64 {
        let mut shared = lock(&self.0);
        shared.resets[place] += 1;
        shared.resets[place]
    }

    /// Returns the rows for nodes that were reset `resets` times; the first call with this number
    /// starts their collection by `collect`.
    fn get(
        &self,
        resets: u64,
        collect: impl FnOnce() -> Result<Collecting<StoredBatches>>,
    ) -> Result<Collecting<StoredBatches>> {
        let mut shared = lock(&self.0);
        match &shared.current {
            Some((known, rows)) if *known == resets => Ok(rows.clone()),
            _ => Ok(shared.current.insert((resets, collect()?)).1.clone()),
        }
    }
}

/// Plan node above a copy of a common subplan; see the [module](self).
#[derive(Debug)]
pub struct OnceExec {
    input: Arc<dyn ExecutionPlan>,
    rows: Arc<OnceRows>,
    /// The node's index among those that share the rows.
    place: usize,
    /// The number of times that the node was reset.
    resets: u64,
    properties: Arc<PlanProperties>,
    metrics: ExecutionPlanMetricsSet,
}

impl OnceExec {
    /// Creates a node above `input`, a copy of the subplan whose rows are `rows`.
    #[must_use]
    pub fn new(input: Arc<dyn ExecutionPlan>, rows: Arc<OnceRows>) -> Self {
        let place = rows.add();
        Self::with(input, rows, place, 0)
    }

    fn with(input: Arc<dyn ExecutionPlan>, rows: Arc<OnceRows>, place: usize, resets: u64) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            input.boundedness(),
        );
        let (properties, metrics) = (Arc::new(properties), ExecutionPlanMetricsSet::new());
        Self { input, rows, place, resets, properties, metrics }
    }

    /// Starts the evaluation of this node's copy.
    fn collect(
        &self,
        memory: &Arc<dyn QueryMemory>,
        context: &Arc<TaskContext>,
    ) -> Result<Collecting<StoredBatches>> {
        let mut input = bounded(execute_input(&self.input, 0, Arc::clone(context))?);
        let mut stored = StoredBatches::new(memory.as_ref(), "Once", &self.schema());
        let collect = async move {
            while let Some(batch) = input.next().await {
                stored.append(batch.map_err(Arc::new)?).map_err(Arc::new)?;
            }
            Ok(Arc::new(stored))
        };
        Ok(collect.boxed().shared())
    }
}

impl DisplayAs for OnceExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind {
            DisplayFormatType::TreeRender => Ok(()),
            _ => f.write_str("OnceExec"),
        }
    }
}

impl ExecutionPlan for OnceExec {
    fn name(&self) -> &'static str {
        "OnceExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    fn input_distribution_requirements(&self) -> InputDistributionRequirements {
        InputDistributionRequirements::new(vec![Distribution::SinglePartition])
    }

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        vec![&self.input]
    }

    fn apply_expressions(
        &self,
        _: &mut dyn FnMut(&Arc<dyn PhysicalExpr>) -> Result<TreeNodeRecursion>,
    ) -> Result<TreeNodeRecursion> {
        Ok(TreeNodeRecursion::Continue)
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.len()) {
            (Some(input), 0) => {
                let rows = Arc::clone(&self.rows);
                Ok(Arc::new(Self::with(input, rows, self.place, self.resets)))
            }
            _ => internal_err!("OnceExec has one input"),
        }
    }

    fn reset_state(self: Arc<Self>) -> Result<Arc<dyn ExecutionPlan>> {
        let resets = self.rows.reset(self.place);
        let (input, rows) = (Arc::clone(&self.input), Arc::clone(&self.rows));
        Ok(Arc::new(Self::with(input, rows, self.place, resets)))
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("OnceExec has one partition, and not {partition}");
        }
        let memory = QueryExtension::find(&context)?;
        let rows = self.rows.get(self.resets, || self.collect(&memory, &context))?;
        let metrics = BaselineMetrics::new(&self.metrics, partition);
        Ok(generate("OnceExec", &memory, self.schema(), move |emitter| async move {
            let rows = rows.await.map_err(DataFusionError::Shared)?;
            let mut next = 0;
            while let Some((first, batch)) = rows.batch_with(next).await? {
                next = first + to_u64(batch.num_rows());
                metrics.record_output(batch.num_rows());
                emitter.emit(batch).await;
            }
            Ok(())
        }))
    }

    fn metrics(&self) -> Option<MetricsSet> {
        Some(self.metrics.clone_inner())
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("OnceExec has one input"),
        }
    }
}
