//! `date_bin`.

use std::sync::Arc;

use chrono::DateTime;
use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, Int64Array};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Field, Int64Type, IntervalMonthDayNano, IntervalMonthDayNanoType, IntervalUnit,
    TimeUnit,
};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err, plan_err};
use datafusion::functions::datetime;
use datafusion::logical_expr::sort_properties::{ExprProperties, SortProperties};
use datafusion::logical_expr::{ScalarFunctionArgs, ScalarUDF};

use super::arithmetic::add_months;
use super::moment::{DAY, months};
use crate::adapter::{Scalar, columns, function};

const NAME: &str = "date_bin";

/// `date_bin(width, time, origin)`, as in PostgreSQL, and with widths of months.
///
/// DataFusion bins times of day. For timestamps it computes in nanoseconds, which end in 2262.
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
        NAME
    }

    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    fn coerce(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        let (width, moments) = match given {
            [width, moments @ ..] if matches!(moments.len(), 1 | 2) => (width, moments),
            _ => return plan_err!("{NAME} takes a width, a timestamp and an origin"),
        };
        if !matches!(width, DataType::Interval(_) | DataType::Duration(_) | DataType::Null)
            && !width.is_string()
        {
            return plan_err!("the width of {NAME} is an interval, not {width}");
        }
        let mut typed = moments.iter().filter(|of| !of.is_null() && !of.is_string());
        let to = match typed.next() {
            Some(DataType::Timestamp(unit, zone)) => DataType::Timestamp(*unit, zone.clone()),
            Some(DataType::Date32 | DataType::Date64) | None => {
                DataType::Timestamp(TimeUnit::Microsecond, None)
            }
            Some(time @ (DataType::Time32(_) | DataType::Time64(_))) => time.clone(),
            Some(other) => return plan_err!("{NAME} takes a timestamp, not {other}; cast it"),
        };
        let has_zone = |of: &DataType| matches!(of, DataType::Timestamp(_, Some(_)));
        if let Some(origin) = typed.next()
            && has_zone(origin) != has_zone(&to)
        {
            return plan_err!(
                "{NAME} takes a timestamp and an origin that both have time zones or both have \
                 none; cast one of them"
            );
        }
        let mut types = vec![DataType::Interval(IntervalUnit::MonthDayNano)];
        types.extend(moments.iter().map(|_| to.clone()));
        Ok(types)
    }

    fn field(&self, given: &[DataType], _: &[Option<&ScalarValue>]) -> Result<Field> {
        let types = self.coerce(given)?;
        Ok(Field::new(NAME, types[1].clone(), true))
    }

    fn order(&self, inputs: &[ExprProperties]) -> Result<SortProperties> {
        self.times.output_ordering(inputs)
    }

    fn run(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let arguments = columns(args, rows)?;
        let of = arguments[1].data_type();
        let DataType::Timestamp(unit, _) = of else {
            let args = ScalarFunctionArgs { number_rows: rows, ..args.clone() };
            return self.times.invoke_with_args(args)?.into_array(rows);
        };
        let nanos = nanos_of(*unit);
        let widths = arguments[0].as_primitive::<IntervalMonthDayNanoType>();
        let units = arguments[1..].iter().map(|moments| cast(moments, &DataType::Int64));
        let units = units.collect::<std::result::Result<Vec<_>, _>>()?;
        let moments = units[0].as_primitive::<Int64Type>();
        let origins = units.get(1).map(|origins| origins.as_primitive::<Int64Type>());
        let bins = (0..rows).map(|row| {
            let is_null = widths.is_null(row)
                || moments.is_null(row)
                || origins.is_some_and(|origins| origins.is_null(row));
            if is_null {
                return Ok(None);
            }
            // Without an origin, bins begin in 1970.
            let origin = origins.map_or(0, |origins| origins.value(row));
            let moment = i128::from(moments.value(row)) * nanos;
            let begin = begin(widths.value(row), moment, i128::from(origin) * nanos)?;
            let begin = i64::try_from(begin.div_euclid(nanos)).map_err(|_| out_of_range())?;
            Ok(Some(begin))
        });
        let bins = bins.collect::<Result<Int64Array>>()?;
        Ok(cast(&bins, of)?)
    }
}

fn nanos_of(unit: TimeUnit) -> i128 {
    match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    }
}

/// The begin of the bin of a moment, both in nanoseconds since 1970.
fn begin(width: IntervalMonthDayNano, moment: i128, origin: i128) -> Result<i128> {
    let IntervalMonthDayNano { months, days, nanoseconds } = width;
    let nanos = i128::from(days) * i128::from(DAY) * 1_000 + i128::from(nanoseconds);
    match (months, nanos) {
        (0, 1..) => Ok(moment - (moment - origin).rem_euclid(nanos)),
        (1.., 0) => of_months(months.into(), moment, origin).ok_or_else(out_of_range),
        (1.., _) => exec_err!("{NAME}: a width of months has no days and no time besides"),
        _ => exec_err!("{NAME}: the width is above zero"),
    }
}

fn of_months(width: i64, moment: i128, origin: i128) -> Option<i128> {
    const SECOND: i128 = 1_000_000_000;
    let time = |nanos: i128| {
        let (seconds, rest) = (nanos.div_euclid(SECOND), nanos.rem_euclid(SECOND));
        DateTime::from_timestamp(seconds.try_into().ok()?, rest.try_into().ok()?)
    };
    let (moment, origin) = (time(moment)?.naive_utc(), time(origin)?.naive_utc());
    let since = months(moment.date()) - months(origin.date());
    let bin = since.div_euclid(width) * width;
    // Within its last month, a moment may be before the day of the origin.
    let mut begin = add_months(origin, bin)?;
    if begin > moment {
        begin = add_months(origin, bin - width)?;
    }
    let begin = begin.and_utc();
    Some(i128::from(begin.timestamp()) * SECOND + i128::from(begin.timestamp_subsec_nanos()))
}

fn out_of_range() -> datafusion::common::DataFusionError {
    exec_datafusion_err!("{NAME}: a result is out of range")
}
