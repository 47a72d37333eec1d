//! Rewrites of DuckDB's functions of structs, lists and maps as calls of DataFusion's functions.
//!
//! ```text
//! struct_pack(a := 1, b := 2)    named_struct('a', 1, 'b', 2)
//! struct_insert(s, c := 3)       struct_insert(s, 'c', 3)
//! struct_extract(s, 'a')         get_field(s, 'a')
//! list_value(1, 2)               make_array(1, 2)
//! map_contains(m, k)             array_has(map_keys(m), k)
//! map_extract_value(m, k)        array_element(map_extract(m, k), 1)
//! ```

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Value,
};
use terrace_table::error::SqlError;

use super::dialect::call;
use super::refusal::refused;

/// Rewrites a call; leaves any other expression unchanged.
///
/// # Errors
/// [`SqlError::Refused`] for an argument without a name where each needs one.
pub(super) fn write_out(expr: &mut Expr) -> Result<(), SqlError> {
    let Expr::Function(function) = expr else { return Ok(()) };
    let [name] = function.name.0.as_slice() else { return Ok(()) };
    let Some(name) = name.as_ident().map(|name| name.value.to_ascii_lowercase()) else {
        return Ok(());
    };
    match name.as_str() {
        "struct_pack" => {
            write_names(function, 0)?;
            rename(function, "named_struct");
            Ok(())
        }
        "struct_insert" | "struct_update" => write_names(function, 1),
        "list_value" | "list_pack" => {
            rename(function, "make_array");
            Ok(())
        }
        "map_contains" => {
            if let Some([map, key]) = arguments(function) {
                *expr = call("array_has", [call("map_keys", [map]), key]);
            }
            Ok(())
        }
        "map_extract_value" => {
            if let Some([map, key]) = arguments(function) {
                let one = Expr::Value(Value::Number("1".to_owned(), false).into());
                *expr = call("array_element", [call("map_extract", [map, key]), one]);
            }
            Ok(())
        }
        "struct_extract" => {
            rename(function, "get_field");
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The arguments of a call of two expressions.
fn arguments(function: &Function) -> Option<[Expr; 2]> {
    let FunctionArguments::List(list) = &function.args else { return None };
    let exprs = list.args.iter().map(|arg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    });
    exprs.collect::<Option<Vec<_>>>()?.try_into().ok()
}

fn rename(function: &mut Function, name: &str) {
    function.name = ObjectName::from(vec![Ident::new(name)]);
}

/// Puts the name of each argument after the first `plain` ones before it, as an argument: a text.
fn write_names(function: &mut Function, plain: usize) -> Result<(), SqlError> {
    let FunctionArguments::List(list) = &mut function.args else { return Ok(()) };
    if !list.args.iter().any(|arg| matches!(arg, FunctionArg::Named { .. })) && plain > 0 {
        // Written out before.
        return Ok(());
    }
    let mut written = Vec::new();
    for (place, arg) in std::mem::take(&mut list.args).into_iter().enumerate() {
        match arg {
            arg if place < plain => written.push(arg),
            FunctionArg::Named { name, arg, .. } => {
                let name = Expr::Value(Value::SingleQuotedString(name.value).into());
                written.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(name)));
                written.push(FunctionArg::Unnamed(arg));
            }
            FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Identifier(name))) => {
                // A column has its own name.
                let text = Expr::Value(Value::SingleQuotedString(name.value.clone()).into());
                written.push(FunctionArg::Unnamed(FunctionArgExpr::Expr(text)));
                let column = FunctionArgExpr::Expr(Expr::Identifier(name));
                written.push(FunctionArg::Unnamed(column));
            }
            other => {
                return Err(refused(
                    &format!("the argument {other} of a struct"),
                    "name it: struct_pack(a := 1)",
                ));
            }
        }
    }
    list.args = written;
    Ok(())
}
