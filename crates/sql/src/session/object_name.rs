//! Names of objects of the database in statements that define them.

use datafusion::common::{ResolvedTableReference, TableReference};
use datafusion::execution::SessionState;
use datafusion::sql::sqlparser::ast::{Ident, ObjectName};
use terrace_table::catalog::Snapshot;
use terrace_table::error::SqlError;

use super::column_options::normalized;
use super::refusal::refused;
use super::state::Session;
use crate::access::Privilege;
use crate::names::{CATALOG, SearchPath, TEMPORARY, is_temporary, resolve};
use crate::system::SYSTEM_SCHEMA;

/// Schema and name of an object in the database.
pub(super) struct Name {
    pub(super) schema: String,
    pub(super) name: String,
}

impl Session {
    /// Resolves a reference to the schema and name of an existing object, which must be in the
    /// database. Without such an object the schema is the one in which it would be created.
    pub(super) fn own_name(
        &self,
        state: &SessionState,
        reference: TableReference,
    ) -> Result<Name, SqlError> {
        let snapshot = self.names.current();
        in_database(resolve(state.config_options(), &snapshot, reference))
    }

    /// Resolves a reference to the schema and name of a new object, which must be in the database.
    pub(super) fn new_name(
        &self,
        state: &SessionState,
        reference: TableReference,
    ) -> Result<Name, SqlError> {
        let options = state.config_options();
        let (path, snapshot) = (SearchPath::of(options), self.names.current());
        let schema = match (&reference, path.first(&snapshot)) {
            (TableReference::Bare { .. }, None) => {
                return Err(refused(
                    &format!("creating {reference}: no schema of the search path exists"),
                    "name the schema, or say SET search_path = public",
                ));
            }
            (_, schema) => schema.unwrap_or_default(),
        };
        let name = in_database(reference.resolve(&options.catalog.default_catalog, schema))?;
        match name.schema == TEMPORARY || is_temporary(&name.schema) {
            true => Err(refused(
                &format!("creating {} in a schema of temporary objects", name.name),
                "say CREATE TEMP and the name without a schema",
            )),
            false => Ok(name),
        }
    }

    /// Resolves a reference to the schema and name of a new table or view, and refuses one that the
    /// role may not create.
    pub(super) fn name_to_make(
        &self,
        state: &SessionState,
        snapshot: &Snapshot,
        reference: TableReference,
        replaces: bool,
    ) -> Result<Name, SqlError> {
        let name = self.new_name(state, reference)?;
        refuse_hiding(&name.name)?;
        self.refuse_making(snapshot, &name.schema, &name.name, replaces)?;
        Ok(name)
    }

    /// Refuses a table or view that the role may not create, a replacement that it may not make,
    /// and a name that would hide an external table.
    pub(super) fn refuse_making(
        &self,
        snapshot: &Snapshot,
        schema: &str,
        name: &str,
        replaces: bool,
    ) -> Result<(), SqlError> {
        if snapshot.has_schema(schema) {
            self.rights(snapshot).require(Privilege::Create, schema, None)?;
        }
        if replaces && snapshot.has_object(schema, name) {
            self.rights(snapshot).require_owner("replacing it", schema, Some(name))?;
        }
        self.refuse_external(schema, name)
    }

    fn refuse_external(&self, schema: &str, name: &str) -> Result<(), SqlError> {
        match self.names.has_external(schema, name) {
            true => Err(SqlError::Exists { name: format!("external table {schema}.{name}") }),
            false => Ok(()),
        }
    }
}

/// Refuses a table, view or sequence that may hide one of `pg_catalog`.
///
/// # Errors
/// [`SqlError::Refused`].
pub(super) fn refuse_hiding(name: &str) -> Result<(), SqlError> {
    match name.starts_with("pg_") {
        true => Err(refused(
            &format!("a table or view named {name}"),
            "it would hide one of pg_catalog; choose a name without the prefix pg_",
        )),
        false => Ok(()),
    }
}

/// The schema and name of an object, which must be in the database.
fn in_database(full: ResolvedTableReference) -> Result<Name, SqlError> {
    if full.catalog.as_ref() != CATALOG {
        return Err(other_catalog(&full.catalog));
    }
    refuse_reserved(&full.schema)?;
    Ok(Name { schema: full.schema.to_string(), name: full.table.to_string() })
}

/// Refuses a schema whose tables show the state of the engine.
///
/// # Errors
/// [`SqlError::Refused`].
pub(super) fn refuse_reserved(schema: &str) -> Result<(), SqlError> {
    match schema {
        SYSTEM_SCHEMA | "information_schema" | "pg_catalog" => Err(refused(
            &format!("defining anything in schema {schema}"),
            "its tables show the state of the engine; name another schema",
        )),
        _ => Ok(()),
    }
}

/// Refuses the name of a schema that is for those of the system, or of temporary objects.
///
/// # Errors
/// [`SqlError::Refused`].
pub(super) fn refuse_schema_name(name: &str) -> Result<(), SqlError> {
    let what = || format!("a schema {name}");
    if name == TEMPORARY || is_temporary(name) {
        return Err(refused(&what(), "the prefix pg_temp is for temporary objects"));
    }
    match name.starts_with("pg_") {
        true => Err(refused(&what(), "the prefix pg_ is for the schemas of the system")),
        false => Ok(()),
    }
}

/// Splits `t.a` into the name of the table and that of the column; `None` for a name of one part.
pub(super) fn split_column(name: &ObjectName) -> Option<(ObjectName, String)> {
    let mut parts: Vec<Ident> = name.0.iter().filter_map(|part| part.as_ident().cloned()).collect();
    let column = parts.pop().map(normalized)?;
    (!parts.is_empty()).then(|| (parts.into(), column))
}

/// The error for a name in another catalog.
pub(super) fn other_catalog(catalog: &str) -> SqlError {
    refused(
        &format!("defining anything in catalog {catalog}"),
        &format!("the database is the catalog {CATALOG}"),
    )
}
