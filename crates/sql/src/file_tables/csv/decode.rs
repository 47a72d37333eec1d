//! Decoder of blocks of delimited values: values become columns.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array as _, ArrayRef, BinaryBuilder, BooleanArray, StringBuilder, StringViewBuilder,
};
use datafusion::arrow::compute::{CastOptions, can_cast_types, cast_with_options, filter};
use datafusion::arrow::datatypes::{DataType, IntervalUnit};
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use terrace_functions::columns::intervals_of_texts;

use super::super::guess::Guess;
use super::super::scan::{Block, Decoded};
use super::dialect::Value;
use super::lines::lines_in;
use super::plan::{FilePlan, ReadColumn};
use crate::bytea;

/// A block of consecutive rows of a file, which are not decoded yet.
pub(super) struct CsvBlock {
    pub(super) plan: Arc<FilePlan>,
    pub(super) bytes: Vec<u8>,
    /// The values of the rows, one row after the other.
    pub(super) values: Vec<Value>,
    /// Number of the line at the beginning of the bytes.
    pub(super) line: u64,
}

/// True if columns of this type can be read from text.
pub(crate) fn is_readable(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Binary | DataType::BinaryView | DataType::LargeBinary)
        || can_cast_types(&DataType::Utf8, data_type)
}

impl Block for CsvBlock {
    fn bytes(&self) -> usize {
        // Decoded columns take about as much as their text.
        2 * self.bytes.capacity() + self.values.capacity() * size_of::<Value>()
    }

    fn decode(&self) -> Result<Decoded> {
        let rows = self.values.len().checked_div(self.plan.width).unwrap_or(0);
        let mut bad = vec![false; if self.plan.ignore_errors { rows } else { 0 }];
        let columns = self.plan.columns.iter().map(|column| self.column(column, rows, &mut bad));
        let mut columns = columns.collect::<Result<Vec<_>>>()?;
        let dropped = bad.iter().filter(|bad| **bad).count();
        if dropped > 0 {
            let kept: BooleanArray = bad.iter().map(|bad| Some(!bad)).collect();
            for column in &mut columns {
                *column = filter(column, &kept)?;
            }
        }
        Ok(Decoded { columns, rows: rows - dropped })
    }
}

impl CsvBlock {
    /// Merges the types of the values of at most `most` rows into those of the columns. Returns the
    /// number of rows.
    pub(super) fn guess(&self, guesses: &mut [Guess], most: usize) -> usize {
        let rows = self.values.chunks(self.plan.width.max(1)).take(most);
        let count = rows.len();
        for values in rows {
            for (guess, value) in guesses.iter_mut().zip(values) {
                if *guess != Guess::Text && !self.is_null(value) {
                    let content = self.plan.dialect.content(&self.bytes, value);
                    let other = self.plan.numbers.guess(&String::from_utf8_lossy(&content));
                    *guess = std::mem::take(guess).or(other);
                }
            }
        }
        count
    }

    /// True for a value that is absent or stands for a null.
    fn is_null(&self, value: &Value) -> bool {
        if value.is_absent {
            return true;
        }
        if value.is_quoted && !self.plan.quoted_nulls {
            return false;
        }
        // In the format `text`, an escaped text is not null: the raw bytes are compared.
        let content = match self.plan.dialect.is_text {
            true => Cow::Borrowed(&self.bytes[value.start..value.end]),
            false => self.plan.dialect.content(&self.bytes, value),
        };
        self.plan.nulls.iter().any(|null| null.as_bytes() == content.as_ref())
    }

    /// Decodes a column; marks rows whose value does not fit if the plan skips them.
    fn column(&self, column: &ReadColumn, rows: usize, bad: &mut [bool]) -> Result<ArrayRef> {
        let data_type = &column.data_type;
        let Some(place) = column.place else {
            return Ok(datafusion::arrow::array::new_null_array(data_type, rows));
        };
        match data_type {
            DataType::Utf8View => {
                let mut builder = StringViewBuilder::with_capacity(rows);
                for row in 0..rows {
                    builder.append_option(self.text(row, place, column, bad)?);
                }
                Ok(Arc::new(builder.finish()))
            }
            DataType::Binary | DataType::BinaryView | DataType::LargeBinary => {
                self.binary_column(column, place, rows, bad)
            }
            data_type => {
                let mut builder = StringBuilder::with_capacity(rows, self.bytes.len());
                for row in 0..rows {
                    let text = self.text(row, place, column, bad)?;
                    let text = text.as_deref().map(str::trim);
                    builder.append_option(text.map(|text| self.number(data_type, text)));
                }
                let texts: ArrayRef = Arc::new(builder.finish());
                let converted = match data_type {
                    DataType::Interval(IntervalUnit::MonthDayNano) => intervals_of_texts(&texts)?,
                    _ => cast_with_options(&texts, data_type, &CastOptions::default())?,
                };
                if converted.null_count() > texts.null_count() {
                    for row in (0..rows).filter(|row| converted.is_null(*row)) {
                        if texts.is_valid(row) {
                            self.refuse_value(row, place, column, bad)?;
                        }
                    }
                }
                Ok(converted)
            }
        }
    }

