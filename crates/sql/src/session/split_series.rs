//! `string_to_table`, `regexp_split_to_table`, `regexp_matches` and `jsonb_path_query`: rows of the
//! parts of a text.
//!
//! In an expression, `regexp_matches` has rows if its options are a constant with `g`; else it is
//! DuckDB's, which returns true or false.
//!
//! ```text
//! SELECT string_to_table(x, ',')             ->  SELECT unnest(string_to_array(x, ','))
//!                                                AS string_to_table
//! FROM regexp_split_to_table(x, '\s') AS w   ->  FROM unnest(regexp_split_to_array(x, '\s'))
//!                                                AS w(w)
//! FROM regexp_matches(x, 'a.')               ->  FROM unnest(regexp_match_list(x, 'a.'))
//!                                                AS regexp_matches(regexp_matches)
//! ```

use std::mem;

use datafusion::sql::sqlparser::ast::{
    Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Select,
    SelectItem, TableAlias, TableAliasColumnDef, TableFactor, Value, ValueWithSpan,
};

use super::dialect::call;

/// The functions, and those that return the parts as a list.
const FUNCTIONS: [(&str, &str); 5] = [
    ("string_to_table", "string_to_array"),
    ("regexp_split_to_table", "regexp_split_to_array"),
    (MATCHES, "regexp_match_list"),
    ("jsonb_path_query", "jsonb_path_query_list"),
    ("jsonb_path_query_tz", "jsonb_path_query_list"),
];

/// The function that returns rows in FROM, and in an expression with the option `g`.
const MATCHES: &str = "regexp_matches";

/// Rewrites a call; leaves any other expression unchanged.
pub(super) fn write_out(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let Some((_, list)) = found_in_expression(function) else { return };
    let FunctionArguments::List(arguments) = &function.args else { return };
    if let Some(arguments) = plain(&arguments.args) {
        *expr = call("unnest", [call(list, arguments)]);
    }
}

/// Gives the columns of calls the names of the functions.
pub(super) fn name_columns(select: &mut Select) {
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(expr) = item else { continue };
        let Expr::Function(function) = &*expr else { continue };
        if let Some((name, _)) = found_in_expression(function) {
            let expr = mem::replace(expr, Expr::Value(Value::Null.into()));
            let alias = Ident::with_quote('"', name);
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

/// Rewrites a call in FROM; leaves any other relation unchanged.
pub(super) fn write_out_table(table: &mut TableFactor) {
    let (name, args, alias) = match table {
        TableFactor::Table { name, args: Some(args), alias, .. } => (&*name, &args.args, alias),
        TableFactor::Function { name, args, alias, with_ordinality: false, .. } => {
            (&*name, &*args, alias)
        }
        _ => return,
    };
    let Some((function, list)) = found(name) else { return };
    let Some(arguments) = plain(args) else { return };
    let given = || TableAlias {
        explicit: true,
        name: Ident::with_quote('"', function),
        columns: vec![],
        at: None,
    };
    let mut alias = alias.take().unwrap_or_else(given);
    if alias.columns.is_empty() {
        let name = alias.name.clone();
        alias.columns.push(TableAliasColumnDef { name, data_type: None });
    }
    *table = TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs: vec![call(list, arguments)],
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
}

fn found(name: &ObjectName) -> Option<(&'static str, &'static str)> {
    let [name] = name.0.as_slice() else { return None };
    let name = &name.as_ident()?.value;
    FUNCTIONS.into_iter().find(|(function, _)| function.eq_ignore_ascii_case(name))
}

/// A function that returns rows where it is called in an expression.
fn found_in_expression(function: &Function) -> Option<(&'static str, &'static str)> {
    let found = found(&function.name)?;
    (found.0 != MATCHES || is_global(function)).then_some(found)
}

/// True if the third argument is a text with `g`.
fn is_global(function: &Function) -> bool {
    let FunctionArguments::List(list) = &function.args else { return false };
    let options = match list.args.get(2) {
        Some(FunctionArg::Unnamed(FunctionArgExpr::Expr(Expr::Value(ValueWithSpan {
            value,
            ..
        })))) => value,
        _ => return false,
    };
    match options {
        Value::SingleQuotedString(text) | Value::EscapedStringLiteral(text) => text.contains('g'),
        _ => false,
    }
}

/// The arguments of a call, if they are plain expressions.
fn plain(args: &[FunctionArg]) -> Option<Vec<Expr>> {
    let expr = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    args.iter().map(expr).collect()
}
