//! The types JSON and JSONB: text in a field of an extension type.
//!
//! Functions mark their results with it, and casts check the text that they mark. Columns have the
//! same marks ([`crate::columns`]).

use std::collections::HashMap;

use datafusion::arrow::datatypes::{DataType, Field};

/// The key of a field's metadata that names its extension type.
pub(crate) const EXTENSION: &str = "ARROW:extension:name";
/// The extension type of JSON.
pub(crate) const JSON: &str = "arrow.json";
/// The extension type of JSONB, which Arrow does not have.
pub(crate) const JSONB: &str = "terrace.jsonb";

/// True for a field of JSON or JSONB.
pub(crate) fn is_json(field: &Field) -> bool {
    let name = field.metadata().get(EXTENSION);
    field.data_type().is_string() && name.is_some_and(|name| name == JSON || name == JSONB)
}

/// True for a field of JSONB.
pub(crate) fn is_jsonb(field: &Field) -> bool {
    is_json(field) && field.metadata().get(EXTENSION).is_some_and(|name| name == JSONB)
}

/// A nullable field of JSON.
pub(crate) fn json_field(name: &str) -> Field {
    marked(name, JSON)
}

/// A nullable field of JSONB.
pub(crate) fn jsonb_field(name: &str) -> Field {
    marked(name, JSONB)
}

fn marked(name: &str, mark: &str) -> Field {
    let metadata = HashMap::from([(EXTENSION.to_owned(), mark.to_owned())]);
    Field::new(name, DataType::Utf8View, true).with_metadata(metadata)
}
