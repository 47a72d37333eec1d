//! DuckDB's functions about the database: `FROM duckdb_tables()`.
//!
//! Each becomes a query of `information_schema`, with those of DuckDB's columns that apply to this
//! engine. `function_list` has `duckdb_functions`.

use datafusion::sql::sqlparser::ast::{Ident, TableAlias, TableFactor};
use terrace_table::error::SqlError;

use super::dialect::parsed_query;
use super::refusal::refused;

/// Condition on the schemas of the database's own objects.
const OWN: &str = "table_schema NOT IN ('information_schema', 'pg_catalog', 'terrace')";

/// The query of a function; `None` for any other.
fn query(function: &str) -> Option<String> {
    Some(match function {
        "duckdb_databases" => "SELECT DISTINCT catalog_name AS database_name, false AS internal \
             FROM information_schema.schemata"
            .to_owned(),
        "duckdb_schemas" => "SELECT catalog_name AS database_name, schema_name, schema_name IN \
             ('information_schema', 'pg_catalog', 'terrace') AS internal FROM \
             information_schema.schemata"
            .to_owned(),
        "duckdb_tables" => format!(
            "SELECT table_catalog AS database_name, table_schema AS schema_name, table_name, false \
             AS internal, (SELECT count(*) FROM information_schema.columns c WHERE c.table_schema \
             = t.table_schema AND c.table_name = t.table_name) AS column_count FROM \
             information_schema.tables t WHERE table_type = 'BASE TABLE' AND {OWN}"
        ),
        "duckdb_views" => format!(
            "SELECT table_catalog AS database_name, table_schema AS schema_name, table_name AS \
             view_name, false AS internal FROM information_schema.views WHERE \
             {OWN}"
        ),
        "duckdb_columns" => format!(
            "SELECT table_catalog AS database_name, table_schema AS schema_name, table_name, \
             column_name, row_number() OVER (PARTITION BY table_schema, table_name ORDER BY \
             ordinal_position) AS column_index, false AS internal, column_default, \
             is_nullable = 'YES' AS is_nullable, data_type, character_maximum_length, \
             numeric_precision, numeric_scale FROM information_schema.columns WHERE {OWN}"
        ),
        "duckdb_settings" => {
            "SELECT name, value, description FROM information_schema.df_settings".to_owned()
        }
        _ => return None,
    })
}

/// Rewrites a call in FROM; leaves any other table unchanged.
///
/// # Errors
/// [`SqlError::Refused`] for arguments, which these functions do not take.
pub(super) fn write_out(table: &mut TableFactor) -> Result<(), SqlError> {
    let TableFactor::Table { name, args: Some(args), alias, .. } = table else { return Ok(()) };
    let [part] = name.0.as_slice() else { return Ok(()) };
    let Some(function) = part.as_ident().map(|name| name.value.to_ascii_lowercase()) else {
        return Ok(());
    };
    let Some(query) = query(&function) else { return Ok(()) };
    if !args.args.is_empty() {
        let what = format!("{function} with arguments");
        return Err(refused(&what, &format!("say FROM {function}() WHERE")));
    }
    let own = || TableAlias {
        explicit: true,
        name: Ident::new(function.clone()),
        columns: Vec::new(),
        at: None,
    };
    let alias = Some(alias.take().unwrap_or_else(own));
    let subquery = Box::new(parsed_query(&query)?);
    *table = TableFactor::Derived { lateral: false, subquery, alias, sample: None };
    Ok(())
}
