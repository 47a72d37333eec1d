//! Row constructors in INSERT as values of STRUCT columns: `row(1, 'a')` and `(1, 'a')` become
//! `{x: 1, y: 'a'}` if the column has the fields `x` and `y`, by position.

use std::mem;

use datafusion::arrow::datatypes::DataType;
use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Value,
};

use super::super::dialect::call;

/// Names the fields of a row that is stored in a column of a type; leaves other values unchanged.
pub(in super::super) fn name_fields(value: &mut Expr, of: &DataType) {
    let DataType::Struct(fields) = of else { return };
    let Some(mut values) = row(value).filter(|values| values.len() == fields.len()) else {
        return;
    };
    let null = || Expr::Value(Value::Null.into());
    let mut named = Vec::with_capacity(2 * fields.len());
    for (field, value) in fields.iter().zip(&mut values) {
        name_fields(value, field.data_type());
        named.push(Expr::Value(Value::SingleQuotedString(field.name().clone()).into()));
        named.push(mem::replace(*value, null()));
    }
    *value = call("named_struct", named);
}

/// The values of a row; `None` for another expression.
fn row(value: &mut Expr) -> Option<Vec<&mut Expr>> {
    match value {
        Expr::Tuple(values) => Some(values.iter_mut().collect()),
        Expr::Nested(inner) => row(inner),
        Expr::Function(function) => {
            let [name] = function.name.0.as_slice() else { return None };
            let name = &name.as_ident()?.value;
            let is_row = ["row", "struct"].iter().any(|row| name.eq_ignore_ascii_case(row));
            let FunctionArguments::List(list) = &mut function.args else { return None };
            let values = list.args.iter_mut().map(|arg| match arg {
                FunctionArg::Unnamed(FunctionArgExpr::Expr(value)) => Some(value),
                _ => None,
            });
            is_row.then(|| values.collect())?
        }
        _ => None,
    }
}
