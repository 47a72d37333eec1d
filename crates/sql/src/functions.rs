//! SQL functions of sessions that extend or replace DataFusion's.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use terrace_exec::functions::aggregates;
use terrace_functions::aggregates::Spellings;
use terrace_functions::json::JsonOperators;
use terrace_functions::lists::ListOperators;

/// Registers the aggregate functions whose results differ from DataFusion's or that it lacks, and
/// the planner of their other names.
///
/// # Errors
/// Those of the registry.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for function in aggregates().into_iter().chain(terrace_functions::aggregates()) {
        state.register_udaf(function)?;
    }
    for function in terrace_functions::scalars() {
        state.register_udf(function)?;
    }
    for rewrite in terrace_functions::rewrites() {
        state.register_function_rewrite(rewrite)?;
    }
    for function in terrace_functions::higher_order() {
        state.register_higher_order_function(function)?;
    }
    for function in terrace_functions::lists::aggregates(state.aggregate_functions()) {
        state.register_udf(function)?;
    }
    state.register_expr_planner(Arc::new(JsonOperators))?;
    state.register_expr_planner(Arc::new(ListOperators))?;
    let spellings = Spellings::new(state)?;
    state.register_expr_planner(Arc::new(spellings))
}

#[cfg(test)]
mod tests {
    #[test]
    fn states_are_marked_as_the_operator_expects() {
        let ours = terrace_functions::aggregates::KEEPS_VALUES;
        assert_eq!(ours, terrace_exec::aggregate::KEEPS_VALUES);
    }
}
