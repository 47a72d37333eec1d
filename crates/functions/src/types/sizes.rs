//! Numbers of bytes as texts.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use crate::scalar::{Call, Definition, Int, Kind, Overload, Text};

const NUMBER: &[Kind] = &[Kind::Integer];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("pg_size_pretty", &[Overload::new(NUMBER, Kind::Text, pg_size_pretty)]),
    Definition::new("pg_size_bytes", &[Overload::new(&[Kind::Text], Kind::Integer, pg_size_bytes)]),
    Definition::new("format_bytes", &[Overload::new(NUMBER, Kind::Text, binary)])
        .alias(&["formatreadablesize"]),
    Definition::new("formatreadabledecimalsize", &[Overload::new(NUMBER, Kind::Text, decimal)]),
];

/// The units of PostgreSQL from 1,024 bytes on.
const PG_UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];
/// The number of a unit from which the next larger one is used.
const PG_LIMIT: u64 = 10 * 1_024;
const BINARY_UNITS: [&str; 5] = ["KiB", "MiB", "GiB", "TiB", "PiB"];
const DECIMAL_UNITS: [&str; 5] = ["kB", "MB", "GB", "TB", "PB"];

fn pg_size_pretty(call: &Call) -> Result<ArrayRef> {
    call.map1::<Int, Text>(|bytes| {
        let sign = if bytes < 0 { "-" } else { "" };
        let bytes = bytes.unsigned_abs();
        if bytes < PG_LIMIT {
            return Ok(Some(format!("{sign}{bytes} bytes").into()));
        }
        // Twice the number of the unit, so that halves are rounded up in the end.
        let mut twice = bytes >> 9;
        let mut units = PG_UNITS.iter();
        let mut unit = units.next();
        while twice >= 2 * PG_LIMIT - 1 {
            let Some(next) = units.next() else { break };
            (twice, unit) = (twice >> 10, Some(next));
        }
        Ok(Some(format!("{sign}{} {}", twice.div_ceil(2), unit.unwrap_or(&"")).into()))
    })
}

/// The number of bytes that a text such as `1.5 MB` denotes.
fn pg_size_bytes(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Int>(|text| {
        let size = text.trim();
        let is_number = |letter: char| letter.is_ascii_digit() || "+-.".contains(letter);
        let (number, unit) = size.split_at(size.find(|it| !is_number(it)).unwrap_or(size.len()));
        let unit = match unit.trim().to_ascii_lowercase().as_str() {
            "" | "bytes" | "b" => Some(0),
            unit => PG_UNITS.iter().position(|it| it.eq_ignore_ascii_case(unit)).map(|it| it + 1),
        };
        let unit = unit.and_then(|unit| i32::try_from(unit).ok());
        let bytes = number
            .parse::<f64>()
            .ok()
            .zip(unit)
            .map(|(number, unit)| (number * 1_024_f64.powi(unit)).round());
        match bytes {
            // Sizes below 2^53 are exact.
            #[expect(clippy::cast_possible_truncation, reason = "the range is checked")]
            Some(bytes) if bytes.abs() < 9e18 => Ok(Some(bytes as i64)),
            _ => exec_err!("{text:?} is no size; write a number and bytes, kB, MB, GB, TB or PB"),
        }
    })
}

fn binary(call: &Call) -> Result<ArrayRef> {
    readable(call, 1_024, &BINARY_UNITS)
}

fn decimal(call: &Call) -> Result<ArrayRef> {
    readable(call, 1_000, &DECIMAL_UNITS)
}

/// Numbers of bytes in the largest unit that fits, with one digit behind the point, truncated;
/// `step` is the factor between units.
fn readable(call: &Call, step: u64, units: &[&str]) -> Result<ArrayRef> {
    call.map1::<Int, Text>(|bytes| {
        let sign = if bytes < 0 { "-" } else { "" };
        let bytes = u128::from(bytes.unsigned_abs());
        let step = u128::from(step);
        if bytes < step {
            let plural = if bytes == 1 { "" } else { "s" };
            return Ok(Some(format!("{sign}{bytes} byte{plural}").into()));
        }
        let mut size = step;
        let mut unit = "";
        for name in units {
            if !unit.is_empty() {
                if bytes < size * step {
                    break;
                }
                size *= step;
            }
            unit = name;
        }
        let tenths = bytes * 10 / size;
        Ok(Some(format!("{sign}{}.{} {unit}", tenths / 10, tenths % 10).into()))
    })
}
