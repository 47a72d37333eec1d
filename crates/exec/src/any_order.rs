//! Optimizer rule that hides orders which DataFusion wrongly derives for grouping sets and for
//! outer joins with constants.
//!
//! DataFusion assumes that the properties of an aggregation's input (order of rows, constant
//! columns, hash partitions) hold for its output too. For grouping sets that is wrong: a set
//! without a key returns null for it. A sort by a key that is `5` or null was omitted, and null
//! groups were created in several partitions. The same holds for a constant column on the
//! null-padded side of an outer join: a sort by it was omitted. An [`AnyOrderExec`] above declares
//! no such property, and passes batches through.

use std::fmt;
use std::sync::Arc;

use datafusion::common::JoinType;
use datafusion::common::config::ConfigOptions;
use datafusion::common::stats::Statistics;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::joins::{HashJoinExec, NestedLoopJoinExec, SortMergeJoinExec};
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
    StatisticsArgs,
};

/// Plan node that passes batches through and declares no order of them; see the [module](self).
#[derive(Debug)]
pub struct AnyOrderExec {
    input: Arc<dyn ExecutionPlan>,
    keeps_partitions: bool,
    properties: Arc<PlanProperties>,
}

impl AnyOrderExec {
    /// Creates a node above `input` without any order; partitioning is kept only if
    /// `keeps_partitions`.
    fn over(input: Arc<dyn ExecutionPlan>, keeps_partitions: bool) -> Self {
        let partitions = input.output_partitioning();
        let partitions = match keeps_partitions {
            true => partitions.clone(),
            false => Partitioning::UnknownPartitioning(partitions.partition_count()),
        };
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            partitions,
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self { input, keeps_partitions, properties: Arc::new(properties) }
    }
}

impl DisplayAs for AnyOrderExec {
    fn fmt_as(&self, kind: DisplayFormatType, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match kind {
            DisplayFormatType::TreeRender => Ok(()),
            _ => f.write_str("AnyOrderExec"),
        }
    }
}

impl ExecutionPlan for AnyOrderExec {
    fn name(&self) -> &'static str {
        "AnyOrderExec"
    }

    fn properties(&self) -> &Arc<PlanProperties> {
        &self.properties
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

    fn benefits_from_input_partitioning(&self) -> Vec<bool> {
        vec![false]
    }

    fn with_new_children(
        self: Arc<Self>,
        mut children: Vec<Arc<dyn ExecutionPlan>>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        match (children.pop(), children.len()) {
            (Some(input), 0) => Ok(Arc::new(Self::over(input, self.keeps_partitions))),
            _ => internal_err!("AnyOrderExec has one input"),
        }
    }

    fn execute(
        &self,
        partition: usize,
        context: Arc<TaskContext>,
    ) -> Result<SendableRecordBatchStream> {
        self.input.execute(partition, context)
    }

    fn statistics_from_inputs(
        &self,
        inputs: &[Arc<Statistics>],
        _: &StatisticsArgs,
    ) -> Result<Arc<Statistics>> {
        match inputs {
            [input] => Ok(Arc::clone(input)),
            _ => internal_err!("AnyOrderExec has one input"),
        }
    }
}

/// Optimizer rule that puts an [`AnyOrderExec`] above every aggregation of grouping sets, and above
/// every outer join whose null-padded side has constant columns. It runs before all rules that add
/// orders.
#[derive(Debug, Default)]
pub struct AnyOrder;

impl PhysicalOptimizerRule for AnyOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|node| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            let has_grouping_sets = aggregate.is_some_and(|it| it.group_expr().has_grouping_set());
            let keeps_partitions = loses_constants(node.as_ref());
            Ok(match has_grouping_sets || keeps_partitions {
                true => Transformed::yes(Arc::new(AnyOrderExec::over(node, keeps_partitions)) as _),
                false => Transformed::no(node),
            })
        });
        Ok(plan?.data)
    }

    fn name(&self) -> &str {
        "AnyOrder"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns true for an outer join that pads a side with constant columns with nulls.
fn loses_constants(node: &dyn ExecutionPlan) -> bool {
    let join_type = if let Some(join) = node.downcast_ref::<HashJoinExec>() {
        *join.join_type()
    } else if let Some(join) = node.downcast_ref::<NestedLoopJoinExec>() {
        *join.join_type()
    } else if let Some(join) = node.downcast_ref::<SortMergeJoinExec>() {
        join.join_type()
    } else {
        return false;
    };
    let gives_nulls = match join_type {
        JoinType::Left => [false, true],
        JoinType::Right => [true, false],
        JoinType::Full => [true, true],
        _ => return false,
    };
    let has_constants =
        |side: &Arc<dyn ExecutionPlan>| !side.equivalence_properties().constants().is_empty();
    node.children().into_iter().zip(gives_nulls).any(|(side, gives)| gives && has_constants(side))
}
