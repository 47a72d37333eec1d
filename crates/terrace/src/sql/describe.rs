//! Output of the commands `\d`, `\df`, `\dn` and `\l`, which list tables, columns, functions,
//! schemas and databases.

use std::collections::HashMap;

use datafusion::common::TableReference;
use datafusion::prelude::SessionContext;
use terrace_sql::session::type_name;
use terrace_sql::{RelationKind, Session};

use crate::error::{CliError, Result};
use crate::sql::meta::Listed;
use crate::text_table::TextTable;

/// Schemas of the catalog, which are not listed.
const HIDDEN: [&str; 2] = ["information_schema", "pg_catalog"];

/// Lists the tables and views of every schema except [`HIDDEN`].
pub async fn tables(session: &Session, kind: Listed) -> TextTable {
    let context = session.context();
    let kinds: HashMap<(String, String), RelationKind> = session
        .names()
        .relations()
        .into_iter()
        .map(|relation| ((relation.schema, relation.name), relation.kind))
        .collect();
    let mut list = TextTable::new(["schema", "table", "columns"]).wide();
    for name in table_names(context) {
        let is_listed = match (kind, kinds.get(&name)) {
            (Listed::All, _) => true,
            (_, Some(RelationKind::System)) => false,
            (Listed::Tables, found) => !matches!(found, Some(RelationKind::View(_))),
            (Listed::Views, found) => matches!(found, Some(RelationKind::View(_))),
        };
        let (schema, table) = name;
        let reference = TableReference::partial(schema.clone(), table.clone());
        if !is_listed {
            continue;
        }
        // A table that was dropped since the names were read is skipped.
        if let Ok(provider) = context.table_provider(reference).await {
            let columns = provider.schema().fields().len().to_string();
            list.push([schema, table, columns]);
        }
    }
    list
}

/// Lists the columns of a table. Its name is as in SQL: qualified by a schema that is not in the
/// search path.
///
/// # Errors
/// If the table does not exist.
pub async fn columns(session: &Session, name: &str) -> Result<TextTable> {
    let provider = session.context().table_provider(TableReference::from(name)).await;
    let provider = provider.map_err(|_| {
        let near = session.nearest_relation(name);
        let near = near.map_or_else(String::new, |near| format!("; did you mean {near}?"));
        CliError::Usage(format!("there is no table {name}; \\d lists them{near}"))
    })?;
    let mut list = TextTable::new(["column", "type", "null"]).wide();
    for field in provider.schema().fields() {
        let null = if field.is_nullable() { "yes" } else { "no" };
        list.push([field.name().clone(), type_name(field), null.to_string()]);
    }
    Ok(list)
}

/// Lists the functions whose names begin with `begin`.
pub fn functions(context: &SessionContext, begin: Option<&str>) -> TextTable {
    let state = context.state();
    let begin = begin.unwrap_or_default().to_lowercase();
    let mut names: Vec<(&str, &str)> = Vec::new();
    names.extend(state.scalar_functions().keys().map(|name| (name.as_str(), "scalar")));
    names.extend(state.aggregate_functions().keys().map(|name| (name.as_str(), "aggregate")));
    names.extend(state.window_functions().keys().map(|name| (name.as_str(), "window")));
    names.extend(state.table_functions().keys().map(|name| (name.as_str(), "table")));
    names.retain(|(name, _)| name.starts_with(&begin));
    names.sort_unstable();
    let mut list = TextTable::new(["function", "kind"]).wide();
    for (name, kind) in names {
        list.push([name.to_owned(), kind.to_owned()]);
    }
    list
}

/// Lists the schemas, with the number of tables in each.
pub fn schemas(context: &SessionContext) -> TextTable {
    let mut list = TextTable::new(["schema", "tables"]).wide();
    let catalog_name = context.copied_config().options().catalog.default_catalog.clone();
    let Some(catalog) = context.catalog(&catalog_name) else { return list };
    let mut names = catalog.schema_names();
    names.retain(|name| !HIDDEN.contains(&name.as_str()));
    names.sort();
    for name in names {
        let tables = catalog.schema(&name).map_or(0, |schema| schema.table_names().len());
        list.push([name, tables.to_string()]);
    }
    list
}

/// Lists the only database; `data` is its directory.
pub fn databases(data: &str) -> TextTable {
    let mut list = TextTable::new(["database", "data"]).wide();
    list.push([terrace_sql::DATABASE.to_owned(), data.to_owned()]);
    list
}

/// Returns words for completion: tables, unqualified and with their schema, and their columns.
pub async fn words(context: &SessionContext) -> Vec<String> {
    let mut words = Vec::new();
    for (schema, table) in table_names(context) {
        let reference = TableReference::partial(schema.clone(), table.clone());
        if let Ok(provider) = context.table_provider(reference).await {
            words.extend(provider.schema().fields().iter().map(|field| field.name().clone()));
        }
        words.push(format!("{schema}.{table}"));
        words.push(table);
        words.push(schema);
    }
    words
}

/// Returns the schema and name of every table, sorted, except for those of [`HIDDEN`].
fn table_names(context: &SessionContext) -> Vec<(String, String)> {
    let catalog_name = context.copied_config().options().catalog.default_catalog.clone();
    let Some(catalog) = context.catalog(&catalog_name) else { return Vec::new() };
    let schemas =
        catalog.schema_names().into_iter().filter(|name| !HIDDEN.contains(&name.as_str()));
    let mut names: Vec<(String, String)> = schemas
        .filter_map(|name| Some((catalog.schema(&name)?, name)))
        .flat_map(|(schema, name)| {
            schema.table_names().into_iter().map(move |table| (name.clone(), table))
        })
        .collect();
    names.sort();
    names
}
