//! The table of a series of timestamps or decimals.

use std::iter;
use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::streaming::StreamingTable;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::simplify::SimplifyContext;
use datafusion::logical_expr::{Expr, col};
use datafusion::optimizer::simplify_expressions::ExprSimplifier;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::PartitionStream;
use futures::stream;
use terrace_functions::lists::{Series, series_types};

use crate::scalar::MomentOfText;

/// Name of the column, as in DataFusion.
const COLUMN: &str = "value";

/// Returns the arguments of a call of `name` with literals, cast to the types of a series of
/// timestamps or decimals; `None` for a call that is neither.
///
/// # Errors
/// If a text is none of those types, or `name` does not take such arguments.
pub(super) fn arguments(
    name: &str,
    exprs: &[Expr],
    zone: &str,
) -> Result<Option<Vec<ScalarValue>>> {
    let literals = exprs.iter().map(|expr| match expr {
        Expr::Literal(value, _) => Some(value),
        _ => None,
    });
    let Some(literals) = literals.collect::<Option<Vec<_>>>() else { return Ok(None) };
    let given: Vec<_> = literals.iter().map(|value| value.data_type()).collect();
    let Some(types) = series_types(name, &given)? else { return Ok(None) };
    let values = literals.into_iter().zip(&types).map(|(value, to)| converted(value, to, zone));
    Ok(Some(values.collect::<Result<_>>()?))
}

/// The value as one of the type `to`. A text of an instant is a local time of `zone`.
fn converted(value: &ScalarValue, to: &DataType, zone: &str) -> Result<ScalarValue> {
    if !MomentOfText::is_needed(&value.data_type(), to) {
        return value.cast_to(to);
    }
    let own = match to {
        DataType::Timestamp(unit, Some(_)) => DataType::Timestamp(*unit, Some(zone.into())),
        other => other.clone(),
    };
    let text = Expr::Literal(value.clone(), None);
    let text = MomentOfText::function(to, false).call(vec![text]);
    let simplifier = ExprSimplifier::new(SimplifyContext::builder().build());
    match simplifier.simplify(simplifier.coerce(text, &DFSchema::empty())?)? {
        Expr::Literal(text, _) => text.cast_to(&own)?.cast_to(to),
        // The function fails; so does the cast of the text that was given.
        _ => value.cast_to(&own)?.cast_to(to),
    }
}

/// Returns the table of the call of `name` with the values of [`arguments`]. With `includes_stop`,
/// the second value is one of the series. Days and months of instants are those of `zone`.
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
