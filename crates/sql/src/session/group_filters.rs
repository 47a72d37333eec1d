//! Filter pushdown, except for filters that must stay above an aggregation.
//!
//! DataFusion pushes a filter below an aggregation if it reads only grouping columns. That includes
//! a filter that reads no column at all, but an aggregation without groups, and one of grouping
//! sets, returns a row even for no input: `SELECT n FROM (SELECT count(*) AS n, 1 AS k FROM t)
//! WHERE k = 2` would return 0. And a volatile filter, such as `random() < 0.5`, would drop rows of
//! groups instead of groups.
//!
//! A filter also stays above outer rows that are evaluated once and shared by several places of the
//! plan (`unnest`): pushed below, it would filter the rows of one place only.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::logical_plan::{Aggregate, Filter};
use datafusion::logical_expr::utils::{conjunction, split_conjunction_owned};
use datafusion::logical_expr::{Expr, LogicalPlan};
use datafusion::optimizer::push_down_filter::PushDownFilter as Stock;
use datafusion::optimizer::{ApplyOrder, OptimizerConfig, OptimizerRule};

use super::unnest::is_once;

/// Optimizer rule that replaces DataFusion's `PushDownFilter`.
#[derive(Debug, Default)]
pub(super) struct PushDownFilter {
    stock: Stock,
}

impl OptimizerRule for PushDownFilter {
    fn name(&self) -> &str {
        self.stock.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.stock.apply_order()
    }

    fn supports_rewrite(&self) -> bool {
        true
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        let LogicalPlan::Filter(filter) = &plan else { return self.stock.rewrite(plan, config) };
        if is_once(&filter.input) {
            return Ok(Transformed::no(plan));
        }
        let LogicalPlan::Aggregate(aggregate) = filter.input.as_ref() else {
            return self.stock.rewrite(plan, config);
        };
        let conditions = split_conjunction_owned(filter.predicate.clone());
        let stays = |condition: &Expr| stays_above(condition, aggregate);
        let (staying, rest): (Vec<_>, Vec<_>) = conditions.into_iter().partition(stays);
        let Some(staying) = conjunction(staying) else { return self.stock.rewrite(plan, config) };
        let Some(rest) = conjunction(rest) else { return Ok(Transformed::no(plan)) };
        let below = Filter::try_new(rest, Arc::clone(&filter.input))?;
        let below = self.stock.rewrite(LogicalPlan::Filter(below), config)?;
        if !below.transformed {
            return Ok(Transformed::no(plan));
        }
        below.map_data(|below| Ok(LogicalPlan::Filter(Filter::try_new(staying, Arc::new(below))?)))
    }
}

fn stays_above(condition: &Expr, aggregate: &Aggregate) -> bool {
    let is_of_groups = !matches!(aggregate.group_expr.as_slice(), [] | [Expr::GroupingSet(_)]);
    condition.is_volatile() || (!is_of_groups && condition.column_refs().is_empty())
}
