//! Aggregation of ordered lists in one stage.
//!
//! `array_agg` and `string_agg` with ORDER BY keep every value of a group and its sort keys.
//! DataFusion aggregates each partition of the input, passes these states on, and merges them on
//! the heap, at 150 bytes a row and more. Two stages save nothing where there are as many states as
//! rows. In one stage the rows are sorted, in pages, and the aggregation appends values as they
//! come: it holds nothing but the result.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::{Transformed, TreeNode as _};
use datafusion::physical_optimizer::PhysicalOptimizerRule;
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::aggregates::{AggregateExec, AggregateMode};

use crate::aggregate::is_ordered_list;

/// Optimizer rule that merges the two stages that aggregate ordered lists into one. It runs before
/// all rules that add orders or partitions, and before [`AnyOrder`](crate::AnyOrder).
#[derive(Debug, Default)]
pub struct OrderedLists;

impl PhysicalOptimizerRule for OrderedLists {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        _: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let plan = plan.transform_up(|node| {
            let stages = node.downcast_ref::<AggregateExec>().and_then(two_stages);
            Ok(match stages {
                Some((mode, partial)) => Transformed::yes(one_stage(mode, partial)?),
                None => Transformed::no(node),
            })
        });
        Ok(plan?.data)
    }

    fn name(&self) -> &str {
        "OrderedLists"
    }

    fn schema_check(&self) -> bool {
        true
    }
}

/// Returns the first of two stages that aggregate an ordered list, and the mode of the stage that
/// replaces them.
fn two_stages(last: &AggregateExec) -> Option<(AggregateMode, &AggregateExec)> {
    let first = last.input().downcast_ref::<AggregateExec>()?;
    if *first.mode() != AggregateMode::Partial {
        return None;
    }
    let mode = match last.mode() {
        // Rows are partitioned by all their keys, of which a grouping set has only some. The last
        // stage has the number of the set as one more key, and no sets itself.
        AggregateMode::FinalPartitioned if !first.group_expr().has_grouping_set() => {
            AggregateMode::SinglePartitioned
        }
        AggregateMode::Final | AggregateMode::FinalPartitioned => AggregateMode::Single,
        _ => return None,
    };
    let lists = first.aggr_expr().iter().any(|function| is_ordered_list(function));
    lists.then_some((mode, first))
}

fn one_stage(mode: AggregateMode, first: &AggregateExec) -> Result<Arc<dyn ExecutionPlan>> {
    Ok(Arc::new(AggregateExec::try_new(
        mode,
        first.group_expr().clone(),
        first.aggr_expr().to_vec(),
        first.filter_expr().to_vec(),
        Arc::clone(first.input()),
        first.input_schema(),
    )?))
}
