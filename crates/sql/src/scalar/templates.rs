//! `to_char`, which formats a value by a template, and `to_date`, `to_timestamp` and `to_number`,
//! which parse a text by a template.

mod amount;
mod moment;
mod numbers;
mod parse;
mod pattern;
mod reader;
#[cfg(test)]
mod tests;
mod times;

use std::sync::Arc;

use chrono::{NaiveDateTime, Offset as _, TimeZone as _};
use chrono_tz::OffsetName as _;
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, StringArray, StringBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, DurationNanosecondType, Float32Type, Float64Type, IntervalMonthDayNanoType,
    IntervalUnit, Time64NanosecondType, TimeUnit, TimestampMicrosecondType,
};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, plan_err};
use datafusion::logical_expr::{
    ColumnarValue, ScalarFunctionArgs, ScalarUDFImpl, Signature, Volatility,
};

pub(crate) use amount::ToNumber;
use numbers::{Number, NumberTemplate};
pub(crate) use parse::functions as parsing;
use times::{Fields, TimeTemplate};

const NAME: &str = "to_char";
const DAY_NANOSECONDS: i64 = 86_400_000_000_000;

/// `to_char(value, template)`: formats a date, a time, a timestamp, an interval or a number, with
/// PostgreSQL's templates, such as `YYYY-MM-DD HH24:MI:SS` and `FM999,990.00`.
///
/// DataFusion's function of this name takes the formats of `strftime` and would output a PostgreSQL
/// template verbatim; here `strftime` takes those.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct ToChar {
    signature: Signature,
}

impl ToChar {
    pub(crate) fn new() -> Self {
        Self { signature: Signature::user_defined(Volatility::Immutable) }
    }
}

impl ScalarUDFImpl for ToChar {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [value, _] = arg_types else {
            return plan_err!(
                "{NAME} takes a value and a template, not {} values",
                arg_types.len()
            );
        };
        let value = match value {
            DataType::Timestamp(_, zone) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            DataType::Date32 | DataType::Date64 => DataType::Timestamp(TimeUnit::Microsecond, None),
            DataType::Time32(_) | DataType::Time64(_) => DataType::Time64(TimeUnit::Nanosecond),
            DataType::Interval(_) => DataType::Interval(IntervalUnit::MonthDayNano),
            DataType::Duration(_) => DataType::Duration(TimeUnit::Nanosecond),
            DataType::Float16 | DataType::Float32 => DataType::Float32,
            number if number.is_numeric() => number.clone(),
            DataType::Null => DataType::Null,
            other => {
                return plan_err!(
                    "{NAME} takes a number, a date, a time or an interval, not {other}; cast it"
                );
            }
        };
        Ok(vec![value, DataType::Utf8])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let [value, template] = args.args.as_slice() else {
            return plan_err!("{NAME} takes a value and a template");
        };
        let rows = match (value, template) {
            (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)) => 1,
            _ => args.number_rows,
        };
        let values = value.to_array(rows)?;
        let written = match template {
            ColumnarValue::Scalar(template) => {
                let template = template.try_as_str().flatten();
                written(&values, |_| template)?
            }
            ColumnarValue::Array(templates) => {
                let templates = cast(templates, &DataType::Utf8)?;
                let templates: &StringArray = templates.as_string();
                written(&values, |row| (!templates.is_null(row)).then(|| templates.value(row)))?
            }
        };
        match (value, template) {
            (ColumnarValue::Scalar(_), ColumnarValue::Scalar(_)) => {
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&written, 0)?))
            }
            _ => Ok(ColumnarValue::Array(written)),
        }
    }
}

/// Formats each value by the template of its row; null without a template or a value.
fn written<'a>(values: &ArrayRef, template: impl Fn(usize) -> Option<&'a str>) -> Result<ArrayRef> {
    match values.data_type() {
        DataType::Null => {
            let null = StringArray::new_null(values.len());
            Ok(Arc::new(null))
        }
        kind if kind.is_numeric() => written_numbers(values, template),
        _ => written_times(values, template),
    }
}

fn written_numbers<'a>(
    values: &ArrayRef,
    template: impl Fn(usize) -> Option<&'a str>,
) -> Result<ArrayRef> {
    let options = FormatOptions::new();
    let formatter = ArrayFormatter::try_new(values, &options)?;
    let number = |row: usize| match values.data_type() {
        DataType::Float32 => Number::Single(values.as_primitive::<Float32Type>().value(row)),
        DataType::Float64 => Number::Double(values.as_primitive::<Float64Type>().value(row)),
        _ => Number::Exact(formatter.value(row).to_string()),
    };
    let write = |template: &NumberTemplate, row: usize, text: &mut String| {
        template.write(&number(row), text);
        Ok(())
    };
    written_with(values, template, NumberTemplate::parsed, write)
}

