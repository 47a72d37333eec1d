//! `to_date` and `to_timestamp` of a text and a template, as in PostgreSQL.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{NaiveDate, NaiveDateTime, TimeDelta};
use datafusion::arrow::array::{
    ArrayRef, AsArray as _, Date32Array, StringArray, TimestampMicrosecondArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err};
use datafusion::logical_expr::{ColumnarValue, ScalarFunctionArgs, ScalarUDF};
use terrace_functions::{Instead, instead};

use super::super::timezone::{moment as instant, parsed};
use super::moment::{Moment, moment};
use super::pattern::Pattern;
use super::reader::parts;

/// Returns `to_date` and `to_timestamp` with templates; other calls go to the functions of the same
/// names in `session`.
pub(crate) fn functions(session: &HashMap<String, Arc<ScalarUDF>>) -> Vec<Arc<ScalarUDF>> {
    let both: [(&str, Instead); 2] = [("to_date", to_date), ("to_timestamp", to_timestamp)];
    let replaced = both.into_iter().filter_map(|(name, evaluate)| {
        session.get(name).map(|function| instead(Arc::clone(function), evaluate))
    });
    replaced.collect()
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

fn to_timestamp(args: &ScalarFunctionArgs) -> Result<Option<ColumnarValue>> {
    if let [texts @ ColumnarValue::Array(_)] = args.args.as_slice()
        && is_text(&texts.data_type())
    {
        // DataFusion returns columns without the time zone.
        return texts.cast_to(args.return_type(), None).map(Some);
    }
    let name = match args.return_type() {
        DataType::Timestamp(_, zone) => zone.clone().unwrap_or_else(|| Arc::from("UTC")),
        other => return exec_err!("to_timestamp returns timestamps, not {other}"),
    };
    let zone = parsed(&name)?;
    let result = args.return_type();
    evaluate(args, |moments| {
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
            // The result is in nanoseconds.
            let found = found.filter(|micros| micros.checked_mul(1_000).is_some());
            found.map(Some).ok_or_else(|| {
                exec_datafusion_err!(
                    "timestamp out of range: {} is not between the years 1678 and 2261; use \
                     to_date for other dates",
                    moment.date
                )
            })
        });
        let instants = instants.collect::<Result<TimestampMicrosecondArray>>()?;
        Ok(cast(&instants.with_timezone(Arc::clone(&name)), result)?)
    })
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
