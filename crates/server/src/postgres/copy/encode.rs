//! Encoder of the rows that COPY sends.

use bytes::{BufMut as _, BytesMut};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use terrace_sql::session::CopyFormat;

use super::super::cell::{ColumnWriter, Format};

/// The first bytes of the binary format.
pub(super) const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";

/// Returns the wire format of the values of a COPY: binary, or text for the text and CSV formats.
pub(super) fn format_of(format: &CopyFormat) -> Format {
    if *format == CopyFormat::Binary { Format::Binary } else { Format::Text }
}

/// Encodes rows in a format of COPY.
pub(crate) struct RowEncoder<'a>(&'a CopyFormat);

impl<'a> RowEncoder<'a> {
    pub(crate) fn new(format: &'a CopyFormat) -> Self {
        Self(format)
    }

    /// Appends the bytes that precede the rows.
    pub(crate) fn begin(&self, schema: &SchemaRef, out: &mut BytesMut) {
        if *self.0 == CopyFormat::Binary {
            out.put_slice(SIGNATURE);
            // No flags and no header extension.
            out.put_i32(0);
            out.put_i32(0);
        }
        if self.0.has_header() {
            for (index, field) in schema.fields().iter().enumerate() {
                self.separate(index, out);
                self.value(field.name().as_bytes(), out);
            }
            out.put_u8(b'\n');
        }
    }

    /// Returns writers for the columns of a batch; timestamps with a time zone are shown in `zone`.
    pub(crate) fn columns(
        &self,
        batch: &RecordBatch,
        zone: Tz,
    ) -> Result<Vec<ColumnWriter>, ArrowError> {
        let (schema, format) = (batch.schema_ref(), format_of(self.0));
        let columns = batch.columns().iter().zip(schema.fields());
        columns.map(|(array, field)| ColumnWriter::of_field(array, field, format, zone)).collect()
    }

    /// Appends a row of a batch.
    pub(crate) fn row(&self, columns: &[ColumnWriter], row: usize, out: &mut BytesMut) {
        if *self.0 == CopyFormat::Binary {
            out.put_i16(i16::try_from(columns.len()).unwrap_or(i16::MAX));
            columns.iter().for_each(|column| column.append_with_length(row, out));
            return;
        }
        let mut value = BytesMut::new();
        for (index, column) in columns.iter().enumerate() {
            self.separate(index, out);
            if column.is_null(row) {
                out.put_slice(self.0.null().as_bytes());
            } else {
                value.clear();
                column.append(row, &mut value);
                self.value(&value, out);
            }
        }
        out.put_u8(b'\n');
    }

    /// Appends the bytes that follow the rows.
    pub(crate) fn end(&self, out: &mut BytesMut) {
        if *self.0 == CopyFormat::Binary {
            out.put_i16(-1);
        }
    }

    fn separate(&self, index: usize, out: &mut BytesMut) {
        if let (1.., CopyFormat::Text { delimiter, .. } | CopyFormat::Csv { delimiter, .. }) =
            (index, self.0)
        {
            out.put_u8(*delimiter);
        }
    }

    fn value(&self, value: &[u8], out: &mut BytesMut) {
        match self.0 {
            CopyFormat::Text { delimiter, .. } => {
                for byte in value {
                    match byte {
                        b'\\' => out.put_slice(b"\\\\"),
                        0x08 => out.put_slice(b"\\b"),
                        0x0c => out.put_slice(b"\\f"),
                        b'\n' => out.put_slice(b"\\n"),
                        b'\r' => out.put_slice(b"\\r"),
                        b'\t' => out.put_slice(b"\\t"),
                        0x0b => out.put_slice(b"\\v"),
                        byte if byte == delimiter => out.put_slice(&[b'\\', *byte]),
                        byte => out.put_u8(*byte),
                    }
                }
            }
            CopyFormat::Csv { delimiter, null, quote, escape, .. } => {
                let is_special = |byte: &u8| [*delimiter, *quote, b'\n', b'\r'].contains(byte);
                if !value.iter().any(is_special) && value != null.as_bytes() && value != b"\\." {
                    return out.put_slice(value);
                }
                out.put_u8(*quote);
                for byte in value {
                    if byte == quote || byte == escape {
                        out.put_u8(*escape);
                    }
                    out.put_u8(*byte);
                }
                out.put_u8(*quote);
            }
            CopyFormat::Binary => {}
        }
    }
}
