//! Result values, in a form common to both databases.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, RecordBatch};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Date32Type, Decimal128Type, Decimal256Type, Float64Type, Int64Type, TimeUnit,
    TimestampMicrosecondType, UInt64Type,
};
use serde_json::Value as Json;

/// A value of a result.
#[derive(Clone, Debug, PartialEq)]
pub enum Cell {
    /// A null.
    Null,
    /// A Boolean.
    Bool(bool),
    /// A whole number or decimal: its digits without trailing zeros after the point, and the number
    /// of digits after the point.
    Exact(i128, u32),
    /// A float.
    Float(f64),
    /// Text.
    Text(String),
    /// Microseconds since 1970, for dates and timestamps with or without a time zone.
    Moment(i64),
}

/// An answer: rows, or an error.
pub type Answer = Result<Vec<Vec<Cell>>, String>;

const DAY_MICROSECONDS: i64 = 86_400_000_000;

impl Cell {
    /// Returns an exact number without trailing zeros after the point.
    #[must_use]
    pub fn exact(mut digits: i128, mut scale: u32) -> Self {
        while scale > 0 && digits % 10 == 0 {
            digits /= 10;
            scale -= 1;
        }
        Self::Exact(digits, scale)
    }

    /// Parses a value as the peer process writes it: a letter for the type, then the value.
    ///
    /// # Errors
    /// A message when the text is no value.
    pub fn parse(json: &Json) -> Result<Self, String> {
        let Some(text) = json.as_str() else { return Ok(Self::Null) };
        let broken = || format!("`{text}` is no value");
        let (letter, value) = text.split_at_checked(1).ok_or_else(broken)?;
        match letter {
            "b" => Ok(Self::Bool(value == "1")),
            "f" => value.parse().map(Self::Float).map_err(|_| broken()),
            "s" => Ok(Self::Text(value.to_owned())),
            "t" => value.parse().map(Self::Moment).map_err(|_| broken()),
            "n" => {
                let (whole, part) = value.split_once('.').unwrap_or((value, ""));
                let digits = format!("{whole}{part}").parse().map_err(|_| broken())?;
                let scale = u32::try_from(part.len()).map_err(|_| broken())?;
                Ok(Self::exact(digits, scale))
            }
            _ => Err(broken()),
        }
    }

    /// Returns the value as a number, if it is one.
    #[must_use]
    pub fn number(&self) -> Option<f64> {
        match self {
            Self::Float(value) => Some(*value),
            #[allow(clippy::cast_precision_loss, reason = "compared with a tolerance")]
            Self::Exact(digits, scale) => {
                let scale = i32::try_from(*scale).unwrap_or(i32::MAX);
                Some(*digits as f64 / 10_f64.powi(scale))
            }
            _ => None,
        }
    }
}

impl std::fmt::Display for Cell {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Null => f.write_str("NULL"),
            Self::Bool(value) => write!(f, "{value}"),
            Self::Exact(digits, 0) => write!(f, "{digits}"),
            Self::Exact(digits, scale) => write!(f, "{digits}e-{scale}"),
            Self::Float(value) => write!(f, "{value:?}"),
            Self::Text(value) => write!(f, "'{value}'"),
            Self::Moment(value) => write!(f, "@{value}"),
        }
    }
}

/// Returns the rows of batches.
///
/// # Errors
/// A message when a column has a type that the generated statements never give.
pub fn rows(batches: &[RecordBatch]) -> Result<Vec<Vec<Cell>>, String> {
    let mut rows = Vec::new();
    for batch in batches {
        let columns = batch.columns().iter().map(column).collect::<Result<Vec<_>, _>>()?;
        let row = |row: usize| columns.iter().map(|column| column[row].clone()).collect();
        rows.extend((0..batch.num_rows()).map(row));
    }
    Ok(rows)
}

fn column(array: &ArrayRef) -> Result<Vec<Cell>, String> {
    let to = |target: DataType| cast(array, &target).map_err(|error| error.to_string());
    let cells = |array: &dyn Array, cell: &dyn Fn(usize) -> Cell| {
        let value = |row| if array.is_null(row) { Cell::Null } else { cell(row) };
        (0..array.len()).map(value).collect()
    };
    Ok(match array.data_type() {
        DataType::Null => vec![Cell::Null; array.len()],
        DataType::Boolean => {
            let array = array.as_boolean();
            cells(array, &|row| Cell::Bool(array.value(row)))
        }
        DataType::UInt64 => {
            let array = array.as_primitive::<UInt64Type>();
            cells(array, &|row| Cell::Exact(i128::from(array.value(row)), 0))
        }
        it if it.is_integer() => {
            let array = to(DataType::Int64)?;
            let array = array.as_primitive::<Int64Type>();
            cells(array, &|row| Cell::Exact(i128::from(array.value(row)), 0))
        }
        it if it.is_floating() => {
            let array = to(DataType::Float64)?;
            let array = array.as_primitive::<Float64Type>();
            cells(array, &|row| Cell::Float(array.value(row)))
        }
        DataType::Decimal256(_, scale) => {
            let scale = u32::try_from(*scale).unwrap_or(0);
            let array = array.as_primitive::<Decimal256Type>();
            cells(array, &|row| Cell::exact(array.value(row).to_i128().unwrap_or(i128::MAX), scale))
        }
        DataType::Decimal128(_, scale) => {
            let scale = u32::try_from(*scale).unwrap_or(0);
            let array = array.as_primitive::<Decimal128Type>();
            cells(array, &|row| Cell::exact(array.value(row), scale))
        }
        DataType::Decimal32(precision, scale) | DataType::Decimal64(precision, scale) => {
            return column(&to(DataType::Decimal128((*precision).max(20), *scale))?);
        }
        DataType::Date32 | DataType::Date64 => {
            let array = to(DataType::Date32)?;
            let array = array.as_primitive::<Date32Type>();
            cells(array, &|row| Cell::Moment(i64::from(array.value(row)) * DAY_MICROSECONDS))
        }
        DataType::Timestamp(_, zone) => {
            let array = to(DataType::Timestamp(TimeUnit::Microsecond, zone.clone()))?;
            let array = array.as_primitive::<TimestampMicrosecondType>();
            cells(array, &|row| Cell::Moment(array.value(row)))
        }
        DataType::Utf8 | DataType::LargeUtf8 | DataType::Utf8View | DataType::Dictionary(_, _) => {
            let array = to(DataType::Utf8)?;
            let array = array.as_string::<i32>();
            cells(array, &|row| Cell::Text(array.value(row).to_owned()))
        }
        other => return Err(format!("a column of type {other}")),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_the_peer_are_read() {
        let parse = |text: &str| Cell::parse(&Json::String(text.to_owned()));
        assert_eq!(parse("n-1.250"), Ok(Cell::Exact(-125, 2)));
        assert_eq!(parse("n-0.50"), Ok(Cell::Exact(-5, 1)));
        assert_eq!(parse("n7"), Ok(Cell::Exact(7, 0)));
        assert_eq!(parse("s"), Ok(Cell::Text(String::new())));
        assert_eq!(parse("finf"), Ok(Cell::Float(f64::INFINITY)));
        assert_eq!(Cell::parse(&Json::Null), Ok(Cell::Null));
        assert!(parse("").is_err() && parse("q1").is_err());
    }
}
