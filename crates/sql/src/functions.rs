//! SQL functions of sessions that extend or replace DataFusion's.

use std::sync::{Arc, LazyLock, OnceLock};

use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF};
use terrace_exec::functions::aggregates;
use terrace_functions::aggregates::Spellings;
use terrace_functions::json::JsonOperators;
use terrace_functions::{IntegerQuotients, IntervalOperators, LiteralOperands};

use crate::session::quotients::DecimalQuotients;

/// Functions that do not depend on the session: they are created once for all sessions.
struct Functions {
    aggregates: Vec<Arc<AggregateUDF>>,
    scalars: Vec<Arc<ScalarUDF>>,
    rewrites: Vec<Arc<dyn FunctionRewrite + Send + Sync>>,
    higher_order: Vec<Arc<HigherOrderUDF>>,
}

static FUNCTIONS: LazyLock<Functions> = LazyLock::new(|| Functions {
    aggregates: aggregates().into_iter().chain(terrace_functions::aggregates()).collect(),
    scalars: terrace_functions::scalars(),
    rewrites: terrace_functions::rewrites(),
    higher_order: terrace_functions::higher_order(),
});

/// Functions and a planner that are built from the registered aggregate functions, which are the
/// same in every session, so once for all sessions.
struct OfAggregates {
    of_lists: Vec<Arc<ScalarUDF>>,
    spellings: Arc<Spellings>,
}

static OF_AGGREGATES: OnceLock<OfAggregates> = OnceLock::new();

fn of_aggregates(state: &SessionState) -> Result<&'static OfAggregates> {
    if let Some(known) = OF_AGGREGATES.get() {
        return Ok(known);
    }
    let of_lists = terrace_functions::lists::aggregates(state.aggregate_functions());
    let spellings = Arc::new(Spellings::new(state)?);
    Ok(OF_AGGREGATES.get_or_init(|| OfAggregates { of_lists, spellings }))
}

/// Registers the functions that DataFusion lacks or computes differently, and the planner of other
/// names of aggregate functions.
///
/// # Errors
/// Those of the registry.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    let Functions { aggregates, scalars, rewrites, higher_order } = &*FUNCTIONS;
    for function in aggregates {
        state.register_udaf(Arc::clone(function))?;
    }
    for function in scalars {
        state.register_udf(Arc::clone(function))?;
    }
    for function in terrace_functions::checked(state.scalar_functions()) {
        state.register_udf(function)?;
    }
    for rewrite in rewrites {
        state.register_function_rewrite(Arc::clone(rewrite))?;
    }
    for function in higher_order {
        state.register_higher_order_function(Arc::clone(function))?;
    }
    let OfAggregates { of_lists, spellings } = of_aggregates(state)?;
    for function in of_lists {
        state.register_udf(Arc::clone(function))?;
    }
    state.register_expr_planner(Arc::new(LiteralOperands))?;
    state.register_expr_planner(Arc::new(JsonOperators))?;
    state.register_expr_planner(Arc::new(IntegerQuotients))?;
    state.register_expr_planner(Arc::new(IntervalOperators))?;
    // After those that change operands.
    state.register_expr_planner(Arc::new(DecimalQuotients))?;
    state.register_expr_planner(Arc::clone(spellings) as _)
}

#[cfg(test)]
mod tests {
    #[test]
    fn states_are_marked_as_the_operator_expects() {
        let ours = terrace_functions::aggregates::KEEPS_VALUES;
        assert_eq!(ours, terrace_exec::aggregate::KEEPS_VALUES);
    }
}
