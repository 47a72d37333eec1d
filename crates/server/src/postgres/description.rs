//! Description of the columns of a result.

use datafusion::arrow::datatypes::SchemaRef;
use pgwire::messages::data::{FieldDescription, RowDescription};

use super::cell::Format;
use super::failure::{Failure, SqlState};
use crate::column_types::{field_modifier, field_type, type_size};

/// Returns the description of a result's columns for clients.
///
/// # Errors
/// More columns than the protocol can count.
pub(super) fn description(
    schema: &SchemaRef,
    formats: &[Format],
) -> Result<RowDescription, Failure> {
    let columns = schema.fields().len();
    if i16::try_from(columns).is_err() {
        let text = format!("a result of {columns} columns; at most {} are possible", i16::MAX);
        return Err(Failure::new(SqlState::TOO_LARGE, text));
    }
    let fields = schema.fields().iter().zip(formats).map(|(field, format)| {
        let of = field_type(field);
        let code = i16::from(*format == Format::Binary);
        let (size, modifier) = (type_size(&of), field_modifier(field));
        FieldDescription::new(field.name().clone(), 0, 0, of.oid(), size, modifier, code)
    });
    Ok(RowDescription::new(fields.collect()))
}
