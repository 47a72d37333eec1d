//! Interface of the encoders of rows as text.

use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use datafusion::arrow::util::display::FormatOptions;
use datafusion::common::Result;

/// Encoder of the rows of one file.
pub(super) trait Encoder: Send {
    /// Appends the bytes before the rows to `out`, such as a header.
    fn begin(&mut self, schema: &Schema, out: &mut Vec<u8>);

    /// Appends the rows of `batch` to `out`.
    fn rows(&mut self, batch: &RecordBatch, out: &mut Vec<u8>) -> Result<()>;

    /// Appends the bytes after the rows to `out`.
    fn end(&mut self, out: &mut Vec<u8>);
}

/// Formats of dates, times and timestamps, as PostgreSQL and DuckDB write them.
pub(super) const TIMES: FormatOptions<'static> = FormatOptions::new()
    .with_timestamp_format(Some("%Y-%m-%d %H:%M:%S%.f"))
    .with_timestamp_tz_format(Some("%Y-%m-%d %H:%M:%S%.f%:z"))
    .with_datetime_format(Some("%Y-%m-%d %H:%M:%S%.f"));
