//! Functions of structs and maps.

mod extract;
mod insert;
mod map;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

/// Returns the functions.
pub(crate) fn scalars() -> Vec<Arc<ScalarUDF>> {
    vec![
        insert::StructInsert::function(false),
        insert::StructInsert::function(true),
        map::MapFromEntries::function(),
        extract::MapExtract::function(),
    ]
}
