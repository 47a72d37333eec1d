//! Catalogs, schemas and tables, as the session's next statement sees them.

use std::sync::Arc;

use arrow_flight::sql::{
    CommandGetCatalogs, CommandGetDbSchemas, CommandGetTableTypes, CommandGetTables,
};
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::datatypes::Schema;
use terrace_sql::{DATABASE, Relation, RelationKind, Session};

use super::columns::plain_schema;
use super::rows::failure_of;
use crate::failure::Failure;

/// Kinds of tables.
const TABLE: &str = "TABLE";
const VIEW: &str = "VIEW";
const SYSTEM: &str = "SYSTEM TABLE";
const EXTERNAL: &str = "EXTERNAL TABLE";

/// Returns the only catalog.
///
/// # Errors
/// Errors of Arrow.
pub(super) fn catalogs(command: CommandGetCatalogs) -> Result<RecordBatch, Failure> {
    let mut builder = command.into_builder();
    builder.append(DATABASE);
    builder.build().map_err(failure_of)
}

/// Returns the schemas of the catalog.
///
/// # Errors
/// An invalid pattern.
pub(super) fn schemas(
    session: &Session,
    command: CommandGetDbSchemas,
) -> Result<RecordBatch, Failure> {
    let mut builder = command.into_builder();
    for schema in session.names().schemas() {
        builder.append(DATABASE, schema);
    }
    builder.build().map_err(failure_of)
}

/// Returns the tables and views, with their columns if the client requests them.
///
/// # Errors
/// An invalid pattern; errors of planning a view.
pub(super) async fn tables(
    session: &Session,
    command: CommandGetTables,
) -> Result<RecordBatch, Failure> {
    let names = session.names();
    let schemas = command.db_schema_filter_pattern.clone();
    let tables = command.table_name_filter_pattern.clone();
    let kinds = command.table_types.clone();
    let has_columns = command.include_schema;
    let mut builder = command.into_builder();
    for Relation { schema, name, kind } in names.relations() {
        let kind = match kind {
            RelationKind::Table { .. } => TABLE,
            RelationKind::View(_) => VIEW,
            RelationKind::System => SYSTEM,
            RelationKind::External => EXTERNAL,
        };
        // Filtered out first, since looking up columns may plan a view.
        let is_asked_for = (kinds.is_empty() || kinds.iter().any(|of| of == kind))
            && schemas.as_ref().is_none_or(|pattern| is_like(&schema, pattern))
            && tables.as_ref().is_none_or(|pattern| is_like(&name, pattern));
        if !is_asked_for {
            continue;
        }
        let columns = match has_columns {
            true => names.columns(&schema, &name).await?,
            false => None,
        };
        let columns = columns.map(|columns| plain_schema(&columns));
        let columns = columns.unwrap_or_else(|| Arc::new(Schema::empty()));
        builder.append(DATABASE, &schema, &name, kind, &columns).map_err(failure_of)?;
    }
    builder.build().map_err(failure_of)
}

/// Returns the kinds of tables: `TABLE`, `VIEW`, `SYSTEM TABLE` and `EXTERNAL TABLE`.
///
/// # Errors
/// Errors of Arrow.
pub(super) fn table_types(command: CommandGetTableTypes) -> Result<RecordBatch, Failure> {
    let mut builder = command.into_builder();
    for kind in [TABLE, VIEW, SYSTEM, EXTERNAL] {
        builder.append(kind);
    }
    builder.build().map_err(failure_of)
}

/// True if a name matches a pattern, in which `%` stands for any text and `_` for one character.
fn is_like(name: &str, pattern: &str) -> bool {
    let name: Vec<char> = name.chars().collect();
    let pattern: Vec<char> = pattern.chars().collect();
    let (mut at, mut of) = (0, 0);
    // The last `%`, and the end of the text that it matches.
    let mut any: Option<(usize, usize)> = None;
    while at < name.len() {
        match pattern.get(of) {
            Some('%') => {
                any = Some((of, at));
                of += 1;
            }
            Some(letter) if *letter == '_' || *letter == name[at] => {
                at += 1;
                of += 1;
            }
            _ => {
                let Some((place, end)) = any else { return false };
                any = Some((place, end + 1));
                at = end + 1;
                of = place + 1;
            }
        }
    }
    pattern[of..].iter().all(|letter| *letter == '%')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_like_patterns() {
        for pattern in ["orders", "%", "o%s", "ord_rs", "%%r%", "______", "o%r%"] {
            assert!(is_like("orders", pattern), "{pattern}");
        }
        for pattern in ["", "order", "orders_", "O%", "%x%", "_____"] {
            assert!(!is_like("orders", pattern), "{pattern}");
        }
        assert!(is_like("", "%") && is_like("", ""));
    }
}
