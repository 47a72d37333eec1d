//! Encoder of delimited values, and of PostgreSQL's format `text`.

use std::fmt::Write as _;

use datafusion::arrow::array::{Array as _, RecordBatch};
use datafusion::arrow::datatypes::{DataType, Schema};
use datafusion::arrow::util::display::ArrayFormatter;
use datafusion::common::{Result, exec_datafusion_err};

use super::super::csv::encode_escapes;
use super::interface::{Encoder, TIMES};

/// Encoder of delimited values.
#[derive(Clone, Debug)]
pub(super) struct CsvEncoder {
    pub(super) delimiter: u8,
    pub(super) quote: u8,
    pub(super) escape: u8,
    pub(super) null: String,
    pub(super) has_header: bool,
    /// Columns whose values are always quoted; `*` stands for all.
    pub(super) force_quote: Vec<String>,
    /// True if values are not quoted, and backslashes escape special characters.
    pub(super) is_text: bool,
}

impl CsvEncoder {
    /// The defaults of the format `csv`, which are DuckDB's: a header, and nulls as empty values
    /// without quotes.
    pub(super) const CSV: Self = Self {
        delimiter: b',',
        quote: b'"',
        escape: b'"',
        null: String::new(),
        has_header: true,
        force_quote: vec![],
        is_text: false,
    };

    /// The options of PostgreSQL's format `text`.
    pub(super) const TEXT: Self = Self {
        delimiter: b'\t',
        quote: 0,
        escape: 0,
        null: String::new(),
        has_header: false,
        force_quote: vec![],
        is_text: true,
    };

    fn is_forced(&self, name: &str) -> bool {
        self.force_quote.iter().any(|forced| forced == "*" || forced == name)
    }

    /// Appends a value that is not null.
    fn value(&self, value: &[u8], is_forced: bool, out: &mut Vec<u8>) {
        if self.is_text {
            return encode_escapes(value, self.delimiter, out);
        }
        let is_special = |byte: &u8| [self.delimiter, self.quote, b'\n', b'\r'].contains(byte);
        let is_quoted = is_forced
            || value.iter().any(is_special)
            || value == self.null.as_bytes()
            || value.first() == Some(&b' ')
            || value == b"\\.";
        if !is_quoted {
            return out.extend_from_slice(value);
        }
        out.push(self.quote);
        for byte in value {
            if *byte == self.quote || *byte == self.escape {
                out.push(self.escape);
            }
            out.push(*byte);
        }
        out.push(self.quote);
    }
}

impl Encoder for CsvEncoder {
    fn begin(&mut self, schema: &Schema, out: &mut Vec<u8>) {
        if !self.has_header {
            return;
        }
        for (place, field) in schema.fields().iter().enumerate() {
            if place > 0 {
                out.push(self.delimiter);
            }
            self.value(field.name().as_bytes(), self.is_forced(field.name()), out);
        }
        out.push(b'\n');
    }

    fn rows(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let schema = batch.schema();
        let columns = batch.columns().iter().zip(schema.fields());
        let columns = columns.map(|(array, field)| {
            let is_bytes = matches!(
                array.data_type(),
                DataType::Binary | DataType::BinaryView | DataType::LargeBinary
            );
            let formatter = ArrayFormatter::try_new(array.as_ref(), &TIMES)?;
            // Arrays of type NULL have no nulls of their own.
            Ok((array.logical_nulls(), formatter, is_bytes, self.is_forced(field.name())))
        });
        let columns = columns.collect::<Result<Vec<_>>>()?;
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            for (place, (nulls, formatter, is_bytes, is_forced)) in columns.iter().enumerate() {
                if place > 0 {
                    out.push(self.delimiter);
                }
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    out.extend_from_slice(self.null.as_bytes());
                    continue;
                }
                text.clear();
                if *is_bytes {
                    text.push_str("\\x");
                }
                let failed = |_| exec_datafusion_err!("a value has no text");
                write!(text, "{}", formatter.value(row)).map_err(failed)?;
                self.value(text.as_bytes(), *is_forced, out);
            }
            out.push(b'\n');
        }
        Ok(())
    }

    fn end(&mut self, _: &mut Vec<u8>) {}
}
