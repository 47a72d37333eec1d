//! Output of `\d`, `\dn` and `\l`: tables of a session, columns of a table, schemas and databases.

use datafusion::common::TableReference;
use datafusion::prelude::SessionContext;
use terrace_bench::grid::Grid;

use crate::error::{CliError, Result};

/// Lists the tables and views of every schema except `information_schema`.
pub async fn tables(context: &SessionContext) -> Grid {
    let mut grid = Grid::new(["schema", "table", "columns"]).wide();
    for (schema, table) in table_names(context) {
        let reference = TableReference::partial(schema.clone(), table.clone());
        // A table that was dropped since the names were read is skipped.
        if let Ok(provider) = context.table_provider(reference).await {
            let columns = provider.schema().fields().len().to_string();
            grid.push([schema, table, columns]);
        }
    }
    grid
}

/// Lists the columns of a table. Its name is as in SQL: qualified by a schema other than the
/// default one.
///
/// # Errors
/// If the table does not exist.
pub async fn columns(context: &SessionContext, name: &str) -> Result<Grid> {
    let provider = context
        .table_provider(TableReference::from(name))
        .await
        .map_err(|_| CliError::Usage(format!("there is no table {name}; \\d lists them")))?;
    let mut grid = Grid::new(["column", "type", "null"]).wide();
    for field in provider.schema().fields() {
        let null = if field.is_nullable() { "yes" } else { "no" };
        grid.push([field.name().clone(), field.data_type().to_string(), null.to_string()]);
    }
    Ok(grid)
}

/// Lists the schemas, with the number of tables in each.
pub fn schemas(context: &SessionContext) -> Grid {
    let mut grid = Grid::new(["schema", "tables"]).wide();
    let catalog_name = context.copied_config().options().catalog.default_catalog.clone();
    let Some(catalog) = context.catalog(&catalog_name) else { return grid };
    let mut names = catalog.schema_names();
    names.sort();
    for name in names {
        let tables = catalog.schema(&name).map_or(0, |schema| schema.table_names().len());
        grid.push([name, tables.to_string()]);
    }
    grid
}

/// Lists the databases: there is one.
pub fn databases(data: &str) -> Grid {
    let mut grid = Grid::new(["database", "data"]).wide();
    grid.push([terrace_sql::DATABASE.to_owned(), data.to_owned()]);
    grid
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
