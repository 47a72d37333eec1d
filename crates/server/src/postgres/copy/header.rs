//! Header of the rows that a COPY receives: its names are compared with those of the columns.

use datafusion::arrow::datatypes::Schema;
use terrace_sql::session::CopyFormat;

use super::super::failure::{Failure, SqlState};
use super::line::values_of;

/// Compares the names of a header with those of the columns.
///
/// # Errors
/// Other names, or another number of them, in PostgreSQL's words.
pub(super) fn check_header(
    line: &[u8],
    schema: &Schema,
    format: &CopyFormat,
) -> Result<(), Failure> {
    let refuse = |text| Err(Failure::new(SqlState::BAD_COPY, text));
    let (values, fields) = (values_of(line, format), schema.fields());
    if values.len() != fields.len() {
        let (got, expected) = (values.len(), fields.len());
        return refuse(format!(
            "wrong number of fields in header line: got {got}, expected {expected}"
        ));
    }
    for (number, (value, field)) in (1..).zip(values.iter().zip(fields)) {
        let name = field.name();
        let mismatch = format!("column name mismatch in header line field {number}: got");
        if value.is_null {
            let null = format.null();
            return refuse(format!("{mismatch} null value (\"{null}\"), expected \"{name}\""));
        }
        if value.bytes != name.as_bytes() {
            let got = String::from_utf8_lossy(&value.bytes);
            return refuse(format!("{mismatch} \"{got}\", expected \"{name}\""));
        }
    }
    Ok(())
}
