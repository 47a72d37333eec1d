//! Texts as values of the types of their columns: UUID, JSON, VARCHAR(n).

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::Field;
use datafusion::common::{DataFusionError, exec_datafusion_err};
use terrace_functions::columns::{Usage, conform};

use crate::error::SqlError;

/// Returns the values that are stored for those of a column, which have its type's layout.
///
/// # Errors
/// For a text that is no value of the column's type.
pub(super) fn stored(values: &ArrayRef, field: &Field) -> Result<ArrayRef, SqlError> {
    conform(values, field, Usage::Assignment).map_err(|error| {
        SqlError::DataFusion(match error {
            DataFusionError::Execution(text) => {
                exec_datafusion_err!("column {}: {text}", field.name())
            }
            other => other,
        })
    })
}
