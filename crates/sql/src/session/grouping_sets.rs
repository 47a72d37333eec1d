//! ORDER BY of aggregate functions over grouping sets.
//!
//! DataFusion treats the keys of GROUP BY as constant within a group, so the rows of an aggregate
//! function whose ORDER BY begins with one count as already ordered by it. A group of a grouping
//! set has only some of the keys, and the others vary within it.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TransformedResult as _, TreeNode as _};
use datafusion::physical_expr::aggregate::AggregateFunctionExpr;
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateInputMode};
use datafusion::physical_plan::{ExecutionPlan, ExecutionPlanProperties as _};

/// The rule of DataFusion after which this one runs: it lets aggregates use the order of their
/// input.
pub(super) const AFTER: &str = "OptimizeAggregateOrder";

/// Physical optimizer rule that makes aggregate functions over grouping sets sort their values,
/// unless the input satisfies their whole ORDER BY.
#[derive(Debug)]
pub(super) struct GroupingSetOrder;

impl PhysicalOptimizerRule for GroupingSetOrder {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let sorted = plan.transform_up(|node| {
            let Some(aggregate) = node.downcast_ref::<AggregateExec>() else {
                return Ok(Transformed::no(node));
            };
            let is_raw = aggregate.mode().input_mode() == AggregateInputMode::Raw;
            if !is_raw || !aggregate.group_expr().has_grouping_set() {
                return Ok(Transformed::no(node));
            }
            let functions = aggregate.aggr_expr().iter();
            let functions = functions.map(|function| in_own_order(function, aggregate.input()));
            let functions = functions.collect::<Result<Vec<_>>>()?;
            Ok(Transformed::yes(Arc::new(aggregate.with_new_aggr_exprs(functions)) as _))
        });
        sorted.data()
    }

    fn name(&self) -> &str {
        "GroupingSetOrder"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

fn in_own_order(
    function: &Arc<AggregateFunctionExpr>,
    input: &Arc<dyn ExecutionPlan>,
) -> Result<Arc<AggregateFunctionExpr>> {
    let order = function.order_bys();
    if order.is_empty() || !function.order_sensitivity().is_beneficial() {
        return Ok(Arc::clone(function));
    }
    let comes = input.equivalence_properties().ordering_satisfy(order.iter().cloned())?;
    let changed = Arc::clone(function).with_beneficial_ordering(comes)?;
    Ok(changed.map_or_else(|| Arc::clone(function), Arc::new))
}
