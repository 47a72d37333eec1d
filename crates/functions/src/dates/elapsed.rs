//! The interval between two timestamps: days of 24 hours and a time of day, as in PostgreSQL.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray as _, IntervalMonthDayNanoArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Int64Type, IntervalMonthDayNano, TimeUnit};
use datafusion::common::{Result, exec_datafusion_err, exec_err};

const DAY_SECONDS: i64 = 86_400;

/// Converts Arrow's durations to intervals of days and a time of day.
pub(super) fn days_and_time(call: &crate::scalar::Call) -> Result<ArrayRef> {
    let elapsed = call.expanded(0)?;
    let DataType::Duration(unit) = elapsed.data_type() else {
        return exec_err!("{}: the argument is a {}", call.name(), elapsed.data_type());
    };
    let nanos = match unit {
        TimeUnit::Second => 1_000_000_000,
        TimeUnit::Millisecond => 1_000_000,
        TimeUnit::Microsecond => 1_000,
        TimeUnit::Nanosecond => 1,
    };
    let elapsed = cast(&elapsed, &DataType::Int64)?;
    let intervals = elapsed.as_primitive::<Int64Type>().iter();
    let intervals = intervals.map(|elapsed| elapsed.map(|it| interval(it, nanos)).transpose());
    Ok(Arc::new(intervals.collect::<Result<IntervalMonthDayNanoArray>>()?))
}

/// The interval of a number of units of `nanos` nanoseconds; all parts have its sign.
fn interval(elapsed: i64, nanos: i64) -> Result<IntervalMonthDayNano> {
    let day = DAY_SECONDS * (1_000_000_000 / nanos);
    let days = i32::try_from(elapsed / day).map_err(|_| {
        exec_datafusion_err!("an interval of {} days is out of range", elapsed / day)
    })?;
    Ok(IntervalMonthDayNano::new(0, days, elapsed % day * nanos))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_become_days_and_a_time() {
        let of = |elapsed, nanos| interval(elapsed, nanos).expect("in range");
        assert_eq!(of(90_000, 1_000_000_000), IntervalMonthDayNano::new(0, 1, 3_600_000_000_000));
        assert_eq!(of(-90_000_500, 1_000_000).days, -1);
        assert_eq!(of(-90_000_500, 1_000_000).nanoseconds, -3_600_500_000_000);
        assert_eq!(of(i64::MAX, 1), IntervalMonthDayNano::new(0, 106_751, 85_636_854_775_807));
        assert!(interval(i64::MAX, 1_000_000_000).is_err());
    }
}
