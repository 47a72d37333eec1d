//! Planner rules that fail once their statement is cancelled: each checks this when it is called.
//! DataFusion calls optimizer rules with an order for each node of a plan.

use std::fmt;
use std::sync::Arc;

use datafusion::common::Result;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::optimizer::ApplyOrder;
use datafusion::optimizer::{AnalyzerRule, OptimizerConfig, OptimizerRule};
use datafusion::physical_optimizer::{PhysicalOptimizerContext, PhysicalOptimizerRule};
use datafusion::physical_plan::ExecutionPlan;

use crate::interrupt;

type Logical = dyn OptimizerRule + Send + Sync;
type Analysis = dyn AnalyzerRule + Send + Sync;
type Physical = dyn PhysicalOptimizerRule + Send + Sync;

/// A rule that first checks that its statement is not cancelled.
struct Checked<R: ?Sized>(Arc<R>);

/// Wraps optimizer rules so that they fail once their statement is cancelled.
pub(super) fn logical(rules: Vec<Arc<Logical>>) -> Vec<Arc<Logical>> {
    rules.into_iter().map(|rule| Arc::new(Checked(rule)) as _).collect()
}

/// Wraps analyzer rules so that they fail once their statement is cancelled.
pub(super) fn analyzer(rules: Vec<Arc<Analysis>>) -> Vec<Arc<Analysis>> {
    rules.into_iter().map(|rule| Arc::new(Checked(rule)) as _).collect()
}

/// Wraps physical optimizer rules so that they fail once their statement is cancelled.
pub(super) fn physical(rules: Vec<Arc<Physical>>) -> Vec<Arc<Physical>> {
    rules.into_iter().map(|rule| Arc::new(Checked(rule)) as _).collect()
}

impl<R: fmt::Debug + ?Sized> fmt::Debug for Checked<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl OptimizerRule for Checked<Logical> {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn apply_order(&self) -> Option<ApplyOrder> {
        self.0.apply_order()
    }

    fn rewrite(
        &self,
        plan: LogicalPlan,
        config: &dyn OptimizerConfig,
    ) -> Result<Transformed<LogicalPlan>> {
        interrupt::check()?;
        self.0.rewrite(plan, config)
    }
}

impl AnalyzerRule for Checked<Analysis> {
    fn analyze(&self, plan: LogicalPlan, config: &ConfigOptions) -> Result<LogicalPlan> {
        interrupt::check()?;
        self.0.analyze(plan, config)
    }

    fn name(&self) -> &str {
        self.0.name()
    }
}

impl PhysicalOptimizerRule for Checked<Physical> {
    fn optimize(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        config: &ConfigOptions,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        interrupt::check()?;
        self.0.optimize(plan, config)
    }

    fn optimize_with_context(
        &self,
        plan: Arc<dyn ExecutionPlan>,
        context: &dyn PhysicalOptimizerContext,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        interrupt::check()?;
        self.0.optimize_with_context(plan, context)
    }

    fn name(&self) -> &str {
        self.0.name()
    }

    fn schema_check(&self) -> bool {
        self.0.schema_check()
    }
}
