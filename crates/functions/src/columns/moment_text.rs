//! Timestamps and floating-point numbers as PostgreSQL's texts: `2024-06-01 12:00:00.5`,
//! `2024-06-01 12:00:00+02`, `-Infinity`.

use std::fmt::Write as _;
use std::sync::Arc;

use chrono::{Datelike as _, NaiveDateTime, Offset as _, TimeZone as _, Timelike as _};
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray as _, PrimitiveArray, StringArray, StringBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    ArrowTimestampType, DataType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType, TimestampSecondType,
};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::temporal_conversions::as_datetime;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

const NAME: &str = "moment_text";

/// Returns an expression for the text of a timestamp or of a floating-point number as PostgreSQL
/// writes it. A timestamp with a time zone is shown in the zone of its type.
#[must_use]
pub fn moment_text(expr: Expr) -> Expr {
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::new_from_impl(MomentText { signature }).call(vec![expr])
}

/// Returns true if Arrow's cast of a type to text differs from PostgreSQL's text.
#[must_use]
pub fn has_moment_text(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Timestamp(..) | DataType::Float32 | DataType::Float64)
}

/// Returns the texts of timestamps. Those with a time zone are shown in `zone`, or in the zone of
/// their type if that is `None`.
///
/// # Errors
/// For a timestamp out of the range of the calendar.
pub(crate) fn timestamp_texts(values: &ArrayRef, zone: Option<Tz>) -> Result<ArrayRef, ArrowError> {
    let DataType::Timestamp(unit, of_type) = values.data_type() else {
        return Err(ArrowError::CastError(format!("{} is no timestamp", values.data_type())));
    };
    let zone = match (of_type, zone) {
        (None, _) => None,
        (Some(_), Some(zone)) => Some(zone),
        (Some(name), None) => Some(name.parse()?),
    };
    match unit {
        TimeUnit::Second => written::<TimestampSecondType>(values.as_primitive(), zone),
        TimeUnit::Millisecond => written::<TimestampMillisecondType>(values.as_primitive(), zone),
        TimeUnit::Microsecond => written::<TimestampMicrosecondType>(values.as_primitive(), zone),
        TimeUnit::Nanosecond => written::<TimestampNanosecondType>(values.as_primitive(), zone),
    }
}

