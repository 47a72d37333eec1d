//! `LATERAL unnest(l)`, which the parser reads as the call of any function: `unnest(l)`, which is
//! lateral without the word.

use std::mem;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, ObjectName, TableFactor,
};

/// Rewrites a call of `unnest` behind LATERAL; leaves any other relation unchanged.
pub(super) fn write_out(table: &mut TableFactor) {
    let TableFactor::Function { name, args, with_ordinality, alias, .. } = table else { return };
    if !is_unnest(name) {
        return;
    }
    let Some(array_exprs) = args.iter().map(argument).collect::<Option<Vec<_>>>() else { return };
    let (alias, with_ordinality) = (mem::take(alias), *with_ordinality);
    *table = TableFactor::UNNEST {
        alias,
        array_exprs,
        with_offset: false,
        with_offset_alias: None,
        with_ordinality,
    };
}

/// The argument, if it is an expression without a name.
fn argument(arg: &FunctionArg) -> Option<Expr> {
    match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    }
}

fn is_unnest(name: &ObjectName) -> bool {
    let [name] = name.0.as_slice() else { return false };
    name.as_ident().is_some_and(|name| name.value.eq_ignore_ascii_case("unnest"))
}
