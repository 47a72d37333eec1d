//! `to_date` and `to_timestamp` of a text and a template, as in PostgreSQL.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, NaiveDate, NaiveDateTime, TimeDelta, Utc};
use datafusion::arrow::array::{
    ArrayRef, AsArray as _, Date32Array, StringArray, TimestampMicrosecondArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type, TimeUnit};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{
    Result, ScalarValue, exec_datafusion_err, exec_err, internal_err, plan_err,
};
use datafusion::logical_expr::{
    ColumnarValue, Documentation, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};
use terrace_functions::instead;
use terrace_table::unary::apply_to_one;

use super::super::timezone::{moment as instant, parsed};
use super::moment::{Moment, moment};
use super::pattern::Pattern;
use super::reader::parts;

const NAME: &str = "to_timestamp";

/// Returns `to_date` and `to_timestamp` with templates; other calls go to the functions of the same
/// names in `session`.
pub(crate) fn functions(session: &HashMap<String, Arc<ScalarUDF>>) -> Vec<Arc<ScalarUDF>> {
    let date = session.get("to_date").map(|function| instead(Arc::clone(function), to_date));
    let timestamp = session.get("to_timestamp").map(ToTimestamp::over);
    date.into_iter().chain(timestamp).collect()
}

fn to_date(args: &ScalarFunctionArgs) -> Result<Option<ColumnarValue>> {
    evaluate(args, |moments| {
        let days = moments.map(|moment| {
            let moment = moment?;
            Ok(moment.and_then(|moment| {
                let since = moment.date.signed_duration_since(NaiveDate::default());
                i32::try_from(since.num_days()).ok()
            }))
        });
        Ok(Arc::new(days.collect::<Result<Date32Array>>()?))
    })
}

/// `to_timestamp` of seconds since 1970, of a text, and of a text and a template. DataFusion's
/// returns nanoseconds, which end in 2262; it evaluates calls with several formats.
#[derive(Debug, PartialEq, Eq, Hash)]
struct ToTimestamp {
    function: Arc<ScalarUDF>,
    signature: Signature,
}

impl ToTimestamp {
    fn over(function: &Arc<ScalarUDF>) -> Arc<ScalarUDF> {
        Arc::new(Self::udf(Arc::clone(function)))
    }

    fn udf(function: Arc<ScalarUDF>) -> ScalarUDF {
        let signature = Signature::user_defined(Volatility::Immutable);
        ScalarUDF::new_from_impl(Self { function, signature })
    }
}

impl ScalarUDFImpl for ToTimestamp {
    fn name(&self) -> &str {
        self.function.name()
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn coerce_types(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [] => plan_err!("to_timestamp takes the seconds since 1970, or a text and a template"),
            [number] if number.is_numeric() => Ok(vec![DataType::Float64]),
            given => Ok(given.to_vec()),
        }
    }

    /// Microseconds in the time zone of the session.
    fn return_type(&self, given: &[DataType]) -> Result<DataType> {
        match self.function.return_type(given)? {
            DataType::Timestamp(_, zone) => Ok(DataType::Timestamp(TimeUnit::Microsecond, zone)),
            other => internal_err!("to_timestamp returns timestamps, not {other}"),
        }
    }