fn written<T: ArrowTimestampType>(
    values: &PrimitiveArray<T>,
    zone: Option<Tz>,
) -> Result<ArrayRef, ArrowError> {
    let mut texts = StringBuilder::with_capacity(values.len(), values.len() * 19);
    let mut text = String::new();
    for value in values {
        let Some(value) = value else {
            texts.append_null();
            continue;
        };
        let invalid = || ArrowError::CastError(format!("the timestamp {value} is out of range"));
        let moment = as_datetime::<T>(value).ok_or_else(invalid)?;
        text.clear();
        match zone {
            None => push(moment, None, &mut text),
            Some(zone) => {
                let offset = zone.offset_from_utc_datetime(&moment).fix();
                let local = moment.checked_add_offset(offset).ok_or_else(invalid)?;
                push(local, Some(offset.local_minus_utc()), &mut text);
            }
        }
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

/// Appends a local time, with its offset in seconds east of UTC.
fn push(local: NaiveDateTime, offset_seconds: Option<i32>, out: &mut String) {
    let year = local.year();
    let is_bc = year <= 0;
    let year = if is_bc { 1 - year } else { year };
    let (month, day) = (local.month(), local.day());
    let (hour, minute, second) = (local.hour(), local.minute(), local.second());
    // Writing to a text does not fail.
    let _ = write!(out, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}");
    if local.nanosecond() > 0 {
        let _ = write!(out, ".{:09}", local.nanosecond());
        out.truncate(out.trim_end_matches('0').len());
    }
    if let Some(offset) = offset_seconds {
        push_offset(offset, out);
    }
    if is_bc {
        out.push_str(" BC");
    }
}

/// Appends an offset without the parts behind its last one: `+02`, `+05:30`, `-00:44:30`.
fn push_offset(offset_seconds: i32, out: &mut String) {
    out.push(if offset_seconds < 0 { '-' } else { '+' });
    let offset = offset_seconds.unsigned_abs();
    let (hours, minutes, seconds) = (offset / 3600, offset / 60 % 60, offset % 60);
    // Writing to a text does not fail.
    let _ = match (minutes, seconds) {
        (0, 0) => write!(out, "{hours:02}"),
        (_, 0) => write!(out, "{hours:02}:{minutes:02}"),
        _ => write!(out, "{hours:02}:{minutes:02}:{seconds:02}"),
    };
}

/// Returns the texts of floating-point numbers.
fn float_texts(values: &ArrayRef) -> Result<ArrayRef, ArrowError> {
    let texts = cast(values, &DataType::Utf8)?;
    let views = texts.as_string::<i32>();
    if !views.iter().flatten().any(|text| text.ends_with('f')) {
        return Ok(texts);
    }
    let named = |text| match text {
        "inf" => "Infinity",
        "-inf" => "-Infinity",
        text => text,
    };
    Ok(Arc::new(views.iter().map(|text| text.map(named)).collect::<StringArray>()))
}

/// The function of [`moment_text`]. It is shown by the name of its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
struct MomentText {
    signature: Signature,
}

impl MomentText {
    fn apply(values: &ArrayRef) -> Result<ArrayRef> {
        Ok(match values.data_type() {
            DataType::Timestamp(..) => timestamp_texts(values, None)?,
            _ => float_texts(values)?,
        })
    }
}

impl ScalarUDFImpl for MomentText {
    fn name(&self) -> &str {
        NAME
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            [value] => Ok(value.schema_name().to_string()),
            _ => plan_err!("{NAME} takes 1 value"),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(values)] => Ok(ColumnarValue::Array(Self::apply(values)?)),
            [ColumnarValue::Scalar(value)] => {
                let texts = Self::apply(&value.to_array_of_size(1)?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?))
            }
            _ => plan_err!("{NAME} takes 1 value"),
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Float64Array, TimestampMicrosecondArray};

    use super::*;

    /// The texts of PostgreSQL 15 of these moments in the time zones UTC, Asia/Kolkata and
    /// Africa/Monrovia, whose offset was -00:44:30 until 1972.
    #[test]
    fn moments_have_the_texts_of_postgresql() {
        let moments = [Some(0), None, Some(1_717_236_000_500_000), Some(-64_000_000_000_000_000)];
        let local = TimestampMicrosecondArray::from_iter(moments);
        let texts = |values: TimestampMicrosecondArray| {
            let values: ArrayRef = Arc::new(values);
            let texts = timestamp_texts(&values, None).expect("texts");
            let texts = texts.as_string::<i32>().iter().map(|text| text.unwrap_or("null"));
            texts.map(str::to_owned).collect::<Vec<_>>()
        };
        let expected =
            ["1970-01-01 00:00:00", "null", "2024-06-01 10:00:00.5", "0060-12-03 06:13:20 BC"];
        assert_eq!(texts(local.clone()), expected);
        let india = texts(local.clone().with_timezone("Asia/Kolkata"));
        assert_eq!(india[2], "2024-06-01 15:30:00.5+05:30");
        assert_eq!(texts(local.clone().with_timezone("UTC"))[0], "1970-01-01 00:00:00+00");
        let liberia = texts(local.with_timezone("Africa/Monrovia"));
        assert_eq!(liberia[0], "1969-12-31 23:15:30-00:44:30");
    }

    #[test]
    fn floats_have_the_names_of_postgresql() {
        let floats = [1.5, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        let floats: ArrayRef = Arc::new(Float64Array::from(floats.to_vec()));
        let texts = float_texts(&floats).expect("texts");
        let texts: Vec<_> = texts.as_string::<i32>().iter().flatten().collect();
        assert_eq!(texts, ["1.5", "Infinity", "-Infinity", "NaN"]);
    }
}
