//! The type MAP, whose keys and values are of any types.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::common::config::ConfigOptions;
use datafusion::common::{Result, TableReference, plan_err};
use datafusion::logical_expr::planner::{ContextProvider, TypePlanner};
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF, TableSource, WindowUDF};
use datafusion::sql::planner::SqlToRel;
use datafusion::sql::sqlparser::ast::{ColumnDef, DataType as SqlType, Ident};

/// Plans a type MAP by planning `types` for its keys and values.
///
/// # Errors
/// For keys or values of a type that is not supported.
pub(super) fn planned(
    key: &SqlType,
    value: &SqlType,
    types: Arc<dyn TypePlanner>,
) -> Result<FieldRef> {
    let column = |name: &str, data_type: &SqlType| ColumnDef {
        name: Ident::new(name),
        data_type: data_type.clone(),
        options: vec![],
    };
    let context = Types(types);
    let planner = SqlToRel::new(&context);
    let schema = planner.build_schema(vec![column("key", key), column("value", value)])?;
    let [key, value] = schema.fields().as_ref() else {
        return plan_err!("a MAP has keys and values");
    };
    let key = Arc::new(key.as_ref().clone().with_nullable(false));
    let entries = DataType::Struct(Fields::from(vec![key, Arc::clone(value)]));
    let entries = Arc::new(Field::new("entries", entries, false));
    Ok(Arc::new(Field::new("", DataType::Map(entries, false), true)))
}

/// The options of a session for types: its time zone.
static OPTIONS: LazyLock<ConfigOptions> = LazyLock::new(|| {
    let mut options = ConfigOptions::default();
    options.execution.time_zone = Some("UTC".to_owned());
    options
});

/// A planning context that provides only the planner of types.
struct Types(Arc<dyn TypePlanner>);

impl ContextProvider for Types {
    fn get_table_source(&self, name: TableReference) -> Result<Arc<dyn TableSource>> {
        plan_err!("a type names the table {name}")
    }

    fn get_type_planner(&self) -> Option<Arc<dyn TypePlanner>> {
        Some(Arc::clone(&self.0))
    }

    fn get_function_meta(&self, _: &str) -> Option<Arc<ScalarUDF>> {
        None
    }

    fn get_higher_order_meta(&self, _: &str) -> Option<Arc<HigherOrderUDF>> {
        None
    }

    fn get_aggregate_meta(&self, _: &str) -> Option<Arc<AggregateUDF>> {
        None
    }

    fn get_window_meta(&self, _: &str) -> Option<Arc<WindowUDF>> {
        None
    }

    fn get_variable_type(&self, _: &[String]) -> Option<DataType> {
        None
    }

    fn options(&self) -> &ConfigOptions {
        &OPTIONS
    }

    fn udf_names(&self) -> Vec<String> {
        vec![]
    }

    fn higher_order_function_names(&self) -> Vec<String> {
        vec![]
    }

    fn udaf_names(&self) -> Vec<String> {
        vec![]
    }

    fn udwf_names(&self) -> Vec<String> {
        vec![]
    }
}
