//! Permission checks of the names in a statement.

use datafusion::common::Result;
use datafusion::execution::SessionState;
use datafusion::sql::parser::Statement;
use datafusion::sql::sqlparser::ast::{DescribeAlias, Statement as SqlStatement};
use terrace_table::access::Privilege;

use super::rights::Rights;
use crate::names::{CATALOG, SYSTEM_SCHEMA, resolve};

/// The kind of statement whose names are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Reading {
    /// A statement of a session. The tables that it reads are checked in its plan.
    Statement,
    /// DESCRIBE of a query, whose plan has only the columns of its tables.
    Description,
    /// The query of a view.
    View,
}

impl Reading {
    /// The kind of a statement.
    pub(crate) fn of(statement: &Statement) -> Self {
        use DescribeAlias::{Desc, Describe};
        match statement {
            Statement::Statement(statement) => match statement.as_ref() {
                SqlStatement::Explain { describe_alias: Desc | Describe, .. } => Self::Description,
                _ => Self::Statement,
            },
            _ => Self::Statement,
        }
    }
}

/// Refuses names that the role of `rights` may not use: schemas without USAGE, views without
/// SELECT, and in a view or a DESCRIBE tables without SELECT.
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
            Reading::View | Reading::Description => snapshot.has_object(schema, table),
        };
        if is_read {
            rights.require(Privilege::Select, schema, Some(table))?;
        }
    }
    Ok(())
}
