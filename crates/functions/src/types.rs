//! Functions of values of any type: their types, nulls, sizes and identifiers.

mod branch;
mod coalesce;
mod hash;
mod names;
mod nulls;
mod sizes;
mod uuid;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

use crate::scalar::functions;
pub use names::postgres_type;

/// Returns the functions of values of any type.
pub(crate) fn scalars() -> Vec<Arc<ScalarUDF>> {
    let all =
        [hash::FUNCTIONS, names::FUNCTIONS, nulls::FUNCTIONS, sizes::FUNCTIONS, uuid::FUNCTIONS];
    all.into_iter().flat_map(functions).chain([branch::function(), coalesce::function()]).collect()
}
