//! The functions and macros of the database in `information_schema.routines` and
//! `duckdb_functions()`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, BooleanArray, RecordBatch, StringArray};
use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::{MemTable, Session, TableProvider};
use datafusion::common::Result;
use datafusion::datasource::{ViewTable, provider_as_source};
use datafusion::logical_expr::LogicalPlanBuilder;
use terrace_table::catalog::Snapshot;

use super::reserved::CATALOG;
use super::types::TypeSnapshot;
use crate::session::{RoutineReport, routines_of};

/// Adds the functions and macros of the database in `snapshot` to `routines`, the table of built-in
/// functions.
///
/// # Errors
/// If a stored text is damaged.
pub(super) fn with_own(
    routines: Arc<dyn TableProvider>,
    snapshot: &Snapshot,
) -> Result<Arc<dyn TableProvider>> {
    let mut own = Vec::new();
    for schema in snapshot.schemas() {
        own.extend(routines_of(snapshot, &schema)?);
    }
    if own.is_empty() {
        return Ok(routines);
    }
    let schema = routines.schema();
    let columns = schema.fields().iter().map(|field| column(field.name(), field.data_type(), &own));
    let batch = RecordBatch::try_new(Arc::clone(&schema), columns.collect())?;
    let own = Arc::new(MemTable::try_new(schema, vec![vec![batch]])?);
    let scan = |name: &str, table: Arc<dyn TableProvider>| {
        LogicalPlanBuilder::scan(name, provider_as_source(table), None)?.build()
    };
    let all = LogicalPlanBuilder::from(scan("built_in", routines)?).union(scan("own", own)?)?;
    Ok(Arc::new(ViewTable::new(all.build()?, None)))
}

/// The names of the functions and macros that a session can see, with DuckDB's words for their
/// kinds.
///
/// # Errors
/// If a stored text is damaged.
pub(crate) fn kinds(session: &dyn Session) -> Result<Vec<(String, &'static str)>> {
    let Some(snapshot) = session.config().get_extension::<TypeSnapshot>() else {
        return Ok(Vec::new());
    };
    let mut kinds = Vec::new();
    for schema in snapshot.0.schemas() {
        kinds.extend(routines_of(&snapshot.0, &schema)?.into_iter().map(|routine| {
            let kind = match (routine.is_macro, routine.returns_rows) {
                (true, false) => "macro",
                (true, true) => "table_macro",
                (false, false) => "scalar",
                (false, true) => "table",
            };
            (routine.name, kind)
        }));
    }
    Ok(kinds)
}

/// A column with a row for each routine.
fn column(name: &str, data_type: &DataType, own: &[RoutineReport]) -> ArrayRef {
    if *data_type == DataType::Boolean {
        let is_immutable = |routine: &RoutineReport| Some(routine.volatility == "IMMUTABLE");
        return Arc::new(own.iter().map(is_immutable).collect::<BooleanArray>());
    }
    let value = |routine: &RoutineReport| match name {
        "specific_catalog" | "routine_catalog" => Some(CATALOG.to_owned()),
        "specific_schema" | "routine_schema" => Some(routine.schema.clone()),
        "specific_name" | "routine_name" => Some(routine.name.clone()),
        "routine_type" => Some("FUNCTION".to_owned()),
        "data_type" => routine.returns.clone(),
        "function_type" => {
            let kind = if routine.returns_rows { "TABLE" } else { "SCALAR" };
            Some(kind.to_owned())
        }
        "description" => Some(routine.definition.clone()),
        _ => None,
    };
    Arc::new(own.iter().map(value).collect::<StringArray>())
}
