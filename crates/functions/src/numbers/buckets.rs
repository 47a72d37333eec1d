//! `width_bucket` of PostgreSQL.

use datafusion::arrow::array::{Array as _, ArrayRef};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::row::{RowConverter, SortField};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err, exec_err, plan_err};
use datafusion::logical_expr::type_coercion::binary::type_union_resolution;

use super::decimals::{at_scale, scale_of};
use crate::aggregates::canonical;
use crate::lists::{Lists, list_type};
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
        Overload::returning(&[Kind::Any, Kind::Any], Returns::By(of_list), of_thresholds),
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

/// Returns the number of a bucket, which is 0 below the first and the count plus one above the
/// last; an error for `None`, which is out of range.
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

/// The type of the result for a value and a list of thresholds.
fn of_list(given: &[DataType]) -> Result<DataType> {
    match given {
        [_, thresholds] if list_type(thresholds).is_some() => Ok(DataType::Int32),
        _ => plan_err!("width_bucket takes a value and a list of thresholds in ascending order"),
    }
}

/// The number of thresholds, in ascending order, that are not above the value.
fn of_thresholds(call: &Call) -> Result<ArrayRef> {
    // Constants are not repeated: a list can be long.
    let (values, lists) = (call.array(0)?, Lists::new(call.array(1)?)?);
    let (is_value, is_list) = (call.is_constant(0)?, call.is_constant(1)?);
    let elements = lists.values();
    if list_type(elements.data_type()).is_some() && !elements.data_type().is_null() {
        return exec_err!("the thresholds of width_bucket are a list of one dimension");
    }
    let types = [values.data_type().clone(), elements.data_type().clone()];
    let Some(common) = type_union_resolution(&types) else {
        return exec_err!("width_bucket: the thresholds are {}, not {}", types[1], types[0]);
    };
    let converter = RowConverter::new(vec![SortField::new(common.clone())])?;
    let keys = converter.convert_columns(&[canonical(&cast(values, &common)?)])?;
    let elements = cast(elements, &common)?;
    let thresholds = converter.convert_columns(&[canonical(&elements)])?;
    call.rows_of::<Int32>(|row| {
        let (value, list) = (if is_value { 0 } else { row }, if is_list { 0 } else { row });
        let is_null = call.is_null(0, row)?;
        let Some(range) = lists.range(list).filter(|_| !is_null) else { return Ok(None) };
        if elements.null_count() > 0 && range.clone().any(|place| elements.is_null(place)) {
            return exec_err!("the thresholds of width_bucket must not contain NULL");
        }
        let (key, begin) = (keys.row(value), range.start);
        let (mut low, mut high) = (begin, range.end);
        while low < high {
            let middle = low.midpoint(high);
            match thresholds.row(middle) <= key {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(i32::try_from(low - begin).ok())
    })
}
