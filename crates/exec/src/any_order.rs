//! The rows of grouping sets, in no known order.
//!
//! DataFusion takes what it knows of an aggregation's input - the order of rows, columns of one
//! value, partitions by hash - for its output too. Of grouping sets that is not so: a set without a
//! key returns null for it. A sort by a key that is `5` or null was left out, and groups of null
//! were made in several partitions. An [`AnyOrderExec`] above the aggregation says that nothing is
//! known, and hands on its batches.

use std::fmt;
use std::sync::Arc;

use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _, TreeNodeRecursion};
use datafusion::common::{Result, internal_err};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::physical_expr::{EquivalenceProperties, Partitioning, PhysicalExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::AggregateExec;
use datafusion::physical_plan::{
    DisplayAs, DisplayFormatType, ExecutionPlan, ExecutionPlanProperties, PlanProperties,
};

/// Hands batches on; see the [module](self).
#[derive(Debug)]
pub struct AnyOrderExec {
    input: Arc<dyn ExecutionPlan>,
    properties: Arc<PlanProperties>,
}

impl AnyOrderExec {
    /// A node above `input`.
    #[must_use]
    pub fn new(input: Arc<dyn ExecutionPlan>) -> Self {
        let partitions = input.output_partitioning().partition_count();
        let properties = PlanProperties::new(
            EquivalenceProperties::new(input.schema()),
            Partitioning::UnknownPartitioning(partitions),
            input.pipeline_behavior(),
            input.boundedness(),
        );
        Self { input, properties: Arc::new(properties) }
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
            (Some(input), 0) => Ok(Arc::new(Self::new(input))),
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
}

/// Puts an [`AnyOrderExec`] above every aggregation of grouping sets. It runs before all rules that
/// ask for orders.
#[derive(Debug, Default)]
pub struct GroupingSetOrder;

impl PhysicalOptimizerRule for GroupingSetOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|node| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            Ok(match aggregate.is_some_and(|it| it.group_expr().has_grouping_set()) {
                true => Transformed::yes(Arc::new(AnyOrderExec::new(node)) as _),
                false => Transformed::no(node),
            })
        });
        Ok(plan?.data)
    }

    fn name(&self) -> &str {
        "GroupingSetOrder"
    }

    fn schema_check(&self) -> bool {
        true
    }
}
