//! The tables that all scripts read, and the schema that they write to.

/// The statements that create the tables.
const TABLES: &str = include_str!("base.sql");

/// Returns the statements that create the tables, after those of an earlier script were dropped.
pub fn tables() -> impl Iterator<Item = String> {
    let drop = ["items", "kinds", "moves"].map(|it| format!("DROP TABLE IF EXISTS {it} CASCADE"));
    let create = TABLES.split(";\n").map(str::trim).filter(|it| !it.is_empty());
    drop.into_iter().chain(create.map(str::to_owned))
}

/// The statements that give a script an empty schema of its own.
pub const FRESH: [&str; 3] = [
    "DROP SCHEMA IF EXISTS scratch CASCADE",
    "DROP SCHEMA IF EXISTS other CASCADE",
    "CREATE SCHEMA scratch",
];

/// Statement that sets the schema in which a connection to Terrace or PostgreSQL creates the
/// tables.
pub const TABLES_PATH: &str = "SET search_path = public";

/// Statement that sets the schema in which DuckDB creates the tables.
pub const TABLES_PATH_OF_DUCK: &str = "SET search_path = 'main'";

/// Statement that makes the tables and the schema of scripts visible to a connection to Terrace or
/// PostgreSQL.
pub const PATH: &str = "SET search_path = scratch, public";

/// Statement that makes both visible to DuckDB.
pub const PATH_OF_DUCK: &str = "SET search_path = 'scratch,main'";
