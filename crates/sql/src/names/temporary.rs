//! Schemas of temporary objects: one for each session that has any, named after its number.

/// Name by which every session refers to its own schema of temporary objects.
pub(crate) const TEMPORARY: &str = "pg_temp";

/// The schema of a session's temporary objects.
pub(crate) fn temporary_schema(session: u64) -> String {
    format!("{TEMPORARY}_{session}")
}

/// True for the name of a schema of temporary objects, of this session or of another.
pub(crate) fn is_temporary(schema: &str) -> bool {
    schema.strip_prefix(TEMPORARY).is_some_and(|rest| rest.starts_with('_'))
}
