//! The plan node of EXPLAIN: runs its input if asked to, then returns the tree.

use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use datafusion::arrow::array::{RecordBatch, StringArray};
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::tree_node::TreeNodeRecursion;
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, PhysicalExpr};
use datafusion::physical_plan::coalesce_partitions::CoalescePartitionsExec;
use datafusion::physical_plan::execution_plan::{Boundedness, EmissionType};
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, Partitioning,
    PlanProperties,
};
use futures::{StreamExt as _, stream};

use super::describe::described;
use super::operator::{Operator, Summary};
use super::options::{Format, Options};
use super::{json, svg, text};

/// Returns the tree of a plan: as text one line per row, as JSON or SVG in one row. With ANALYZE,
/// runs the plan first.
#[derive(Debug)]
pub(in super::super) struct ExplainExec {
    input: Arc<dyn ExecutionPlan>,
    /// The query of a change of rows, which is shown below a change that does not have it as a
    /// child.
    watched: Option<Arc<dyn ExecutionPlan>>,
    options: Options,
    planning: Duration,
    properties: Arc<PlanProperties>,
}

/// The column of the result.
pub(super) fn schema() -> SchemaRef {
    Arc::new(Schema::new(vec![Field::new("QUERY PLAN", DataType::Utf8, false)]))
}

impl ExplainExec {
    /// Explains `input`, whose planning took `planning`. `watched` is the query of a change of rows
    /// that does not have it as a child.
    pub(in super::super) fn new(
        input: Arc<dyn ExecutionPlan>,
        watched: Option<Arc<dyn ExecutionPlan>>,
        options: Options,
        planning: Duration,
    ) -> Self {
        let properties = PlanProperties::new(
            EquivalenceProperties::new(schema()),
            Partitioning::UnknownPartitioning(1),
            EmissionType::Final,
            Boundedness::Bounded,
        );
        Self { input, watched, options, planning, properties: Arc::new(properties) }
    }
}

impl DisplayAs for ExplainExec {
    fn fmt_as(&self, _: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ExplainExec: {}", self.options)
    }
}

impl ExecutionPlan for ExplainExec {
    fn name(&self) -> &'static str {
        "ExplainExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
    }

    /// Without ANALYZE the explained plan is not run, and so is no child.
    fn children(&self) -> Vec<&Arc<dyn ExecutionPlan>> {
        if self.options.analyze { vec![&self.input] } else { vec![] }
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
        match (children.pop(), children.is_empty()) {
            (None, true) => Ok(self),
            (Some(input), true) if self.options.analyze => {
                let watched = self.watched.clone();
                Ok(Arc::new(Self::new(input, watched, self.options, self.planning)))
            }
            _ => internal_err!("an EXPLAIN has one plan"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        if partition != 0 {
            return internal_err!("an EXPLAIN has one partition, not {partition}");
        }
        let (input, watched) = (Arc::clone(&self.input), self.watched.clone());
        let (options, planning_nanos) = (self.options, nanos(self.planning));
        let shown = async move {
            let mut summary = Summary { planning_nanos, execution_nanos: None };
            if options.analyze {
                summary.execution_nanos = Some(nanos(run(&input, context).await?));
            }
            let root = tree(&input, watched.as_ref(), options);
            batch(&root, options, summary)
        };
        Ok(Box::pin(RecordBatchStreamAdapter::new(schema(), stream::once(shown))))
    }
}

/// Runs a plan to its end, drops its rows, and returns the time that it took.
async fn run(plan: &Arc<dyn ExecutionPlan>, context: Arc<TaskContext>) -> Result<Duration> {
    let began = Instant::now();
    let plan = match plan.output_partitioning().partition_count() {
        1 => Arc::clone(plan),
        _ => Arc::new(CoalescePartitionsExec::new(Arc::clone(plan))),
    };
    let mut rows = plan.execute(0, context)?;
    while let Some(batch) = rows.next().await {
        drop(batch?);
    }
    Ok(began.elapsed())
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// The tree of a plan, with `watched` as the input of a root that has none.
fn tree(
    plan: &Arc<dyn ExecutionPlan>,
    watched: Option<&Arc<dyn ExecutionPlan>>,
    options: Options,
) -> Operator {
    let mut root = described(plan, options);
    if let Some(watched) = watched.filter(|_| root.inputs.is_empty()) {
        root.inputs.push(described(watched, options));
    }
    root
}

fn batch(root: &Operator, options: Options, summary: Summary) -> Result<RecordBatch> {
    let lines = match options.format {
        Format::Text => text::written(root, options, summary),
        Format::Json => vec![json::written(root, options, summary)],
        Format::Svg => vec![svg::drawn(root, options, summary)],
    };
    Ok(RecordBatch::try_new(schema(), vec![Arc::new(StringArray::from(lines))])?)
}
