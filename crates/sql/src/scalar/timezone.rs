//! `x AT TIME ZONE z`.

use std::sync::Arc;

use chrono::NaiveDateTime;
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{Array, ArrayRef, AsArray, TimestampMicrosecondArray};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, TimeUnit, TimestampMicrosecondType};
use datafusion::common::{
    DataFusionError, Result, ScalarValue, exec_datafusion_err, plan_datafusion_err, plan_err,
};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use terrace_functions::instant_of;

const NAME: &str = "timezone";

/// `timezone(zone, timestamp)`, the function that `timestamp AT TIME ZONE zone` is rewritten to.
///
/// A timestamp with time zone becomes the local time in `zone`, without time zone; a timestamp
/// without becomes the instant at which that is the local time in `zone`, as in PostgreSQL. The
/// zone is the name of a zone or an offset. Instants in a constant zone have that zone in their
/// type, those of zones that differ from row to row have UTC.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct TimeZoneConversion {
    /// True for calls of statements, whose offsets have POSIX's sign: west of UTC is positive.
    is_posix: bool,
    signature: Signature,
}

impl TimeZoneConversion {
    pub(crate) fn new() -> Self {
        Self { is_posix: true, signature: Signature::user_defined(Volatility::Immutable) }
    }

    /// A call of the function with a session's `zone`, whose offset has ISO 8601's sign; it
    /// converts `instant`, a timestamp in microseconds.
    pub(crate) fn call(zone: Expr, instant: Expr) -> Expr {
        let conversion = Self { is_posix: false, ..Self::new() };
        ScalarUDF::new_from_impl(conversion).call(vec![zone, instant])
    }

    /// The name of a zone that exists, as [`Self::zone`].
    fn known_zone(&self, text: &str) -> Result<String> {
        let name = self.zone(text);
        // The error has the text as it was given.
        name.parse::<Tz>().map_err(|_| no_zone(text))?;
        Ok(name)
    }

    /// The name of a zone as the time zone database spells it, or an offset with ISO 8601's sign.
    fn zone(&self, text: &str) -> String {
        match text.split_at_checked(1) {
            Some(("+", offset)) if self.is_posix => format!("-{offset}"),
            Some(("-", offset)) if self.is_posix => format!("+{offset}"),
            _ => spelled(text).to_owned(),
        }
    }
}

impl ScalarUDFImpl for TimeZoneConversion {
    fn name(&self) -> &str {
        NAME
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, arg_types: &[DataType]) -> Result<Vec<DataType>> {
        let [_, value] = arg_types else {
            return plan_err!("{NAME} takes a time zone and a timestamp");
        };
        let value = match value {
            DataType::Timestamp(_, zone) => {
                DataType::Timestamp(TimeUnit::Microsecond, zone.clone())
            }
            DataType::Date32
            | DataType::Date64
            | DataType::Utf8
            | DataType::Utf8View
            | DataType::LargeUtf8
            | DataType::Null => DataType::Timestamp(TimeUnit::Microsecond, None),
            other => return plan_err!("{NAME} takes a timestamp, not {other}; cast it"),
        };
        Ok(vec![DataType::Utf8, value])
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        plan_err!("the type of {NAME} depends on its time zone")
    }

    fn return_field_from_args(&self, args: ReturnFieldArgs) -> Result<FieldRef> {
        let zone = args.scalar_arguments.first().copied().flatten();
        let zone = zone.and_then(|zone| zone.try_as_str().flatten());
        let name = zone.map_or_else(|| Ok("UTC".to_owned()), |zone| self.known_zone(zone))?;
        let result = match args.arg_fields[1].data_type() {
            DataType::Timestamp(_, Some(_)) => None,
            _ => Some(Arc::from(name)),
        };
        let result = DataType::Timestamp(TimeUnit::Microsecond, result);
        Ok(Arc::new(Field::new(NAME, result, true)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let value = &args.args[1];
        let zone = match &args.args[0] {
            ColumnarValue::Array(zones) => {
                let values = value.to_array(args.number_rows)?;
                return Ok(ColumnarValue::Array(self.converted_singly(&values, zones)?));
            }
            ColumnarValue::Scalar(zone) => zone.try_as_str().flatten(),
        };
        let Some(zone) = zone.map(|zone| self.zone(zone)) else {
            return Ok(ColumnarValue::Scalar(ScalarValue::try_from(args.return_type())?));
        };
        match value {
            ColumnarValue::Array(array) => Ok(ColumnarValue::Array(converted(array, &zone)?)),
            ColumnarValue::Scalar(scalar) => {
                let array = converted(&scalar.to_array_of_size(1)?, &zone)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&array, 0)?))
            }
        }
    }
}

