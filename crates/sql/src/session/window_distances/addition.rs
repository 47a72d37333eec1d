//! Types of the sort keys of RANGE frames, and of the distances that are added to them.
//!
//! DataFusion adds a distance to the key of the current row and searches the rows for the sum. It
//! takes a sum that overflows the type of the key for the end of the partition, even if rows with
//! null keys are there, which no distance reaches; and a difference of unsigned numbers stops at
//! zero. So the keys are cast to types that the sums fit.

use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DECIMAL256_MAX_PRECISION, DataType, Field, IntervalMonthDayNano,
    IntervalUnit, TimeUnit,
};
use datafusion::common::{ExprSchema, Result, ScalarValue, exec_err, internal_err, plan_err};
use datafusion::logical_expr::expr::Sort;
use datafusion::logical_expr::{Expr, ExprSchemable as _, cast};
use terrace_functions::columns::{TextType, interval_key, intervals_of_texts};
use terrace_functions::postgres_type;

const NANOSECONDS_PER_DAY: i128 = 86_400_000_000_000;

/// A distance whose sum with any 32-bit integer is beyond all 32-bit integers; greater ones are
/// replaced by it.
const FAR: i64 = 1 << 40;

/// The greatest distance whose sum with any decimal of 38 digits fits 128 bits.
const FAR_UNITS: i128 = 7 * 10_i128.pow(37);

/// Distance in days from which on timestamps are compared in microseconds: those in nanoseconds
/// have a range of the years 1677 to 2262.
const LONG_DAYS: i128 = 36_500;

/// Maximum distance of dates and timestamps in days.
const DAYS_MAX: i128 = 73_000_000;

/// A distance, once it is computed.
#[derive(Debug)]
pub(super) enum Distance {
    /// The value to add.
    Of(ScalarValue),
    Negative,
    Null,
}

/// Kinds of keys, by the values that can be added to them.
#[derive(Clone, Copy, Debug)]
enum Addition {
    Integers,
    Decimals,
    Doubles,
    /// Of intervals to dates and timestamps.
    Moments,
    /// Of intervals to times of day.
    Times,
    Intervals,
}

impl Addition {
    /// `None` for a key that nothing can be added to.
    fn of(key: &Field) -> Option<Self> {
        if TextType::of(key).is_some() {
            return None;
        }
        match key.data_type() {
            of if of.is_integer() => Some(Self::Integers),
            of if of.is_decimal() => Some(Self::Decimals),
            of if of.is_floating() => Some(Self::Doubles),
            DataType::Date32 | DataType::Date64 | DataType::Timestamp(..) => Some(Self::Moments),
            DataType::Time32(_) | DataType::Time64(_) => Some(Self::Times),
            DataType::Interval(_) => Some(Self::Intervals),
            _ => None,
        }
    }

    /// True for the type of a distance that may be added. A text in quotes has the type that fits.
    fn takes(self, distance: &DataType) -> bool {
        distance.is_string()
            || distance.is_null()
            || match self {
                Self::Integers => distance.is_integer(),
                Self::Decimals => distance.is_integer() || distance.is_decimal(),
                Self::Doubles => distance.is_numeric(),
                Self::Moments | Self::Times | Self::Intervals => {
                    matches!(distance, DataType::Interval(_) | DataType::Duration(_))
                }
            }
    }
}

/// Gives a key a type that distances can be added to, and the distances theirs.
///
/// # Errors
/// For types that PostgreSQL does not add, in its words, and for a text that does not denote a
/// value of the type.
pub(super) fn added(
    Sort { expr: key, .. }: &mut Sort,
    distances: &[ScalarValue],
    schema: &dyn ExprSchema,
) -> Result<Vec<Distance>> {
    let (_, field) = key.to_field(schema)?;
    let Some(addition) = Addition::of(&field) else {
        return plan_err!(
            "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {}",
            postgres_type(&field)
        );
    };
    let mut types = distances.iter().map(ScalarValue::data_type);
    if let Some(other) = types.find(|of| !addition.takes(of)) {
        return plan_err!(
            "RANGE with offset PRECEDING/FOLLOWING is not supported for column type {} and offset \
             type {}; cast the offset to an appropriate type",
            postgres_type(&field),
            postgres_type(&Field::new("", other, true))
        );
    }
    match addition {
        Addition::Integers => integers(key, &field, distances),
        Addition::Decimals => decimals(key, field.data_type(), distances),
        Addition::Doubles => doubles(key, field.data_type(), distances),
        Addition::Moments => moments(key, &field, distances),
        Addition::Times => times(key, distances),
        Addition::Intervals => intervals(key, distances),
    }
}

