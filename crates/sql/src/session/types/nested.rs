//! Lists and structs with values of UUID, JSON or JSONB.
//!
//! A mark is the metadata of a field that tells such a type from a plain text. Constants of nested
//! types lose the marks of fields within them, so nested values in a plan have none. The columns
//! that a query returns get them back, and so do the arguments of `typeof`:
//!
//! ```text
//! SELECT ARRAY[id, 'A0EE...'], typeof([json '{}'])        uuid[], JSON[]
//! ```

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{ExprSchema, Result};
use datafusion::logical_expr::expr::{Alias, ScalarFunction};
use datafusion::logical_expr::logical_plan::{Limit, Projection, Sort};
use datafusion::logical_expr::{Cast, Expr, LogicalPlan, TryCast};
use terrace_functions::columns::{TextType, Usage, as_type, nested_type, unmarked};

use super::choices::{is_untyped, of_untyped};
use super::kinds::{mark_of, type_of};

/// Converts the literals in a list whose other items have such a type to this type; true if it has
/// converted any.
///
/// # Errors
/// For a literal that denotes no value of the type.
pub(super) fn of_items(call: &mut ScalarFunction, schema: &dyn ExprSchema) -> Result<bool> {
    let marks = call.args.iter().map(|item| mark_of(item, schema));
    let marks: Vec<Option<TextType>> = marks.collect();
    let of = marks.iter().flatten().copied().find(|of| of.is_distinct());
    let fits = |(item, mark): (&Expr, &Option<TextType>)| *mark == of || is_untyped(item);
    let Some(of) = of.filter(|_| call.args.iter().zip(&marks).all(fits)) else {
        return Ok(false);
    };
    let mut is_changed = false;
    for (item, _) in call.args.iter_mut().zip(&marks).filter(|(_, mark)| mark.is_none()) {
        *item = of_untyped(std::mem::take(item), of)?;
        is_changed = true;
    }
    Ok(is_changed)
}

/// Gives the argument of a function for the names of types the marks within its type; true if it
/// has any.
pub(super) fn of_argument(call: &mut ScalarFunction, schema: &dyn ExprSchema) -> bool {
    let [argument] = call.args.as_mut_slice() else { return false };
    let Some(of) = marked_type(argument, schema) else { return false };
    *argument = with_type(std::mem::take(argument), of);
    true
}

/// Gives the columns that a query returns the marks within their types.
///
/// # Errors
/// If an expression does not fit its input.
pub(in super::super) fn of_output(plan: LogicalPlan) -> Result<LogicalPlan> {
    Ok(match plan {
        LogicalPlan::Projection(Projection { expr, input, schema, .. })
            if expr.iter().any(|column| marked_type(column, input.schema()).is_some()) =>
        {
            let columns = expr.into_iter().zip(schema.fields());
            let columns = columns.map(|(column, field)| of_column(column, field, input.schema()));
            LogicalPlan::Projection(Projection::try_new(columns.collect(), Arc::clone(&input))?)
        }
        LogicalPlan::Sort(Sort { expr, input, fetch }) => {
            let input = Arc::new(of_output(Arc::unwrap_or_clone(input))?);
            LogicalPlan::Sort(Sort { expr, input, fetch })
        }
        LogicalPlan::Limit(Limit { skip, fetch, input }) => {
            let input = Arc::new(of_output(Arc::unwrap_or_clone(input))?);
            LogicalPlan::Limit(Limit { skip, fetch, input })
        }
        plan => plan,
    })
}

fn of_column(column: Expr, field: &Field, schema: &dyn ExprSchema) -> Expr {
    let Some(of) = marked_type(&column, schema) else { return column };
    match column {
        Expr::Alias(Alias { expr, relation, name, metadata }) => {
            let expr = Box::new(with_type(*expr, of));
            Expr::Alias(Alias { expr, relation, name, metadata })
        }
        column => with_type(column, of).alias(field.name()),
    }
}

fn with_type(value: Expr, of: DataType) -> Expr {
    as_type(value, &Field::new("", of, true), Usage::Known)
}

/// The type of a value with the marks within it; `None` if it has none, or has them already.
fn marked_type(value: &Expr, schema: &dyn ExprSchema) -> Option<DataType> {
    let call = match value {
        Expr::Alias(Alias { expr, .. }) => return marked_type(expr, schema),
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
            let of = field.data_type();
            return (unmarked(of) != *of).then(|| of.clone());
        }
        Expr::ScalarFunction(call) => call,
        _ => return None,
    };
    match call.name() {
        "make_array" => {
            let DataType::List(item) = type_of(value, schema)? else { return None };
            let given = call.args.iter().filter(|item| !is_untyped(item));
            let mut items = given.map(|value| marked_field(&item, value, schema));
            let first = items.next()??;
            let are_same = items.all(|item| item.as_ref() == Some(&first));
            are_same.then_some(DataType::List(first))
        }
        "struct" => of_struct(value, call.args.iter(), schema),
        "named_struct" => of_struct(value, call.args.iter().skip(1).step_by(2), schema),
        _ => nested_type(call),
    }
}

fn of_struct<'a>(
    value: &Expr,
    parts: impl Iterator<Item = &'a Expr>,
    schema: &dyn ExprSchema,
) -> Option<DataType> {
    let DataType::Struct(fields) = type_of(value, schema)? else { return None };
    let marked = fields.iter().zip(parts).map(|(field, part)| marked_field(field, part, schema));
    let marked: Vec<Option<FieldRef>> = marked.collect();
    if !marked.iter().any(Option::is_some) {
        return None;
    }
    let fields = fields.iter().zip(marked);
    let fields = fields.map(|(field, marked)| marked.unwrap_or_else(|| Arc::clone(field)));
    Some(DataType::Struct(fields.collect()))
}

/// The field of a part of a nested value with its mark, or the marks within its type.
fn marked_field(field: &FieldRef, part: &Expr, schema: &dyn ExprSchema) -> Option<FieldRef> {
    let of = match part {
        Expr::Cast(Cast { field, .. }) | Expr::TryCast(TryCast { field, .. }) => {
            TextType::of(field)
        }
        part => mark_of(part, schema),
    };
    let field = field.as_ref().clone();
    Some(Arc::new(match of.filter(|of| of.is_distinct()) {
        Some(of) => {
            field.with_data_type(DataType::Utf8View).with_metadata(of.field("").metadata().clone())
        }
        None => field.with_data_type(marked_type(part, schema)?),
    }))
}
