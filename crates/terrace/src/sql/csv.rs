//! Results as comma-separated values: a null is empty, an empty text is quoted, as in PostgreSQL.

use std::fmt::Write as _;
use std::io::Write;

use datafusion::arrow::array::{Array as _, RecordBatch};
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

/// Writer of one result as CSV, or as plain values separated by `|`.
pub struct CsvPrinter<W: Write> {
    output: W,
    /// Lines that are not written yet.
    lines: String,
    /// True for values alone, which are not quoted.
    is_plain: bool,
}

impl<W: Write> CsvPrinter<W> {
    /// Creates a writer and writes the names of the columns.
    ///
    /// # Errors
    /// If the output is closed.
    pub fn new(schema: &Schema, output: W) -> Result<Self, ArrowError> {
        let mut printer = Self { output, lines: String::new(), is_plain: false };
        for (place, field) in schema.fields().iter().enumerate() {
            printer.separate(place);
            printer.push(field.name());
        }
        printer.lines.push('\n');
        printer.flush()?;
        Ok(printer)
    }

    /// Creates a writer of values alone, without the names of the columns.
    pub fn plain(output: W) -> Self {
        Self { output, lines: String::new(), is_plain: true }
    }

    /// Writes the rows of a batch.
    ///
    /// # Errors
    /// If a value has no text or the output is closed.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<(), ArrowError> {
        let options = FormatOptions::default();
        let columns = batch.columns().iter().map(|column| {
            // Arrays of type NULL have no nulls of their own.
            Ok((column.logical_nulls(), ArrayFormatter::try_new(column.as_ref(), &options)?))
        });
        let columns = columns.collect::<Result<Vec<_>, ArrowError>>()?;
        let mut text = String::new();
        for row in 0..batch.num_rows() {
            for (place, (nulls, values)) in columns.iter().enumerate() {
                self.separate(place);
                if nulls.as_ref().is_some_and(|nulls| nulls.is_null(row)) {
                    continue;
                }
                text.clear();
                values.value(row).write(&mut text)?;
                self.push(&text);
            }
            self.lines.push('\n');
        }
        self.flush()
    }

    /// Finishes the result and returns the output.
    pub fn into_inner(self) -> W {
        self.output
    }

    fn separate(&mut self, place: usize) {
        if place > 0 {
            self.lines.push(if self.is_plain { '|' } else { ',' });
        }
    }

    /// Appends a value that is not null.
    fn push(&mut self, value: &str) {
        let is_special = value.is_empty() || value.contains([',', '"', '\n', '\r']);
        if is_special && !self.is_plain {
            // Writing to a string cannot fail.
            let _ = write!(self.lines, "\"{}\"", value.replace('"', "\"\""));
        } else {
            self.lines.push_str(value);
        }
    }

    fn flush(&mut self) -> Result<(), ArrowError> {
        self.output.write_all(self.lines.as_bytes())?;
        self.lines.clear();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::{ArrayRef, Int64Array, NullArray, StringArray};

    use super::*;

    /// The lines are those of `psql -At` of PostgreSQL 15.
    #[test]
    fn values_alone_are_not_quoted() {
        let texts = StringArray::from(vec![Some("a,\"b\"\nc"), None, Some("")]);
        let batch = RecordBatch::try_from_iter([
            ("t", Arc::new(texts) as ArrayRef),
            ("n", Arc::new(Int64Array::from(vec![Some(1), Some(2), None]))),
        ]);
        let mut printer = CsvPrinter::plain(Vec::new());
        printer.write(&batch.expect("batch")).expect("written");
        let text = String::from_utf8(printer.into_inner()).expect("text");
        assert_eq!(text, "a,\"b\"\nc|1\n|2\n|\n");
    }

    /// The lines are those of COPY ... TO STDOUT (FORMAT csv, HEADER) of PostgreSQL 15.
    #[test]
    fn nulls_and_empty_texts_differ() {
        let texts = StringArray::from(vec![Some(""), None, Some("a,\"b\""), Some(" x\ny")]);
        let batch = RecordBatch::try_from_iter([
            ("t", Arc::new(texts) as ArrayRef),
            ("n", Arc::new(Int64Array::from(vec![Some(1), None, Some(2), None]))),
            ("z", Arc::new(NullArray::new(4))),
        ]);
        let batch = batch.expect("batch");
        let mut printer = CsvPrinter::new(&batch.schema(), Vec::new()).expect("printer");
        printer.write(&batch).expect("written");
        let text = String::from_utf8(printer.into_inner()).expect("text");
        assert_eq!(text, "t,n,z\n\"\",1,\n,,\n\"a,\"\"b\"\"\",2,\n\" x\ny\",,\n");
    }
}
