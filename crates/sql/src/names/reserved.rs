//! Reserved names of a catalog and a schema.

/// The name of the database's catalog in a session.
pub const CATALOG: &str = "main";

/// Name of the schema with the state of the engine.
pub const SYSTEM_SCHEMA: &str = "terrace";
