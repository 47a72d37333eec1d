//! Output of results: aligned columns, CSV, JSON.
//!
//! A printer receives a result batch by batch. A table keeps the rows that it shows, as text; the
//! other formats write each batch and drop it, so that results of any size can be written.

use std::io::Write;
use std::sync::Arc;

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::writer::{JsonArray, LineDelimited};
use datafusion::arrow::json::{Writer as JsonWriter, WriterBuilder};
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};

use terrace_functions::columns::{displayed, readable};
use terrace_functions::nested::flattened;

use crate::args::Format;
use crate::error::{CliError, Result};
use crate::sql::csv::CsvPrinter;
use crate::sql::json::FloatEncoders;
use crate::text_table::TextTable;

/// Format of results, and the number of rows to show.
#[derive(Clone, Copy, Debug)]
pub struct Style {
    /// Output format.
    pub format: Format,
    /// Maximum number of rows that a table shows; 0 for all.
    pub rows: usize,
    /// True if a table shows each value on a line of its own.
    pub is_expanded: bool,
}

/// Converts timestamps to the text that is shown, `2024-06-01 12:00:00`; those with a time zone are
/// shown in `zone`. For JSON they stay as they are, and are written in ISO 8601.
///
/// # Errors
/// For a timestamp out of the range of the calendar.
pub fn with_moments(batch: RecordBatch, style: Style, zone: Tz) -> Result<RecordBatch> {
    match style.format {
        Format::Json | Format::Ndjson => Ok(batch),
        Format::Table | Format::Csv | Format::Lines => displayed(&batch, zone).map_err(unprintable),
    }
}

/// Writer of one result in one of the formats.
pub enum Printer<W: Write> {
    /// Aligned columns.
    Table(Box<TablePrinter<W>>),
    /// Comma-separated values.
    Csv(CsvPrinter<W>),
    /// One JSON array of objects.
    Json(JsonWriter<W, JsonArray>),
    /// One JSON object per line.
    Ndjson(JsonWriter<W, LineDelimited>),
}

impl<W: Write> Printer<W> {
    /// Creates a printer of results with this schema.
    ///
    /// # Errors
    /// If the format cannot hold a column of the schema.
    pub fn new(style: Style, schema: &Schema, output: W) -> Result<Printer<W>> {
        let floats = Arc::new(FloatEncoders);
        let json =
            || WriterBuilder::new().with_explicit_nulls(true).with_encoder_factory(floats.clone());
        Ok(match style.format {
            Format::Table => Printer::Table(Box::new(TablePrinter::new(schema, style, output))),
            Format::Csv => Printer::Csv(CsvPrinter::new(schema, output).map_err(unprintable)?),
            Format::Json => Printer::Json(json().build(output)),
            Format::Ndjson => Printer::Ndjson(json().build(output)),
            Format::Lines => Printer::Csv(CsvPrinter::plain(output)),
        })
    }

    /// Writes a batch.
    ///
    /// # Errors
    /// If a value cannot be printed or the output is closed.
    pub fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        let batch = &readable(batch).map_err(unprintable)?;
        match self {
            Printer::Table(table) => table.write(batch),
            Printer::Csv(writer) => {
                let batch = flattened(batch).map_err(unprintable)?;
                writer.write(&batch).map_err(unprintable)
            }
            Printer::Json(writer) => writer.write(batch).map_err(unprintable),
            Printer::Ndjson(writer) => writer.write(batch).map_err(unprintable),
        }
    }

    /// Finishes the result.
    ///
    /// # Errors
    /// If the output is closed.
    pub fn finish(self) -> Result<()> {
        match self {
            Printer::Table(table) => table.finish(),
            Printer::Csv(writer) => Ok(writer.into_inner().flush()?),
            Printer::Json(mut writer) => {
                writer.finish().map_err(unprintable)?;
                let mut output = writer.into_inner();
                writeln!(output)?;
                Ok(output.flush()?)
            }
            Printer::Ndjson(mut writer) => {
                writer.finish().map_err(unprintable)?;
                Ok(writer.into_inner().flush()?)
            }
        }
    }
}

/// Keeps the rows to show as text, and counts all rows.
pub struct TablePrinter<W: Write> {
    output: W,
    table: TextTable,
    /// Names of the columns, if each value is on a line of its own.
    names: Option<Vec<String>>,
    shown: usize,
    limit: usize,
    rows: usize,
}

impl<W: Write> TablePrinter<W> {
    fn new(schema: &Schema, style: Style, output: W) -> TablePrinter<W> {
        let names: Vec<_> = schema.fields().iter().map(|field| field.name().clone()).collect();
        let table = TextTable::new(names.clone()).wide();
        let limit = if style.rows == 0 { usize::MAX } else { style.rows };
        let names = style.is_expanded.then_some(names);
        TablePrinter { output, table, names, shown: 0, limit, rows: 0 }
    }

