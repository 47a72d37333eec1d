//! Table functions over files: `read_csv`, `read_json`, `read_parquet` and others, as in DuckDB.

use std::fmt;
use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::common::{DFSchema, Result, TableReference, plan_datafusion_err, plan_err};
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::planner::{
    PlannedRelation, RelationPlanner, RelationPlannerContext, RelationPlanning,
};
use datafusion::logical_expr::{Cast, Expr, LogicalPlanBuilder};
use datafusion::sql::sqlparser::ast::{ObjectName, TableFactor};
use datafusion::sql::sqlparser::dialect::GenericDialect;
use datafusion::sql::sqlparser::parser::Parser;
use datafusion::sql::sqlparser::tokenizer::Token;

use super::access::FileAccess;
use super::arguments::Arguments;
use super::{delta, listing, read_csv, read_json, read_parquet, whole};

/// Creates the table that a call with these arguments reads; the second argument resolves the name
/// of a type.
type Read =
    fn(Arguments, &mut dyn FnMut(&str) -> Result<DataType>) -> Result<Arc<dyn TableProvider>>;

/// Plans calls of the table functions over files.
pub(crate) struct FileFunctions {
    access: Arc<FileAccess>,
}

impl FileFunctions {
    /// The functions of a session with this right to use files.
    pub(crate) fn new(access: Arc<FileAccess>) -> Self {
        Self { access }
    }

    /// True if one of the functions has this name, in lower case.
    pub(crate) fn has(name: &str) -> bool {
        function(name).is_some()
    }

    /// The table of a call; `None` for other functions.
    fn table(
        &self,
        name: &str,
        arguments: &[datafusion::sql::sqlparser::ast::FunctionArg],
        types: &mut dyn FnMut(&str) -> Result<DataType>,
    ) -> Result<Option<Arc<dyn TableProvider>>> {
        let Some(read) = function(name) else { return Ok(None) };
        self.access.require("reading files")?;
        read(Arguments::of(name, arguments, self.access.cloud())?, types).map(Some)
    }
}

/// The format of tables that DuckDB's function of this name reads, and Terrace does not.
fn format_of_scan(name: &str) -> Option<&'static str> {
    match name {
        "iceberg_scan" => Some("Iceberg"),
        _ => None,
    }
}

/// The table function of this name.
fn function(name: &str) -> Option<Read> {
    Some(match name {
        "read_csv" | "read_csv_auto" => read_csv::table,
        "read_json" | "read_json_auto" => read_json::table,
        "read_ndjson" | "read_ndjson_auto" => read_json::table_of_lines,
        "read_json_objects" | "read_json_objects_auto" => read_json::objects,
        "read_ndjson_objects" => read_json::objects_of_lines,
        "read_text" => whole::texts,
        "read_blob" => whole::blobs,
        "read_parquet" | "parquet_scan" => read_parquet::table,
        "delta_scan" => delta::table,
        "parquet_metadata" => listing::parquet_metadata,
        "parquet_schema" => listing::parquet_schema,
        "glob" => listing::glob,
        _ => return None,
    })
}

impl fmt::Debug for FileFunctions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FileFunctions")
    }
}

impl RelationPlanner for FileFunctions {
    fn plan_relation(
        &self,
        relation: TableFactor,
        context: &mut dyn RelationPlannerContext,
    ) -> Result<RelationPlanning> {
        let TableFactor::Table { name, alias, args: Some(arguments), .. } = &relation else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let Some(name) = function_name(name) else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        if let Some(format) = format_of_scan(&name) {
            return plan_err!(
                "{name} cannot be called: logs of {format} tables are not read; write the table as \
                 Parquet files with its own engine, and call read_parquet"
            );
        }
        let mut types = |text: &str| data_type(text, context);
        let Some(table) = self.table(&name, &arguments.args, &mut types)? else {
            return Ok(RelationPlanning::Original(Box::new(relation)));
        };
        let source = provider_as_source(table);
        let plan = LogicalPlanBuilder::scan(TableReference::bare(name), source, None)?.build()?;
        Ok(RelationPlanning::Planned(Box::new(PlannedRelation::new(plan, alias.clone()))))
    }
}

/// The name of a function without a schema, in lower case.
fn function_name(name: &ObjectName) -> Option<String> {
    let [part] = name.0.as_slice() else { return None };
    Some(part.as_ident()?.value.to_ascii_lowercase())
}

/// The type of this name in SQL.
fn data_type(text: &str, context: &mut dyn RelationPlannerContext) -> Result<DataType> {
    let unknown = || plan_datafusion_err!("'{text}' is no type, such as 'BIGINT' or 'VARCHAR'");
    let cast = format!("CAST(NULL AS {text})");
    let mut parser = Parser::new(&GenericDialect {}).try_with_sql(&cast).map_err(|_| unknown())?;
    let cast = parser.parse_expr().map_err(|_| unknown())?;
    if parser.peek_token().token != Token::EOF {
        return Err(unknown());
    }
    match context.sql_to_expr(cast, &DFSchema::empty())? {
        Expr::Cast(Cast { field, .. }) => Ok(match field.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => DataType::Utf8View,
            data_type => data_type.clone(),
        }),
        _ => plan_err!("'{text}' is no type, such as 'BIGINT' or 'VARCHAR'"),
    }
}
