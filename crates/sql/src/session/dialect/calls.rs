//! Construction of calls and casts for rewrites of syntax trees.

use datafusion::sql::sqlparser::ast::helpers::attached_token::AttachedToken;
use datafusion::sql::sqlparser::ast::{
    CaseWhen, CastKind, DataType, ExactNumberInfo, Expr, Function, FunctionArg, FunctionArgExpr,
    FunctionArgumentList, FunctionArguments, Ident, ObjectName, Value,
};

/// Casts an expression to double precision.
pub(crate) fn double(expr: Expr) -> Expr {
    cast(expr, DataType::Double(ExactNumberInfo::None))
}

/// Casts an expression to a type.
pub(crate) fn cast(expr: Expr, data_type: DataType) -> Expr {
    let (kind, expr) = (CastKind::Cast, Box::new(expr));
    Expr::Cast { kind, expr, data_type, array: false, format: None }
}

/// Builds a call of the function `name`, for statement rewrites.
pub fn call(name: &str, arguments: impl IntoIterator<Item = Expr>) -> Expr {
    let arguments = arguments.into_iter().map(FunctionArgExpr::Expr).map(FunctionArg::Unnamed);
    Expr::Function(Function {
        name: ObjectName::from(vec![Ident::new(name)]),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::List(FunctionArgumentList {
            duplicate_treatment: None,
            args: arguments.collect(),
            clauses: vec![],
        }),
        filter: None,
        null_treatment: None,
        over: None,
        within_group: vec![],
    })
}

/// True for a call of the function `name`, without a schema.
pub(crate) fn is_call_of(function: &Function, name: &str) -> bool {
    let [part] = function.name.0.as_slice() else { return false };
    part.as_ident().is_some_and(|ident| ident.value.eq_ignore_ascii_case(name))
}

/// The arguments of a call, if they are plain expressions.
pub(crate) fn arguments(function: &mut Function) -> Option<Vec<&mut Expr>> {
    let FunctionArguments::List(list) = &mut function.args else { return None };
    list.args.iter_mut().map(expression).collect()
}

/// The expression of an argument, if it has neither a name nor a wildcard.
pub(crate) fn expression(arg: &mut FunctionArg) -> Option<&mut Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr),
        _ => None,
    }
}

/// Wraps a value in `CASE number WHEN number THEN value END`, which has the same value, and a
/// name that is unique if `number` is.
pub(in super::super) fn with_name(value: Expr, number: usize) -> Expr {
    let number = || Expr::Value(Value::Number(number.to_string(), false).into());
    Expr::Case {
        case_token: AttachedToken::empty(),
        end_token: AttachedToken::empty(),
        operand: Some(Box::new(number())),
        conditions: vec![CaseWhen { condition: number(), result: value }],
        else_result: None,
    }
}
