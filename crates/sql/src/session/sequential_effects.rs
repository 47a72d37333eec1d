//! A physical optimizer rule that keeps functions with side effects in the order of their rows.
//!
//! DataFusion distributes the rows of one partition over several ones (round robin) below a
//! projection that computes expressions. Sorted rows would then get the numbers of a sequence in
//! another order. The rule removes such a repartitioning.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::physical_expr::{Partitioning, PhysicalExpr, ScalarFunctionExpr};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::projection::ProjectionExec;
use datafusion::physical_plan::repartition::RepartitionExec;
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties as _};

use super::side_effects::is_one;

/// The physical optimizer rule.
#[derive(Debug)]
pub(super) struct SequentialEffects;

impl PhysicalOptimizerRule for SequentialEffects {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        plan.transform_up(in_one_partition).data()
    }

    fn name(&self) -> &str {
        "sequential_effects"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn in_one_partition(plan: Arc<dyn ExecutionPlan>) -> Result<Transformed<Arc<dyn ExecutionPlan>>> {
    let Some(projection) = plan.downcast_ref::<ProjectionExec>() else {
        return Ok(Transformed::no(plan));
    };
    let Some(dealt) = projection.input().downcast_ref::<RepartitionExec>() else {
        return Ok(Transformed::no(plan));
    };
    let is_of_one = matches!(dealt.partitioning(), Partitioning::RoundRobinBatch(_))
        && dealt.input().output_partitioning().partition_count() == 1;
    if !is_of_one || !projection.expr().iter().any(|column| calls(&column.expr)) {
        return Ok(Transformed::no(plan));
    }
    let input = Arc::clone(dealt.input());
    let projection = ProjectionExec::try_new(projection.expr().to_vec(), input)?;
    Ok(Transformed::yes(Arc::new(projection)))
}

/// True if an expression calls a function with side effects.
fn calls(expr: &Arc<dyn PhysicalExpr>) -> bool {
    let own = expr.downcast_ref::<ScalarFunctionExpr>();
    own.is_some_and(|call| is_one(call.fun().name())) || expr.children().into_iter().any(calls)
}
