//! Factories of accumulators, and the types of their states.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::logical_expr::GroupsAccumulator;

/// Key of the metadata of the fields of a state whose lists may be cut into pieces, each a state of
/// its own, and grow with their group.
pub const KEEPS_VALUES: &str = "terrace.keeps_values";

/// Creates accumulators of one aggregate of a query.
pub(super) type Factory = Arc<dyn Fn() -> Result<Box<dyn GroupsAccumulator>> + Send + Sync>;

/// Returns the type of lists of values.
pub(super) fn list_of(values: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(values, true)))
}
