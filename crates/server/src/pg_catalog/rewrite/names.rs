//! Names in statements: case folding, the catalog's schemas, and functions that are treated
//! specially.

use datafusion::sql::sqlparser::ast::{Ident, ObjectName};

use crate::pg_catalog::schemas::{INFORMATION_SCHEMA, SCHEMA};

/// Keywords that call functions without parentheses.
pub(super) const WORDS: &[&str] =
    &["current_catalog", "current_role", "current_schema", "current_user", "session_user", "user"];

/// Functions that return several rows in PostgreSQL. Here they return one list, which is expanded.
pub(super) const SETS: &[&str] =
    &["_pg_expandarray", "aclexplode", "generate_subscripts", "pg_partition_ancestors"];

/// Functions that mark a statement as one that refers to the catalog, in addition to those that
/// begin with `pg_`.
pub(super) const FUNCTIONS: &[&str] =
    &["current_schemas", "current_setting", "format_type", "obj_description", "set_config"];

/// Returns the last part of a name, in the form in which it is looked up.
pub(super) fn last(name: &ObjectName) -> String {
    let part = name.0.last().and_then(|part| part.as_ident());
    part.map_or_else(String::new, folded)
}

/// Returns a name in the form in which it is looked up: in lower case unless it is quoted.
pub(super) fn folded(ident: &Ident) -> String {
    match ident.quote_style {
        None => ident.value.to_lowercase(),
        Some(_) => ident.value.clone(),
    }
}

/// True for a name whose schema is `pg_catalog` or `information_schema`.
pub(super) fn is_of_catalog(name: &ObjectName) -> bool {
    let mut parts = name.0.iter().rev().skip(1);
    let schema = parts.next().and_then(|part| part.as_ident()).map(folded);
    schema.is_some_and(|schema| schema == SCHEMA || schema == INFORMATION_SCHEMA)
}

/// Removes the qualifiers from a name in `pg_catalog` or `information_schema`.
pub(super) fn strip(name: &mut ObjectName) {
    if is_of_catalog(name) {
        let skipped = name.0.len().saturating_sub(1);
        drop(name.0.drain(..skipped));
    }
}
