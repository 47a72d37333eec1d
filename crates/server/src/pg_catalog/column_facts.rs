//! Defaults, expressions and identities of the columns of a table.

use terrace_sql::catalog::{Identity, Properties};

use super::objects::Object;
use super::source::Source;

/// Returns the defaults, identities, generated columns and CHECK constraints of a table; none for
/// other relations.
pub(super) fn properties(object: &Object, source: &Source) -> Properties {
    match object.size() {
        Some(_) => source.names.properties(&object.schema, &object.name).unwrap_or_default(),
        None => Properties::default(),
    }
}

/// Returns the expression of a generated column, or the default of another; `None` for identity
/// columns and columns without a default.
pub(super) fn expression(properties: &Properties, column: &str) -> Option<String> {
    let column = properties.of(column)?;
    let default = column.default.as_ref().filter(|_| column.identity.is_none());
    column.generated.as_ref().or(default).cloned()
}

/// Returns the value of `pg_attribute.attidentity`.
pub(super) fn identity(properties: &Properties, column: &str) -> &'static str {
    match properties.identity(column) {
        Some(Identity::Always) => "a",
        Some(Identity::ByDefault) => "d",
        None => "",
    }
}

/// Returns the value of `pg_attribute.attgenerated`.
pub(super) fn generated(properties: &Properties, column: &str) -> &'static str {
    if properties.generated(column).is_some() { "s" } else { "" }
}
