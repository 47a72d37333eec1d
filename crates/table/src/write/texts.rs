//! Conversion of texts to the stored form of their column's type: UUID, JSON, VARCHAR(n).

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::Field;
use datafusion::common::{DataFusionError, exec_datafusion_err};
use terrace_functions::columns::{Usage, conform};

use crate::error::SqlError;

/// Returns the values as they are stored in a column: checked and converted for its type. Their
/// Arrow type is already that of `field`.
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