fn to_type(key: &mut Expr, from: &DataType, to: DataType) {
    if *from != to {
        *key = cast(std::mem::take(key), to);
    }
}

/// A distance that is a number, as a value of a type.
fn number(value: &ScalarValue, of: &DataType) -> Result<Distance> {
    if value.is_null() {
        return Ok(Distance::Null);
    }
    let is_negative = *value < ScalarValue::new_zero(&value.data_type())?;
    Ok(if is_negative { Distance::Negative } else { Distance::Of(value.cast_to(of)?) })
}

/// Sums of narrow integers fit 64 bits, those of wide ones 20 digits. A key without nulls may keep
/// its type, if it has a sign.
fn integers(key: &mut Expr, field: &Field, distances: &[ScalarValue]) -> Result<Vec<Distance>> {
    let from = field.data_type();
    let values = distances.iter().map(|distance| distance.cast_to(&DataType::Int64));
    let mut values: Vec<ScalarValue> = values.collect::<Result<_>>()?;
    let is_wide = matches!(from, DataType::Int64 | DataType::UInt64);
    if !is_wide {
        for value in &mut values {
            if let ScalarValue::Int64(Some(distance)) = value {
                *distance = FAR.min(*distance);
            }
        }
    }
    let fits = |value: &ScalarValue| value.cast_to(from).is_ok();
    let keeps = !field.is_nullable() && from.is_signed_integer() && values.iter().all(fits);
    let to = match is_wide {
        _ if keeps => from.clone(),
        true => DataType::Decimal128(20, 0),
        false => DataType::Int64,
    };
    to_type(key, from, to.clone());
    values.iter().map(|value| number(value, &to)).collect()
}

/// Sums have all digits behind the point of the key and of the distances.
fn decimals(key: &mut Expr, from: &DataType, distances: &[ScalarValue]) -> Result<Vec<Distance>> {
    let (digits, own) = digits_of(from);
    let scale = distances.iter().map(scale_of).fold(own, i8::max);
    let needed = i16::from(digits) - i16::from(own) + i16::from(scale);
    let narrow = DataType::Decimal128(DECIMAL128_MAX_PRECISION, scale);
    let is_far = |distance: &ScalarValue| match distance.cast_to(&narrow) {
        Ok(ScalarValue::Decimal128(Some(units), ..)) => units > FAR_UNITS,
        Ok(_) => false,
        Err(_) => true,
    };
    let is_wide = matches!(from, DataType::Decimal256(..))
        || needed > i16::from(DECIMAL128_MAX_PRECISION)
        || distances.iter().any(is_far);
    let to = match is_wide {
        true => DataType::Decimal256(DECIMAL256_MAX_PRECISION, scale),
        false => narrow.clone(),
    };
    if scale != own || is_wide || !matches!(from, DataType::Decimal128(..)) {
        to_type(key, from, to.clone());
    }
    distances.iter().map(|distance| number(&distance.cast_to(&to)?, &to)).collect()
}

/// The precision and the scale of a type.
fn digits_of(of: &DataType) -> (u8, i8) {
    match of {
        DataType::Decimal32(digits, scale)
        | DataType::Decimal64(digits, scale)
        | DataType::Decimal128(digits, scale)
        | DataType::Decimal256(digits, scale) => (*digits, *scale),
        _ => (0, 0),
    }
}

/// Digits behind the point of a distance.
fn scale_of(distance: &ScalarValue) -> i8 {
    match distance.try_as_str().flatten() {
        Some(text) => {
            let fraction = text.split_once('.').map_or("", |(_, fraction)| fraction);
            let digits = fraction.bytes().take_while(u8::is_ascii_digit).count();
            i8::try_from(digits).unwrap_or(i8::MAX)
        }
        None => digits_of(&distance.data_type()).1,
    }
}

