//! The table of a series of timestamps or decimals.

use std::iter;
use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::{Result, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::col;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::stream;
use terrace_functions::lists::Series;

/// Name of the column, as in DataFusion.
const COLUMN: &str = "value";

/// Returns the table of the call of `name` with `values`, as [`Series::new`] takes them. With
/// `includes_stop`, the second value belongs to the series. Days and months of instants are those
/// of `zone`.
///
/// # Errors
/// As [`Series::new`].
pub(super) fn table(
    name: &str,
    values: &[ScalarValue],
    includes_stop: bool,
    zone: Tz,
) -> Result<StreamingTable> {
    let of = values.first().map_or(DataType::Null, ScalarValue::data_type);
    let schema = Arc::new(Schema::new(vec![Field::new(COLUMN, of, false)]));
    let series = Series::new(name, values, includes_stop, zone)?;
    let order = series.as_ref().map(|series| col(COLUMN).sort(!series.is_descending(), false));
    let values = Values { series, schema: Arc::clone(&schema) };
    let table = StreamingTable::try_new(schema, vec![Arc::new(values)])?;
    Ok(table.with_sort_order(order.into_iter().collect()))
}

/// The values of a series, as the column of a table.
#[derive(Debug)]
struct Values {
    /// `None` for the series of a null, which has no rows.
    series: Option<Series>,
    schema: SchemaRef,
}

impl PartitionStream for Values {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, context: Arc<TaskContext>) -> SendableRecordBatchStream {
        let (schema, rows) = (Arc::clone(&self.schema), context.session_config().batch_size());
        let mut series = self.series.clone();
        let batches = iter::from_fn(move || {
            let values = match series.as_mut()?.take(rows) {
                Ok(values) if values.is_empty() => return None,
                Ok(values) => values,
                Err(error) => {
                    series = None;
                    return Some(Err(error));
                }
            };
            Some(RecordBatch::try_new(Arc::clone(&schema), vec![values]).map_err(Into::into))
        });
        let batches = stream::iter(batches);
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), batches))
    }
}