    /// The text of a value for the cast to `data_type`: for a numeric type, a number in the syntax
    /// of SQL, or an empty text, which does not cast, if `text` is not a number in the format.
    fn number<'a>(&self, data_type: &DataType, text: &'a str) -> Cow<'a, str> {
        match data_type.is_numeric() {
            true => self.plan.numbers.plain(text).unwrap_or_default(),
            false => Cow::Borrowed(text),
        }
    }

    fn binary_column(
        &self,
        column: &ReadColumn,
        place: usize,
        rows: usize,
        bad: &mut [bool],
    ) -> Result<ArrayRef> {
        let mut builder = BinaryBuilder::new();
        for row in 0..rows {
            match self.text(row, place, column, bad)?.map(|text| bytea::parse(&text)) {
                None => builder.append_null(),
                Some(Some(bytes)) => builder.append_value(bytes),
                Some(None) => {
                    self.refuse_value(row, place, column, bad)?;
                    builder.append_null();
                }
            }
        }
        let bytes: ArrayRef = Arc::new(builder.finish());
        Ok(cast_with_options(&bytes, &column.data_type, &CastOptions::default())?)
    }

    /// The text of a value; `None` for a null.
    fn text(
        &self,
        row: usize,
        place: usize,
        column: &ReadColumn,
        bad: &mut [bool],
    ) -> Result<Option<Cow<'_, str>>> {
        let value = &self.values[row * self.plan.width + place];
        if self.is_null(value) {
            return Ok(None);
        }
        let content = self.plan.dialect.content(&self.bytes, value);
        let text = match content {
            Cow::Borrowed(bytes) => std::str::from_utf8(bytes).map(Cow::Borrowed).ok(),
            Cow::Owned(bytes) => String::from_utf8(bytes).map(Cow::Owned).ok(),
        };
        if text.is_some() {
            return Ok(text);
        }
        let error = self.error(row, column, "the value is not UTF-8".to_owned());
        mark(bad, row, error)?;
        Ok(None)
    }

    fn refuse_value(
        &self,
        row: usize,
        place: usize,
        column: &ReadColumn,
        bad: &mut [bool],
    ) -> Result<()> {
        const SHOWN_CHARS_MAX: usize = 100;
        let value = &self.values[row * self.plan.width + place];
        let content = self.plan.dialect.content(&self.bytes, value);
        let text = String::from_utf8_lossy(&content);
        let shown: String = text.chars().take(SHOWN_CHARS_MAX).collect();
        let dots = if shown.len() < text.len() { "..." } else { "" };
        let name = type_name(&column.data_type);
        let what = format!("'{shown}{dots}' is no {name}{}", self.plan.suggestion(column));
        mark(bad, row, self.error(row, column, what))
    }

    fn error(&self, row: usize, column: &ReadColumn, what: String) -> DataFusionError {
        let width = self.plan.width;
        let start = self.values[row * width].start.min(self.bytes.len());
        let line = self.line + lines_in(&self.bytes[..start]);
        exec_datafusion_err!("{}, line {line}, column {}: {what}", self.plan.name, column.name)
    }
}

/// Marks a row that is skipped, or returns the error if rows are not skipped.
fn mark(bad: &mut [bool], row: usize, error: DataFusionError) -> Result<()> {
    match bad.get_mut(row) {
        Some(bad) => {
            *bad = true;
            Ok(())
        }
        None => Err(error),
    }
}

/// The name of a type in SQL, for errors.
fn type_name(data_type: &DataType) -> String {
    match data_type {
        DataType::Int8 => "TINYINT".to_owned(),
        DataType::Int16 => "SMALLINT".to_owned(),
        DataType::Int32 => "INTEGER".to_owned(),
        DataType::Int64 => "BIGINT".to_owned(),
        DataType::Float32 => "REAL".to_owned(),
        DataType::Float64 => "DOUBLE".to_owned(),
        DataType::Boolean => "BOOLEAN".to_owned(),
        DataType::Date32 | DataType::Date64 => "DATE".to_owned(),
        DataType::Time32(_) | DataType::Time64(_) => "TIME".to_owned(),
        DataType::Timestamp(_, None) => "TIMESTAMP".to_owned(),
        DataType::Timestamp(_, Some(_)) => "TIMESTAMP WITH TIME ZONE".to_owned(),
        DataType::Decimal128(precision, scale) | DataType::Decimal256(precision, scale) => {
            format!("DECIMAL({precision}, {scale})")
        }
        DataType::Binary | DataType::BinaryView | DataType::LargeBinary => "BYTEA".to_owned(),
        other => other.to_string(),
    }
}
