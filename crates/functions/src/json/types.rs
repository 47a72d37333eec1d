//! The type JSON: text in a field of the extension type `arrow.json`.
//!
//! Functions mark their results with it, and casts check the text that they mark. Tables store
//! plain text: a column that is declared as JSON or JSONB is a column of texts.

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast;

/// The key of a field's metadata that names its extension type.
const EXTENSION: &str = "ARROW:extension:name";
const NAME: &str = "arrow.json";

/// True for a field of JSON.
pub(crate) fn is_json(field: &Field) -> bool {
    field.data_type().is_string() && field.metadata().get(EXTENSION).is_some_and(|it| it == NAME)
}

/// A nullable field of JSON.
pub(crate) fn json_field(name: &str) -> Field {
    let metadata = HashMap::from([(EXTENSION.to_owned(), NAME.to_owned())]);
    Field::new(name, DataType::Utf8View, true).with_metadata(metadata)
}

/// Plans the types JSON and JSONB of columns as text.
#[derive(Debug)]
pub struct JsonTypes;

impl TypePlanner for JsonTypes {
    fn plan_type_field(&self, sql_type: &ast::DataType) -> Result<Option<FieldRef>> {
        let is_json = matches!(sql_type, ast::DataType::JSON | ast::DataType::JSONB);
        Ok(is_json.then(|| Arc::new(Field::new("", DataType::Utf8View, true))))
    }
}
