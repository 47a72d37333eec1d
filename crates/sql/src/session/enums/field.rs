//! Fields whose values are of an enum: texts that name the type.

use datafusion::arrow::datatypes::{DataType, Field};
use terrace_table::catalog::{named_type, with_named_type};

/// Schema and name of the enum that the values of a field are of.
pub(in crate::session) fn enum_of(field: &Field) -> Option<(&str, &str)> {
    named_type(field).filter(|_| field.data_type().is_string())
}

/// A nullable field of an enum.
pub(in crate::session) fn field(schema: &str, name: &str) -> Field {
    with_named_type(&Field::new("", DataType::Utf8View, true), Some((schema, name)))
}
