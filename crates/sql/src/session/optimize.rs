//! Optimization of a logical plan.

use datafusion::common::DataFusionError;
use datafusion::execution::SessionState;
use datafusion::logical_expr::LogicalPlan;
use datafusion::optimizer::Analyzer;

use super::guards;

/// Optimizes a plan. DataFusion's method of the same purpose takes the plan by reference, so that
/// the first rule that changes a node copies it.
///
/// # Errors
/// Those of the rules.
pub(super) fn optimized(
    state: &SessionState,
    plan: LogicalPlan,
) -> Result<LogicalPlan, DataFusionError> {
    if let LogicalPlan::Explain(_) = plan {
        return state.optimize(&plan);
    }
    let (options, all) = (state.config_options(), state.analyzer());
    // The rewrites of calls copy the plan, also if there are no calls.
    let analyzed = match guards::has_any(&plan, guards::has_call)? {
        true => all.execute_and_check(plan, options, |_, _| {})?,
        false => {
            Analyzer::with_rules(all.rules.clone()).execute_and_check(plan, options, |_, _| {})?
        }
    };
    state.optimizer().optimize(analyzed, state, |_, _| {})
}