impl TimeZoneConversion {
    /// Converts each value by the zone in its row; runs of rows with the same zone together.
    fn converted_singly(&self, values: &ArrayRef, zones: &ArrayRef) -> Result<ArrayRef> {
        let zones = cast(zones, &DataType::Utf8View)?;
        let zones = zones.as_string_view();
        let zone_of = |row: usize| (!zones.is_null(row)).then(|| zones.value(row));
        let (mut parts, mut begin) = (Vec::new(), 0);
        while begin < values.len() {
            let zone = zone_of(begin);
            let end = (begin + 1..values.len()).find(|row| zone_of(*row) != zone);
            let count = end.unwrap_or(values.len()) - begin;
            let part = values.slice(begin, count);
            let name = zone.map(|zone| self.known_zone(zone));
            // Local times are microseconds, and so are instants, whatever zone their type has.
            let of_part = match name.transpose()? {
                Some(name) => {
                    let of_part = converted(&part, &name)?;
                    let moments = of_part.as_primitive::<TimestampMicrosecondType>();
                    moments.clone().with_timezone_opt(None::<Arc<str>>)
                }
                None => TimestampMicrosecondArray::new_null(count),
            };
            parts.push(of_part);
            begin += count;
        }
        let is_instant = matches!(values.data_type(), DataType::Timestamp(_, Some(_)));
        let zone = (!is_instant).then(|| Arc::from("UTC"));
        let moments: TimestampMicrosecondArray = parts.iter().flatten().collect();
        Ok(Arc::new(moments.with_timezone_opt::<Arc<str>>(zone)))
    }
}

/// The error of a text that names no time zone.
fn no_zone(zone: &str) -> DataFusionError {
    plan_datafusion_err!("'{zone}' is no time zone; say one such as 'Europe/Berlin'")
}

/// Returns the name of a zone in the spelling of the time zone database: `UTC` for `utc`.
fn spelled(zone: &str) -> &str {
    if zone.parse::<Tz>().is_ok() {
        return zone;
    }
    let mut names = chrono_tz::TZ_VARIANTS.iter().map(|known| known.name());
    names.find(|name| name.eq_ignore_ascii_case(zone)).unwrap_or(zone)
}

/// Returns the time zone of a name or an offset.
///
/// # Errors
/// If there is no such zone.
pub(super) fn parsed(zone: &str) -> Result<Tz> {
    zone.parse::<Tz>().map_err(|_| no_zone(zone))
}

fn converted(array: &ArrayRef, zone: &str) -> Result<ArrayRef> {
    if let DataType::Timestamp(TimeUnit::Microsecond, Some(_)) = array.data_type() {
        let zone = parsed(zone)?;
        let moments = array.as_primitive::<TimestampMicrosecondType>();
        let local = |row: usize| {
            let moment = moments.value_as_datetime_with_tz(row, zone);
            moment.map(|moment| moment.naive_local().and_utc().timestamp_micros())
        };
        let local = (0..moments.len()).map(|row| match moments.is_null(row) {
            true => Ok(None),
            false => local(row).map(Some).ok_or_else(|| {
                exec_datafusion_err!("a timestamp is out of range in its time zone")
            }),
        });
        let local = local.collect::<Result<TimestampMicrosecondArray>>()?;
        return Ok(Arc::new(local));
    }
    let local = cast(array, &DataType::Timestamp(TimeUnit::Microsecond, None))?;
    let local = local.as_primitive::<TimestampMicrosecondType>();
    let parsed = parsed(zone)?;
    let moment = |row| local.value_as_datetime(row).and_then(|time| moment(time, parsed));
    let moments = (0..local.len()).map(|row| match local.is_null(row) {
        true => Ok(None),
        false => moment(row)
            .map(Some)
            .ok_or_else(|| exec_datafusion_err!("a local time of {zone} is out of range")),
    });
    let moments = moments.collect::<Result<TimestampMicrosecondArray>>()?;
    Ok(Arc::new(moments.with_timezone(zone)))
}

/// The instant of a local time in a time zone, in microseconds since 1970 in UTC.
pub(super) fn moment(local: NaiveDateTime, zone: Tz) -> Option<i64> {
    Some(instant_of(local, zone)?.and_utc().timestamp_micros())
}
