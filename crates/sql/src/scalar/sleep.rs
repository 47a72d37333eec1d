//! `pg_sleep(seconds)`: an asynchronous wait, which blocks no thread and ends early if the query is
//! cancelled.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use datafusion::arrow::array::{Array as _, AsArray as _, StringArray};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, internal_err};
use datafusion::logical_expr::async_udf::{AsyncScalarUDF, AsyncScalarUDFImpl};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

const NAME: &str = "pg_sleep";

/// The longest time that one call waits, a hundred years.
const SECONDS_MAX: f64 = 100.0 * 365.0 * 86_400.0;

/// Waits for a number of seconds, and returns an empty text, as clients show PostgreSQL's void.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Sleep {
    signature: Signature,
}

/// Returns the function.
pub(super) fn function() -> Arc<ScalarUDF> {
    let signature = Signature::exact(vec![DataType::Float64], Volatility::Volatile);
    Arc::new(AsyncScalarUDF::new(Arc::new(Sleep { signature })).into_scalar_udf())
}

impl ScalarUDFImpl for Sleep {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, _: ScalarFunctionArgs) -> Result<ColumnarValue> {
        internal_err!("{NAME} is called within a plan that waits")
    }
}

#[async_trait]
impl AsyncScalarUDFImpl for Sleep {
    async fn invoke_async_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let arrays = ColumnarValue::values_to_arrays(&args.args)?;
        let Some(seconds) = arrays.first() else { return internal_err!("{NAME} takes 1 value") };
        // A constant has one value for all rows, each of which waits.
        let rows = if seconds.len() == 1 { args.number_rows } else { seconds.len() };
        let seconds = seconds.as_primitive::<Float64Type>();
        let mut done = Vec::with_capacity(rows);
        for row in 0..rows {
            let place = if seconds.len() == 1 { 0 } else { row };
            let time = seconds.is_valid(place).then(|| seconds.value(place));
            if let Some(time) = time.filter(|time| *time > 0.0) {
                tokio::time::sleep(Duration::from_secs_f64(time.min(SECONDS_MAX))).await;
            }
            done.push(time.map(|_| ""));
        }
        Ok(ColumnarValue::Array(Arc::new(StringArray::from(done))))
    }
}
