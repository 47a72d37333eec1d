//! `width_bucket` of PostgreSQL.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err};

use super::decimals::{at_scale, scale_of};
use crate::scalar::{Call, Decimal, Definition, Double, Int, Int32, Kind, Overload, Returns};

pub(super) const FUNCTIONS: &[Definition] = &[Definition::new(
    "width_bucket",
    &[
        Overload::returning(
            &[Kind::Decimal, Kind::Decimal, Kind::Decimal, Kind::Integer],
            Returns::Integer32,
            of_decimals,
        ),
        Overload::returning(
            &[Kind::Double, Kind::Double, Kind::Double, Kind::Integer],
            Returns::Integer32,
            of_doubles,
        ),
    ],
)];

/// The number of buckets.
fn count(number: i64) -> Result<i32> {
    match i32::try_from(number) {
        Ok(number @ 1..) => Ok(number),
        _ => exec_err!("width_bucket takes 1 to {} buckets, not {number}", i32::MAX),
    }
}

fn out_of_range() -> DataFusionError {
    exec_datafusion_err!("numeric value out of range")
}

/// A bucket, 0 below the first; that above the last is one more than their number.
fn bucket(bucket: Option<i32>) -> Result<Option<i32>> {
    bucket.map(Some).ok_or_else(out_of_range)
}

fn of_decimals(call: &Call) -> Result<ArrayRef> {
    let scales = [scale_of(call, 0)?, scale_of(call, 1)?, scale_of(call, 2)?];
    let scale = scales.into_iter().max().unwrap_or(0);
    call.rows_of::<Int32>(|row| {
        let mut values = [0; 3];
        for (argument, (value, from)) in values.iter_mut().zip(scales).enumerate() {
            let Some(number) = call.value::<Decimal>(argument, row)? else { return Ok(None) };
            *value = at_scale(number, from, scale).ok_or_else(out_of_range)?;
        }
        let Some(number) = call.value::<Int>(3, row)? else { return Ok(None) };
        let (number, [mut value, mut low, mut high]) = (count(number)?, values);
        if low == high {
            return exec_err!("the lower bound of width_bucket cannot equal the upper bound");
        }
        if low > high {
            (value, low, high) = (-value, -low, -high);
        }
        if value < low {
            return Ok(Some(0));
        }
        if value >= high {
            return bucket(number.checked_add(1));
        }
        let width = high.checked_sub(low).ok_or_else(out_of_range)?;
        let place = (value - low).checked_mul(number.into()).ok_or_else(out_of_range)? / width;
        bucket(i32::try_from(place).ok().and_then(|place| place.checked_add(1)))
    })
}

fn of_doubles(call: &Call) -> Result<ArrayRef> {
    call.rows_of::<Int32>(|row| {
        let value = |argument| call.value::<Double>(argument, row);
        let (Some(mut value), Some(mut low), Some(mut high), Some(number)) =
            (value(0)?, value(1)?, value(2)?, call.value::<Int>(3, row)?)
        else {
            return Ok(None);
        };
        let number = count(number)?;
        if value.is_nan() || !low.is_finite() || !high.is_finite() {
            return exec_err!("width_bucket takes no NaN, and bounds that are finite");
        }
        if low == high {
            return exec_err!("the lower bound of width_bucket cannot equal the upper bound");
        }
        if low > high {
            (value, low, high) = (-value, -low, -high);
        }
        if value < low {
            return Ok(Some(0));
        }
        if value >= high {
            return bucket(number.checked_add(1));
        }
        // Halves, so that the difference of the bounds is finite.
        let part = (value / 2.0 - low / 2.0) / (high / 2.0 - low / 2.0);
        #[expect(clippy::cast_possible_truncation, reason = "from 0 to the number of buckets")]
        let place = (part * f64::from(number)).floor() as i32;
        bucket(place.min(number - 1).checked_add(1))
    })
}
