//! `date_bin`.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, TimestampMicrosecondArray};
use datafusion::arrow::datatypes::{
    DataType, Field, IntervalMonthDayNanoType, IntervalUnit, TimeUnit, TimestampMicrosecondType,
};
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::functions::datetime;
use datafusion::logical_expr::{ScalarFunctionArgs, ScalarUDF};

use super::bucket::bucket;
use super::moment::{local, micros};
use crate::adapter::{Scalar, columns, function};

/// The origin of bins without one of their own, in microseconds since 1970.
const ORIGIN_MICROS: i64 = 0;

/// `date_bin(width, time, origin)`, as in PostgreSQL. DataFusion computes in nanoseconds, which end
/// in 2262; it bins times of day.
#[derive(Debug)]
struct Bin {
    times: Arc<ScalarUDF>,
}

/// Returns the function.
pub(super) fn date_bin() -> Arc<ScalarUDF> {
    function(Bin { times: datetime::date_bin() })
}

impl Scalar for Bin {
    fn name(&self) -> &'static str {
        "date_bin"
    }

    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    fn coerce(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let (width, moments) = match given {
            [width, moments @ ..] if matches!(moments.len(), 1 | 2) => (width, moments),
            _ => return plan_err!("date_bin takes a width, a timestamp and an origin"),
        };
        if !matches!(width, DataType::Interval(_) | DataType::Duration(_) | DataType::Null)
            && !width.is_string()
        {
            return plan_err!("the width of date_bin is an interval, not {width}");
        }
        let to = match moments.iter().find(|of| !of.is_null() && !of.is_string()) {
            Some(DataType::Timestamp(_, zone)) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            Some(DataType::Date32 | DataType::Date64) | None => {
                DataType::Timestamp(TimeUnit::Microsecond, None)
            }
            Some(DataType::Time32(_) | DataType::Time64(_)) => {
                DataType::Time64(TimeUnit::Nanosecond)
            }
            Some(other) => return plan_err!("date_bin takes a timestamp, not {other}; cast it"),
        };
        let mut types = vec![DataType::Interval(IntervalUnit::MonthDayNano)];
        types.extend(moments.iter().map(|_| to.clone()));
        Ok(types)
    }

    fn field(&self, given: &[DataType], _: &[Option<&ScalarValue>]) -> Result<Field> {
        let types = self.coerce(given)?;
        Ok(Field::new(self.name(), types[1].clone(), true))
    }

    fn run(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let arguments = columns(args, rows)?;
        if matches!(arguments[1].data_type(), DataType::Time64(_)) {
            let args = ScalarFunctionArgs { number_rows: rows, ..args.clone() };
            return self.times.invoke_with_args(args)?.into_array(rows);
        }
        let widths = arguments[0].as_primitive::<IntervalMonthDayNanoType>();
        let moments = arguments[1].as_primitive::<TimestampMicrosecondType>();
        let origins = arguments.get(2).map(|it| it.as_primitive::<TimestampMicrosecondType>());
        let bins = (0..rows).map(|row| {
            let is_null = widths.is_null(row)
                || moments.is_null(row)
                || origins.is_some_and(|origins| origins.is_null(row));
            if is_null {
                return Ok(None);
            }
            let origin = origins.map_or(ORIGIN_MICROS, |origins| origins.value(row));
            let moment = local(moments.value(row))?;
            Ok(Some(micros(bucket(self.name(), widths.value(row), moment, Some(local(origin)?))?)))
        });
        let bins = bins.collect::<Result<TimestampMicrosecondArray>>()?;
        Ok(Arc::new(bins.with_data_type(moments.data_type().clone())))
    }
}
