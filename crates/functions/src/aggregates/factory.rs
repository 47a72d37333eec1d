//! Factories of accumulators, and the types of their states.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::Result;
use datafusion::logical_expr::GroupsAccumulator;

/// Key of field metadata: it is set on state fields that are lists of the group's values, which may
/// be cut into pieces, each a state of its own.
pub const KEEPS_VALUES: &str = "terrace.keeps_values";

/// Function that creates the accumulators of one aggregate of a query.
pub(super) type Factory = Arc<dyn Fn() -> Result<Box<dyn GroupsAccumulator>> + Send + Sync>;

/// Returns the type of lists of values.
pub(super) fn list_of(values: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(values, true)))
}
