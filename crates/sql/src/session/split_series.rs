//! `string_to_table` and `regexp_split_to_table`: rows of the parts of a text.
//!
//! ```text
//! SELECT string_to_table(x, ',')             ->  SELECT unnest(string_to_array(x, ','))
//!                                                AS string_to_table
//! FROM regexp_split_to_table(x, '\s') AS w   ->  FROM unnest(regexp_split_to_array(x, '\s'))
//!                                                AS w(w)
//! ```

use std::mem;

use datafusion::sql::sqlparser::ast::{
    Expr, FunctionArg, FunctionArgExpr, FunctionArguments, Ident, ObjectName, Select, SelectItem,
    TableAlias, TableAliasColumnDef, TableFactor, Value,
};

use super::dialect::call;

/// The functions, and those that return the parts as a list.
const FUNCTIONS: [(&str, &str); 2] =
    [("string_to_table", "string_to_array"), ("regexp_split_to_table", "regexp_split_to_array")];

/// Rewrites a call; leaves any other expression unchanged.
pub(super) fn write_out(expr: &mut Expr) {
    let Expr::Function(function) = expr else { return };
    let Some((_, list)) = found(&function.name) else { return };
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
        if let Some((name, _)) = found(&function.name) {
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

/// The arguments of a call, if they are plain expressions.
fn plain(args: &[FunctionArg]) -> Option<Vec<Expr>> {
    let expr = |arg: &FunctionArg| match arg {
        FunctionArg::Unnamed(FunctionArgExpr::Expr(expr)) => Some(expr.clone()),
        _ => None,
    };
    args.iter().map(expr).collect()
}