fn written_times<'a>(
    values: &ArrayRef,
    template: impl Fn(usize) -> Option<&'a str>,
) -> Result<ArrayRef> {
    let zone = match values.data_type() {
        DataType::Timestamp(_, Some(zone)) => Some(Zone::parsed(zone)?),
        _ => None,
    };
    // An empty template gives null, as in PostgreSQL.
    let template = |row: usize| template(row).filter(|template| !template.is_empty());
    let write = |template: &TimeTemplate, row: usize, text: &mut String| {
        template.write(&fields(values, row, zone)?, text)
    };
    written_with(values, template, TimeTemplate::parsed, write)
}

/// Formats each value by the template of its row, using `write`. A template is parsed once for
/// consecutive rows.
fn written_with<'a, T>(
    values: &ArrayRef,
    template: impl Fn(usize) -> Option<&'a str>,
    parse: impl Fn(&str) -> Result<T>,
    write: impl Fn(&T, usize, &mut String) -> Result<()>,
) -> Result<ArrayRef> {
    let mut texts = StringBuilder::new();
    let mut text = String::new();
    let mut known: Option<(&str, T)> = None;
    for row in 0..values.len() {
        let Some(template) = template(row).filter(|_| !values.is_null(row)) else {
            texts.append_null();
            continue;
        };
        let parsed = match &known {
            Some((of, parsed)) if *of == template => parsed,
            _ => &known.insert((template, parse(template)?)).1,
        };
        text.clear();
        write(parsed, row, &mut text)?;
        texts.append_value(&text);
    }
    Ok(Arc::new(texts.finish()))
}

/// The fields of the date, time or interval in a row.
fn fields(values: &ArrayRef, row: usize, zone: Option<Zone>) -> Result<Fields> {
    let out_of_range = || exec_datafusion_err!("a timestamp is out of the range of {NAME}");
    match values.data_type() {
        DataType::Timestamp(..) => {
            let times = values.as_primitive::<TimestampMicrosecondType>();
            let moment = times.value_as_datetime(row).ok_or_else(out_of_range)?;
            let Some(zone) = zone else { return Ok(Fields::of_time(moment, None)) };
            let offset = zone.zone.offset_from_utc_datetime(&moment).fix();
            // At an end of the range, the local time may be out of range.
            let local = moment.checked_add_offset(offset).ok_or_else(out_of_range)?;
            let seconds = offset.local_minus_utc();
            Ok(Fields::of_time(local, Some((seconds, zone.name(moment, seconds)))))
        }
        DataType::Interval(_) => {
            let interval = values.as_primitive::<IntervalMonthDayNanoType>().value(row);
            Ok(Fields::of_interval(interval.months, interval.days, interval.nanoseconds))
        }
        DataType::Time64(_) => {
            let time = values.as_primitive::<Time64NanosecondType>().value(row);
            Ok(Fields::of_interval(0, 0, time))
        }
        _ => {
            let duration = values.as_primitive::<DurationNanosecondType>().value(row);
            let days = i32::try_from(duration / DAY_NANOSECONDS).map_err(|_| out_of_range())?;
            Ok(Fields::of_interval(0, days, duration % DAY_NANOSECONDS))
        }
    }
}

/// The time zone of timestamps.
#[derive(Clone, Copy)]
struct Zone {
    zone: Tz,
    /// The same zone, if it has a name and not only an offset.
    named: Option<chrono_tz::Tz>,
}

impl Zone {
    fn parsed(zone: &str) -> Result<Self> {
        Ok(Self { zone: zone.parse()?, named: zone.parse().ok() })
    }

    /// The zone's abbreviation at an instant, such as `CEST`; for an offset, its hours and minutes.
    fn name(self, moment: NaiveDateTime, offset: i32) -> String {
        let of_zone = self.named.map(|zone| zone.offset_from_utc_datetime(&moment));
        if let Some(abbreviation) = of_zone.as_ref().and_then(|offset| offset.abbreviation()) {
            return abbreviation.to_owned();
        }
        let sign = if offset < 0 { '-' } else { '+' };
        match (offset.abs() / 3_600, offset.abs() / 60 % 60) {
            (0, 0) => "UTC".to_owned(),
            (hours, 0) => format!("{sign}{hours:02}"),
            (hours, minutes) => format!("{sign}{hours:02}:{minutes:02}"),
        }
    }
}
