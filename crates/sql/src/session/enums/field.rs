//! Arrow fields whose values are of an enum: fields of texts or of lists of texts, with metadata
//! that names the type.
//!
//! For lists, the metadata is on the field of the list and not on that of its elements, so that all
//! lists of texts have the same Arrow type.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use terrace_table::catalog::{named_type, with_named_type};

/// Schema and name of the enum that the values of a field are of; `None` if they are of none.
pub(in crate::session) fn enum_of(field: &Field) -> Option<(&str, &str)> {
    named_type(field).filter(|_| field.data_type().is_string())
}

/// Schema and name of the enum that the elements of a field's lists are of; `None` if they are of
/// none.
pub(in crate::session) fn list_enum_of(field: &Field) -> Option<(&str, &str)> {
    named_type(field).filter(|_| is_list_of_texts(field.data_type()))
}

/// True for a type whose values may be of an enum, or lists of them.
pub(in crate::session) fn may_be_of_enum(data_type: &DataType) -> bool {
    data_type.is_string() || is_list_of_texts(data_type)
}

fn is_list_of_texts(data_type: &DataType) -> bool {
    matches!(data_type, DataType::List(item) if item.data_type().is_string())
}

/// A nullable field of an enum.
pub(in crate::session) fn field(schema: &str, name: &str) -> Field {
    with_named_type(&Field::new("", DataType::Utf8View, true), Some((schema, name)))
}

/// A nullable field of lists of an enum.
pub(in crate::session) fn list_field(schema: &str, name: &str) -> Field {
    with_named_type(&Field::new("", list_of(DataType::Utf8View), true), Some((schema, name)))
}

/// The type of lists of a type.
pub(in crate::session) fn list_of(data_type: DataType) -> DataType {
    DataType::List(Arc::new(Field::new_list_field(data_type, true)))
}
