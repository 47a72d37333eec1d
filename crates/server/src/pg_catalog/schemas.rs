//! Names of the catalog's schemas.

/// The name of the catalog's own schema.
pub(super) const SCHEMA: &str = "pg_catalog";
/// The name of the information schema.
pub(super) const INFORMATION_SCHEMA: &str = "information_schema";
/// Prefix under which the views of the information schema are found in `pg_catalog`: DataFusion's
/// planner reserves the information schema for itself.
pub(super) const INFORMATION_PREFIX: &str = "information_schema.";