    fn with_updated_config(&self, config: &ConfigOptions) -> Option<ScalarUDF> {
        let function = self.function.inner().with_updated_config(config)?;
        Some(Self::udf(Arc::new(function)))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        let result = args.return_type().clone();
        let name = match &result {
            DataType::Timestamp(_, zone) => zone.clone().unwrap_or_else(|| Arc::from("UTC")),
            other => return internal_err!("to_timestamp returns timestamps, not {other}"),
        };
        match args.args.as_slice() {
            [seconds] if seconds.data_type().is_floating() => {
                return apply_to_one(NAME, &args.args, |seconds| {
                    let seconds = seconds.as_primitive::<Float64Type>();
                    let micros = seconds.iter().map(|it| it.map(micros_of).transpose());
                    let micros = micros.collect::<Result<TimestampMicrosecondArray>>()?;
                    Ok(Arc::new(micros.with_data_type(result.clone())))
                });
            }
            [value] => return value.cast_to(&result, None),
            _ => {}
        }
        let zone = parsed(&name)?;
        let moments = evaluate(&args, |moments| {
            let instants = moments.map(|moment| {
                let Some(moment) = moment? else { return Ok(None) };
                let local = local(&moment);
                let found = match moment.offset {
                    Some(offset) => local.and_then(|local| {
                        let instant = local.checked_sub_signed(TimeDelta::seconds(offset))?;
                        Some(instant.and_utc().timestamp_micros())
                    }),
                    None => local.and_then(|local| instant(local, zone)),
                };
                found
                    .map(Some)
                    .ok_or_else(|| exec_datafusion_err!("timestamp out of range: {}", moment.date))
            });
            let instants = instants.collect::<Result<TimestampMicrosecondArray>>()?;
            Ok(Arc::new(instants.with_data_type(result.clone())))
        })?;
        match moments {
            Some(moments) => Ok(moments),
            None => {
                let field = args.return_field.as_ref().clone();
                let of = self.function.return_type(&[])?;
                let return_field = Arc::new(field.with_data_type(of));
                let args = ScalarFunctionArgs { return_field, ..args };
                self.function.invoke_with_args(args)?.cast_to(&result, None)
            }
        }
    }

    fn documentation(&self) -> Option<&Documentation> {
        self.function.documentation()
    }
}

/// The microseconds since 1970 of `seconds`.
///
/// # Errors
/// If `seconds` is not a number, or beyond the calendar.
#[expect(clippy::cast_possible_truncation, reason = "bounded by the calendar")]
#[expect(clippy::cast_precision_loss, reason = "less than 53 bits")]
fn micros_of(seconds: f64) -> Result<i64> {
    let last = DateTime::<Utc>::MAX_UTC.timestamp() as f64;
    if seconds.is_nan() || seconds.abs() > last {
        return exec_err!("{NAME}: {seconds} is out of range of timestamps");
    }
    Ok((seconds * 1e6).round() as i64)
}

fn local(moment: &Moment) -> Option<NaiveDateTime> {
    let midnight = moment.date.and_time(chrono::NaiveTime::MIN);
    midnight.checked_add_signed(TimeDelta::microseconds(moment.time))
}

/// Maps the moments of a call with a text and a template; returns nothing for any other call.
fn evaluate(
    args: &ScalarFunctionArgs,
    map: impl Fn(&mut dyn Iterator<Item = Result<Option<Moment>>>) -> Result<ArrayRef>,
) -> Result<Option<ColumnarValue>> {
    let [text, template] = args.args.as_slice() else { return Ok(None) };
    let (texts, templates) = (text.data_type(), template.data_type());
    if !is_text(&texts) || !is_text(&templates) {
        return Ok(None);
    }
    let is_constant = [text, template].iter().all(|it| matches!(it, ColumnarValue::Scalar(_)));
    let rows = if is_constant { 1 } else { args.number_rows };
    let column = |value: &ColumnarValue| -> Result<StringArray> {
        let texts = cast(&value.to_array(rows)?, &DataType::Utf8)?;
        Ok(texts.as_string::<i32>().clone())
    };
    let (texts, templates) = (column(text)?, column(template)?);
    let mut known: Option<(&str, Pattern)> = None;
    let mut moments = texts.iter().zip(&templates).map(|(text, template)| {
        let Some((text, template)) = text.zip(template) else { return Ok(None) };
        let pattern = match &known {
            Some((of, pattern)) if *of == template => pattern,
            _ => &known.insert((template, Pattern::parsed(template)?)).1,
        };
        Ok(Some(moment(&parts(pattern, text)?, text)?))
    });
    let result = map(&mut moments)?;
    Ok(Some(match is_constant {
        true => ColumnarValue::Scalar(ScalarValue::try_from_array(&result, 0)?),
        false => ColumnarValue::Array(result),
    }))
}

/// True for a type of texts, and for that of nulls.
pub(super) fn is_text(of: &DataType) -> bool {
    match of {
        DataType::Dictionary(_, values) => values.is_string(),
        other => other.is_string() || other.is_null(),
    }
}
