//! Functions of sessions beside and in place of DataFusion's.

use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use terrace_exec::functions::aggregates;

/// Registers the aggregate functions whose answers are other than DataFusion's.
///
/// # Errors
/// Those of the registry.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for function in aggregates() {
        state.register_udaf(function)?;
    }
    Ok(())
}
