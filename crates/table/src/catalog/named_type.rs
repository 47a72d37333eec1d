//! Columns of named types: the metadata of their Arrow fields holds schema and name of the type.

use datafusion::arrow::datatypes::Field;

use super::names::Schemas;
use super::schema_text::TextKind;
use crate::table::Table;

const SCHEMA: &str = "terrace.type.schema";
const NAME: &str = "terrace.type.name";

/// Returns schema and name of the named type of a field; `None` for a built-in type.
#[must_use]
pub fn named_type(field: &Field) -> Option<(&str, &str)> {
    let metadata = field.metadata();
    Some((metadata.get(SCHEMA)?.as_str(), metadata.get(NAME)?.as_str()))
}

/// Returns a copy of `field` with the named type `named`, a schema and a name; `None` removes the
/// named type.
#[must_use]
pub fn with_named_type(field: &Field, named: Option<(&str, &str)>) -> Field {
    let mut metadata = field.metadata().clone();
    metadata.remove(SCHEMA);
    metadata.remove(NAME);
    if let Some((schema, name)) = named {
        metadata.insert(SCHEMA.to_owned(), schema.to_owned());
        metadata.insert(NAME.to_owned(), name.to_owned());
    }
    field.clone().with_metadata(metadata)
}

/// Returns the description of a column that has the type `named`, for an error; `None` if no column
/// has it.
pub(super) fn user_of(schemas: &Schemas, named: (&str, &str)) -> Option<String> {
    let tables = schemas.values().flat_map(|schema| schema.tables.values());
    tables.into_iter().find_map(|table| {
        let mut fields = table.schema().fields().iter();
        let field = fields.find(|field| named_type(field) == Some(named))?;
        Some(format!("column {} of table {}", field.name(), table.full_name()))
    })
}

/// Returns schema and name of a type that a column of the table has and that does not exist.
pub(super) fn missing_type(schemas: &Schemas, table: &Table) -> Option<String> {
    let fields = table.schema().fields().iter();
    let mut named = fields.filter_map(|field| named_type(field));
    let is_missing = |(schema, name): &(&str, &str)| {
        let key = (TextKind::Type, (*name).to_owned());
        !schemas.get(*schema).is_some_and(|schema| schema.texts.contains_key(&key))
    };
    named.find(is_missing).map(|(schema, name)| format!("{schema}.{name}"))
}
