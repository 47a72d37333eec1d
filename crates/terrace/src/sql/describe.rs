//! Output of `\d`, `\dn` and `\l`: tables of a session, columns of a table, schemas and databases.

use datafusion::common::TableReference;
use datafusion::prelude::SessionContext;

use crate::error::{CliError, Result};
use crate::text_table::TextTable;

/// Lists the tables and views of every schema except `information_schema`.
pub async fn tables(context: &SessionContext) -> TextTable {
    let mut list = TextTable::new(["schema", "table", "columns"]).wide();
    for (schema, table) in table_names(context) {
        let reference = TableReference::partial(schema.clone(), table.clone());
        // A table that was dropped since the names were read is skipped.
        if let Ok(provider) = context.table_provider(reference).await {
            let columns = provider.schema().fields().len().to_string();
            list.push([schema, table, columns]);
        }
    }
    list
}

/// Lists the columns of a table. Its name is as in SQL: qualified by a schema other than the
/// default one.
///
/// # Errors
/// If the table does not exist.
pub async fn columns(context: &SessionContext, name: &str) -> Result<TextTable> {
    let provider = context
        .table_provider(TableReference::from(name))
        .await
        .map_err(|_| CliError::Usage(format!("there is no table {name}; \\d lists them")))?;
    let mut list = TextTable::new(["column", "type", "null"]).wide();
    for field in provider.schema().fields() {
        let null = if field.is_nullable() { "yes" } else { "no" };
        list.push([field.name().clone(), field.data_type().to_string(), null.to_string()]);
    }
    Ok(list)
}

/// Lists the schemas, with the number of tables in each.
pub fn schemas(context: &SessionContext) -> TextTable {
    let mut list = TextTable::new(["schema", "tables"]).wide();
    let catalog_name = context.copied_config().options().catalog.default_catalog.clone();
    let Some(catalog) = context.catalog(&catalog_name) else { return list };
    let mut names = catalog.schema_names();
    names.sort();
    for name in names {
        let tables = catalog.schema(&name).map_or(0, |schema| schema.table_names().len());
        list.push([name, tables.to_string()]);
    }
    list
}

/// Lists the databases: there is one.
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

/// Returns the schema and name of every table, sorted, except for those of `information_schema`.
fn table_names(context: &SessionContext) -> Vec<(String, String)> {
    let catalog_name = context.copied_config().options().catalog.default_catalog.clone();
    let Some(catalog) = context.catalog(&catalog_name) else { return Vec::new() };
    let schemas = catalog.schema_names().into_iter().filter(|name| name != "information_schema");
    let mut names: Vec<(String, String)> = schemas
        .filter_map(|name| Some((catalog.schema(&name)?, name)))
        .flat_map(|(schema, name)| {
            schema.table_names().into_iter().map(move |table| (name.clone(), table))
        })
        .collect();
    names.sort();
    names
}
