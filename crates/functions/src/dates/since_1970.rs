//! DataFusion's functions that convert a number to a timestamp, with a check of the number.
//!
//! DataFusion converts NaN to 1970 and infinity to its last timestamp, and returns timestamps
//! outside of the calendar, which cannot be displayed.

use std::collections::HashMap;
use std::sync::Arc;

use chrono::{DateTime, Utc};
use datafusion::arrow::array::AsArray as _;
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, exec_err};
use datafusion::logical_expr::{ScalarFunctionArgs, ScalarUDF};

use crate::checked::{Check, Checked, rows};

/// Returns functions that replace those of `session`, with the check.
pub(crate) fn functions(session: &HashMap<String, Arc<ScalarUDF>>) -> Vec<Arc<ScalarUDF>> {
    let checks: [(&str, Check); 4] = [
        ("to_timestamp_seconds", |name, args| check(name, args, last_second())),
        ("to_timestamp_millis", |name, args| check(name, args, last_second() * 1e3)),
        ("to_timestamp_micros", |name, args| check(name, args, last_second() * 1e6)),
        ("from_unixtime", |name, args| check(name, args, last_second())),
    ];
    let checked = checks.into_iter().filter_map(|(name, check)| {
        session.get(name).map(|function| Checked::over(Arc::clone(function), check))
    });
    checked.collect()
}

/// The seconds from 1970 to the last moment of the calendar.
#[expect(clippy::cast_precision_loss, reason = "less than 53 bits")]
fn last_second() -> f64 {
    DateTime::<Utc>::MAX_UTC.timestamp() as f64
}

/// Refuses numbers that are not between `-most` and `most`.
fn check(name: &str, args: &ScalarFunctionArgs, most: f64) -> Result<()> {
    let Some(argument) = args.args.first() else { return Ok(()) };
    if !argument.data_type().is_numeric() {
        return Ok(());
    }
    let numbers = cast(&argument.to_array(rows(args))?, &DataType::Float64)?;
    let numbers = numbers.as_primitive::<Float64Type>();
    match numbers.iter().flatten().find(|number| number.is_nan() || number.abs() > most) {
        Some(number) => exec_err!("{name}: {number} is out of range of timestamps"),
        None => Ok(()),
    }
}
