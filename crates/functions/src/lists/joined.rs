//! `array_to_string`, with elements written as a cast to text writes them.

use std::sync::Arc;

use datafusion::common::Result;
use datafusion::functions_nested::string::array_to_string_udf;
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};

use crate::checked::{Checked, rows};
use crate::columns::displayed_values;
use crate::dates::session_zone;

/// Returns the functions.
pub(super) fn functions() -> [Arc<ScalarUDF>; 1] {
    [Checked::changing(array_to_string_udf(), with_texts)]
}

/// Replaces timestamps, intervals and bytes of the lists by their texts. DataFusion writes a
/// timestamp with a `T`.
fn with_texts(mut args: ScalarFunctionArgs) -> Result<ScalarFunctionArgs> {
    let zone = session_zone(&args.config_options)?;
    let count = rows(&args);
    if let Some(lists) = args.args.first_mut() {
        let given = lists.to_array(count)?;
        let texts = displayed_values(&given, zone)?;
        if texts.data_type() != given.data_type() {
            *lists = ColumnarValue::Array(texts);
        }
    }
    Ok(args)
}
