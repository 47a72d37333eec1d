//! Encoder of rows as JSON objects, one in each line or in an array.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::json::WriterBuilder;
use datafusion::arrow::json::writer::LineDelimited;
use datafusion::common::Result;

use super::interface::Encoder;

/// Encoder of rows as JSON objects.
#[derive(Clone, Debug, Default)]
pub(super) struct JsonEncoder {
    /// True if the objects are the elements of an array.
    pub(super) is_array: bool,
    has_rows: bool,
}

impl Encoder for JsonEncoder {
    fn begin(&mut self, _: &Schema, out: &mut Vec<u8>) {
        if self.is_array {
            out.push(b'[');
        }
    }

    fn rows(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()> {
        let builder = WriterBuilder::new()
            .with_explicit_nulls(true)
            .with_timestamp_format("%Y-%m-%d %H:%M:%S%.f".to_owned())
            .with_timestamp_tz_format("%Y-%m-%d %H:%M:%S%.f%:z".to_owned());
        if !self.is_array {
            let mut writer = builder.build::<_, LineDelimited>(out);
            writer.write(batch)?;
            return Ok(writer.finish()?);
        }
        let mut lines = vec![];
        let mut writer = builder.build::<_, LineDelimited>(&mut lines);
        writer.write(batch)?;
        writer.finish()?;
        drop(writer);
        // A line end in a value is escaped.
        for line in lines.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let separator: &[u8] = if self.has_rows { b",\n\t" } else { b"\n\t" };
            out.extend_from_slice(separator);
            out.extend_from_slice(line);
            self.has_rows = true;
        }
        Ok(())
    }

    fn end(&mut self, out: &mut Vec<u8>) {
        if self.is_array {
            out.extend_from_slice(b"\n]\n");
        }
    }
}
