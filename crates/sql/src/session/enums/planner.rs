//! Types of columns and casts that are enums.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::DataType;

use super::field::field;
use crate::session::routines::syntax::parts;

/// Plans a type that is named with its schema as the enum of that name, and any other by the
/// planner within.
#[derive(Debug)]
pub(in crate::session) struct EnumColumns<P>(pub(in crate::session) P);

impl<P: TypePlanner> TypePlanner for EnumColumns<P> {
    fn plan_type_field(&self, of: &DataType) -> Result<Option<FieldRef>> {
        if let Some(planned) = self.0.plan_type_field(of)? {
            return Ok(Some(planned));
        }
        let DataType::Custom(name, modifiers) = of else { return Ok(None) };
        match parts(name) {
            Some((Some(schema), name)) if modifiers.is_empty() => {
                Ok(Some(Arc::new(field(&schema, &name))))
            }
            _ => Ok(None),
        }
    }
}
