//! A physical optimizer rule that drops the limits of aggregations that cannot apply them.
//!
//! DataFusion hands the LIMIT above a DISTINCT to its aggregation, which then returns as soon as it
//! has as many groups. That is an optimization: the LIMIT stays above. If a later rule gives the
//! aggregation's input an order, such as that of a column which a filter has made constant, the
//! aggregation takes the limit for that of a top-k, and fails for lack of a direction.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::AggregateExec;

/// The optimizer rule. It runs after all rules of DataFusion.
#[derive(Debug)]
pub(super) struct SoftLimits;

impl PhysicalOptimizerRule for SoftLimits {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let without = plan.transform_up(|node| {
            let aggregate = node.downcast_ref::<AggregateExec>();
            Ok(match aggregate.filter(|aggregate| !applies_limit(aggregate)) {
                Some(aggregate) => {
                    Transformed::yes(Arc::new(aggregate.with_new_limit_options(None)) as _)
                }
                None => Transformed::no(node),
            })
        });
        without.data()
    }

    fn name(&self) -> &str {
        "SoftLimits"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// True for an aggregation without a limit, and for one that can apply its own.
fn applies_limit(aggregate: &AggregateExec) -> bool {
    aggregate.limit_options().is_none_or(|limit| {
        limit.descending().is_some() || aggregate.is_unordered_unfiltered_group_by_distinct()
    })
}
