//! SQL functions of sessions that extend or replace DataFusion's.

use datafusion::common::Result;
use datafusion::execution::{FunctionRegistry, SessionState};
use terrace_exec::functions::aggregates;

/// Registers the aggregate functions whose results differ from DataFusion's.
///
/// # Errors
/// Those of the registry.
pub(crate) fn register(state: &mut SessionState) -> Result<()> {
    for function in aggregates() {
        state.register_udaf(function)?;
    }
    Ok(())
}
