//! Permission checks of the names in a statement.

use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use terrace_table::access::Privilege;

use super::rights::Rights;
use crate::names::{CATALOG, SYSTEM_SCHEMA, resolve};

/// The kind of statement whose names are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// A statement of a session. The tables that it reads are checked in its plan.
    Statement,
    /// The query of a view.
    View,
}

/// Refuses names that the role of `rights` may not use: schemas without USAGE, views without
/// SELECT, and in a view tables without SELECT.
///
/// # Errors
/// [`crate::SqlError::Denied`].
pub(crate) fn check_names(
    state: &SessionState,
    statement: &Statement,
    rights: &Rights<'_>,
    reading: Reading,
) -> Result<()> {
    if rights.limited()?.is_none() {
        return Ok(());
    }
    let snapshot = rights.snapshot();
    for reference in state.resolve_table_references(statement)? {
        let name = resolve(state.config_options(), snapshot, reference);
        let (schema, table) = (name.schema.as_ref(), name.table.as_ref());
        if name.catalog.as_ref() != CATALOG {
            continue;
        }
        if schema == SYSTEM_SCHEMA {
            rights.require_superuser(&format!("reading {SYSTEM_SCHEMA}.{table}"))?;
        }
        if !snapshot.has_schema(schema) {
            continue;
        }
        rights.require(Privilege::Usage, schema, None)?;
        let is_read = match reading {
            Reading::Statement => snapshot.view(schema, table).is_some(),
            Reading::View => snapshot.has_object(schema, table),
        };
        if is_read {
            rights.require(Privilege::Select, schema, Some(table))?;
        }
    }
    Ok(())
}
