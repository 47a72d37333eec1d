//! Definitions of tables to be created.

use datafusion::arrow::datatypes::SchemaRef;

use super::properties::Properties;
use crate::segment::Encoding;

/// Schema that every catalog has from the start.
pub const DEFAULT_SCHEMA: &str = "public";

/// Definition of a table to be created.
#[derive(Clone, Debug)]
pub struct TableDefinition {
    /// Schema of the table.
    pub schema_name: String,
    /// Name of the table.
    pub name: String,
    /// Columns of the table.
    pub columns: SchemaRef,
    /// Encoding of its segments.
    pub encoding: Encoding,
    /// Defaults, checks and comments.
    pub properties: Properties,
    /// Role that owns the table; `None` if a session without a role creates it.
    pub owner: Option<String>,
}

/// Behavior of a CREATE statement whose name is taken.
#[derive(Copy, Clone, Debug, PartialEq, Eq)]
pub enum IfExists {
    /// Fail with [`SqlError::Exists`](crate::error::SqlError::Exists).
    Fail,
    /// Keep the existing object and change nothing.
    Keep,
    /// Replace the existing object atomically.
    Replace,
}
