//! Literals of multidimensional arrays: PostgreSQL takes the number of dimensions from the value.
//!
//! ```text
//! '{{1,2},{3,4}}'::int[]        '{{1,2},{3,4}}'::int[][]
//! array_fill(7, ARRAY[2, 3])    array_fill(array_fill(7, ARRAY[3]), ARRAY[2])
//! ```

use std::mem;

use datafusion::sql::sqlparser::ast::{
    Array, ArrayElemTypeDef, DataType, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArguments, Value, ValueWithSpan,
};
use terrace_functions::lists::depth_of;

use super::super::dialect::call;

/// Maximum number of dimensions of an array, as in PostgreSQL.
const DIMENSIONS_MAX: usize = 6;

/// Rewrites a cast of a literal or a call of `array_fill`; leaves any other expression unchanged.
pub(super) fn write_out(expr: &mut Expr) {
    match expr {
        Expr::Cast { expr, data_type, array: false, .. } => {
            if let Some(written) = array_type(expr, data_type) {
                *data_type = written;
            }
        }
        Expr::Function(function) => {
            if let Some(written) = filled(function) {
                *expr = written;
            }
        }
        _ => {}
    }
}

/// The array type `of` with as many dimensions as the literal `operand` has; `None` if it has as
/// many already.
fn array_type(operand: &Expr, of: &DataType) -> Option<DataType> {
    let Expr::Value(ValueWithSpan {
        value: Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text),
        ..
    }) = operand
    else {
        return None;
    };
    let (mut item, mut dimensions) = (of, 0);
    while let DataType::Array(ArrayElemTypeDef::SquareBracket(inner, None)) = item {
        item = inner;
        dimensions += 1;
    }
    let given = depth_of(text);
    if dimensions == 0 || given == dimensions || !(1..=DIMENSIONS_MAX).contains(&given) {
        return None;
    }
    let array = |of| DataType::Array(ArrayElemTypeDef::SquareBracket(Box::new(of), None));
    Some((0..given).fold(item.clone(), |of, _| array(of)))
}

/// Calls of `array_fill` within each other, for the lengths of several dimensions.
fn filled(function: &mut Function) -> Option<Expr> {
    let [name] = function.name.0.as_slice() else { return None };
    if !name.as_ident()?.value.eq_ignore_ascii_case("array_fill") {
        return None;
    }
    let FunctionArguments::List(list) = &mut function.args else { return None };
    let [
        FunctionArg::Unnamed(FunctionArgExpr::Expr(value)),
        FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Array(lengths))),
    ] = list.args.as_mut_slice()
    else {
        return None;
    };
    if !(2..=DIMENSIONS_MAX).contains(&lengths.elem.len()) {
        return None;
    }
    let value = mem::replace(value, Expr::Value(Value::Null.into()));
    let one = |length| Expr::Array(Array { elem: vec![length], named: true });
    let lengths = mem::take(&mut lengths.elem).into_iter().rev();
    Some(lengths.fold(value, |value, length| call("array_fill", [value, one(length)])))
}