    fn write(&mut self, batch: &RecordBatch) -> Result<()> {
        self.rows += batch.num_rows();
        let show = batch.num_rows().min(self.limit - self.shown);
        if show == 0 {
            return Ok(());
        }
        let options = FormatOptions::default()
            .with_null("NULL")
            .with_display_error(true)
            .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
            .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"));
        let columns = batch
            .columns()
            .iter()
            .map(|column| ArrayFormatter::try_new(column.as_ref(), &options))
            .collect::<std::result::Result<Vec<_>, _>>()
            .map_err(unprintable)?;
        for row in 0..show {
            let values = columns.iter().map(|column| column.value(row).to_string());
            self.shown += 1;
            let Some(names) = &self.names else {
                self.table.push(values);
                continue;
            };
            writeln!(self.output, "row {}", self.shown)?;
            let width = names.iter().map(|name| name.chars().count()).max().unwrap_or(0);
            for (name, value) in names.iter().zip(values) {
                writeln!(self.output, "  {name:width$}  {value}")?;
            }
        }
        Ok(())
    }

    fn finish(mut self) -> Result<()> {
        if self.names.is_none() {
            write!(self.output, "{}", self.table)?;
        }
        writeln!(self.output, "{}", row_note(self.rows, self.shown))?;
        Ok(self.output.flush()?)
    }
}

/// Formats the number of rows: `3 rows`, or `1000 rows, 100 shown`.
fn row_note(rows: usize, shown: usize) -> String {
    let noun = if rows == 1 { "row" } else { "rows" };
    match rows == shown {
        true => format!("{rows} {noun}"),
        false => format!("{rows} {noun}, {shown} shown"),
    }
}

/// Converts an error of Arrow's writers; an error of the output stays one.
fn unprintable(error: ArrowError) -> CliError {
    match error {
        ArrowError::IoError(_, source) => CliError::Output(source),
        other => CliError::Usage(format!("this result cannot be written: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{ArrayRef, Int64Array, ListArray, StringArray};
    use datafusion::arrow::datatypes::{DataType, Field, Int64Type, SchemaRef};

    use super::*;

    fn schema() -> SchemaRef {
        Arc::new(Schema::new(vec![
            Field::new("id", DataType::Int64, false),
            Field::new("name", DataType::Utf8, true),
        ]))
    }

    fn batch(first: i64) -> RecordBatch {
        let ids = Int64Array::from(vec![first, first + 1]);
        let names = StringArray::from(vec![Some("a,\"b"), None]);
        RecordBatch::try_new(schema(), vec![Arc::new(ids), Arc::new(names)]).expect("batch")
    }

    fn printed(format: Format, rows: usize, batches: i64) -> String {
        let mut output = Vec::new();
        let style = Style { format, rows, is_expanded: false };
        let mut printer = Printer::new(style, &schema(), &mut output).expect("printer");
        for number in 0..batches {
            printer.write(&batch(number * 2)).expect("written");
        }
        printer.finish().expect("finished");
        String::from_utf8(output).expect("text")
    }

    #[test]
    fn tables_show_a_limited_number_of_rows_and_count_all() {
        let text = printed(Format::Table, 3, 50);
        assert!(text.ends_with("100 rows, 3 shown\n"), "{text}");
        assert_eq!(text.lines().count(), 2 + 3 + 1);
        let text = printed(Format::Table, 0, 50);
        assert!(text.ends_with("100 rows\n"), "{text}");
        assert_eq!(text.lines().count(), 2 + 100 + 1);
        assert!(printed(Format::Table, 3, 0).ends_with("0 rows\n"));
        assert!(text.contains("NULL"));
    }

    #[test]
    fn csv_has_one_header_even_without_rows() {
        assert_eq!(printed(Format::Csv, 1, 0), "id,name\n");
        let expected = "id,name\n0,\"a,\"\"b\"\n1,\n2,\"a,\"\"b\"\n3,\n";
        assert_eq!(printed(Format::Csv, 1, 2), expected);
    }

    #[test]
    fn csv_has_lists_as_texts() {
        let lists =
            ListArray::from_iter_primitive::<Int64Type, _, _>([Some([Some(1), None]), None]);
        let batch = RecordBatch::try_from_iter([("l", Arc::new(lists) as ArrayRef)]);
        let batch = batch.expect("batch");
        let mut output = Vec::new();
        let style = Style { format: Format::Csv, rows: 0, is_expanded: false };
        let mut printer = Printer::new(style, &batch.schema(), &mut output).expect("printer");
        printer.write(&batch).expect("written");
        printer.finish().expect("finished");
        assert_eq!(String::from_utf8(output).expect("text"), "l\n\"[1, NULL]\"\n\n");
    }

    #[test]
    fn json_is_one_array_with_every_key() {
        let text = printed(Format::Json, 1, 2);
        let value: serde_json::Value = serde_json::from_str(&text).expect("json");
        assert_eq!(value.as_array().map(Vec::len), Some(4));
        assert!(value[1]["name"].is_null());
        assert!(value[1].as_object().expect("object").contains_key("name"));
        assert_eq!(printed(Format::Json, 1, 0), "[]\n");
    }

    #[test]
    fn ndjson_is_one_object_a_line() {
        let text = printed(Format::Ndjson, 1, 2);
        assert_eq!(text.lines().count(), 4);
        for line in text.lines() {
            serde_json::from_str::<serde_json::Value>(line).expect("json");
        }
        assert_eq!(printed(Format::Ndjson, 1, 0), "");
    }
}