fn doubles(key: &mut Expr, from: &DataType, distances: &[ScalarValue]) -> Result<Vec<Distance>> {
    to_type(key, from, DataType::Float64);
    let double = |distance: &ScalarValue| -> Result<Distance> {
        Ok(match distance.cast_to(&DataType::Float64)? {
            ScalarValue::Float64(Some(value)) if value.is_nan() || value < 0.0 => {
                Distance::Negative
            }
            value if value.is_null() => Distance::Null,
            value => Distance::Of(value),
        })
    };
    distances.iter().map(double).collect()
}

/// Dates are timestamps if a distance has a part of a day, as in PostgreSQL.
fn moments(key: &mut Expr, field: &Field, distances: &[ScalarValue]) -> Result<Vec<Distance>> {
    let found = distances.iter().map(interval).collect::<Result<Vec<_>>>()?;
    let known = || found.iter().flatten();
    if let Some(long) = known().find(|it| duration(**it) > DAYS_MAX * NANOSECONDS_PER_DAY) {
        return exec_err!(
            "timestamp out of range: no date is {} months and {} days before or after another one",
            long.months,
            long.days
        );
    }
    let has_part =
        |it: &IntervalMonthDayNano| i128::from(it.nanoseconds) % NANOSECONDS_PER_DAY != 0;
    let is_long = |it: &IntervalMonthDayNano| duration(*it) >= LONG_DAYS * NANOSECONDS_PER_DAY;
    let from = field.data_type();
    let to = match from {
        DataType::Date32 if known().any(has_part) => {
            DataType::Timestamp(TimeUnit::Microsecond, None)
        }
        DataType::Date64 => DataType::Timestamp(TimeUnit::Microsecond, None),
        DataType::Timestamp(TimeUnit::Nanosecond, zone)
            if field.is_nullable() && known().any(is_long) =>
        {
            DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
        }
        from => from.clone(),
    };
    to_type(key, from, to);
    let distance = |it: Option<IntervalMonthDayNano>| match it {
        None => Distance::Null,
        Some(it) if duration(it) < 0 => Distance::Negative,
        it => Distance::Of(ScalarValue::IntervalMonthDayNano(it)),
    };
    Ok(found.into_iter().map(distance).collect())
}

/// Converts times of day to numbers of microseconds. The months and days of a distance are not
/// added, only its hours and smaller units.
fn times(key: &mut Expr, distances: &[ScalarValue]) -> Result<Vec<Distance>> {
    let time = cast(std::mem::take(key), DataType::Time64(TimeUnit::Microsecond));
    *key = cast(time, DataType::Int64);
    let distance = |distance: &ScalarValue| -> Result<Distance> {
        Ok(match interval(distance)? {
            None => Distance::Null,
            Some(it) if it.nanoseconds < 0 => Distance::Negative,
            Some(it) => Distance::Of(ScalarValue::Int64(Some(it.nanoseconds / 1000))),
        })
    };
    distances.iter().map(distance).collect()
}

/// Intervals are numbers of nanoseconds.
fn intervals(key: &mut Expr, distances: &[ScalarValue]) -> Result<Vec<Distance>> {
    *key = interval_key(std::mem::take(key));
    let distance = |distance: &ScalarValue| -> Result<Distance> {
        Ok(match interval(distance)?.map(duration) {
            None => Distance::Null,
            Some(..0) => Distance::Negative,
            nanoseconds => Distance::Of(ScalarValue::Decimal128(nanoseconds, 38, 0)),
        })
    };
    distances.iter().map(distance).collect()
}

/// The duration by which intervals are compared, in nanoseconds.
fn duration(interval: IntervalMonthDayNano) -> i128 {
    let days = i128::from(interval.months) * 30 + i128::from(interval.days);
    days * NANOSECONDS_PER_DAY + i128::from(interval.nanoseconds)
}

/// The interval that a distance is or denotes; `None` for null.
fn interval(distance: &ScalarValue) -> Result<Option<IntervalMonthDayNano>> {
    let interval = match distance.try_as_str() {
        Some(None) => return Ok(None),
        Some(Some(text)) => {
            let intervals = intervals_of_texts(&distance.to_array()?)?;
            let interval = ScalarValue::try_from_array(&intervals, 0)?;
            if interval.is_null() {
                return exec_err!("invalid input syntax for type interval: {text:?}");
            }
            interval
        }
        None => distance.cast_to(&DataType::Interval(IntervalUnit::MonthDayNano))?,
    };
    match interval {
        ScalarValue::IntervalMonthDayNano(interval) => Ok(interval),
        other => internal_err!("{other} is no interval"),
    }
}
