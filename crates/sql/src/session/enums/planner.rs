//! Type planner for the enum types of columns and casts.

use std::sync::Arc;

use datafusion::arrow::datatypes::FieldRef;
use datafusion::common::Result;
use datafusion::logical_expr::planner::TypePlanner;
use datafusion::sql::sqlparser::ast::{ArrayElemTypeDef, DataType};

use super::field::{field, list_field};
use crate::session::routines::syntax::parts;

/// Plans the types that the inner planner does not know: a type that is named with its schema as
/// the enum of that name, and an array of it as lists of the enum.
#[derive(Debug)]
pub(in crate::session) struct EnumColumns<P>(pub(in crate::session) P);

impl<P: TypePlanner> TypePlanner for EnumColumns<P> {
    fn plan_type_field(&self, of: &DataType) -> Result<Option<FieldRef>> {
        if let Some(planned) = self.0.plan_type_field(of)? {
            return Ok(Some(planned));
        }
        let (item, is_list) = match of {
            DataType::Array(
                ArrayElemTypeDef::AngleBracket(item) | ArrayElemTypeDef::SquareBracket(item, _),
            ) => (item.as_ref(), true),
            other => (other, false),
        };
        let DataType::Custom(name, modifiers) = item else { return Ok(None) };
        match parts(name) {
            Some((Some(schema), name)) if modifiers.is_empty() => {
                let field = if is_list { list_field } else { field };
                Ok(Some(Arc::new(field(&schema, &name))))
            }
            _ => Ok(None),
        }
    }
}
