//! Rewrites of casts to JSON, and of JSON aggregates and set-returning functions, to calls of
//! scalar functions.
//!
//! ```text
//! x::json                       json_cast(x), which checks the text
//! x::jsonb                      jsonb_cast(x), which returns the normal form
//! x::jsonpath                   jsonpath_cast(x), which checks the path
//! json_agg(x)                   json_of_list(array_agg(to_json(x)))
//! json_object_agg(k, v)         json_of_pairs(array_agg(named_struct('k', k, 'v', to_json(v))))
//! json_array_elements(x)        unnest(json_elements(x))
//! FROM json_each(x)             FROM unnest(json_keys(x), json_values(x)) AS json_each(key, value)
//! ```

use std::mem;

use datafusion::sql::sqlparser::ast::{
    CastKind, DataType, Expr, Function, FunctionArg, FunctionArgExpr, FunctionArguments, Ident,
    ObjectName, Select, SelectItem, TableAlias, TableAliasColumnDef, TableFactor, TypedString,
    Value, ValueWithSpan,
};
use terrace_table::error::SqlError;

use super::dialect::{arguments, call, expression};
use super::json_records::refuse_row_types;
use super::refusal::refused;

/// Aggregates of values. For each, the function of each value, and the function of the list of its
/// results that builds the JSON array.
const LISTS: [(&str, &str, &str); 3] = [
    ("json_agg", "to_json", "json_of_list"),
    ("jsonb_agg", "to_jsonb", "jsonb_of_list"),
    ("json_group_array", "to_json", "json_of_list_short"),
];

/// Aggregates of names and values. For each, the function of each value, and the function of the
/// list of pairs that builds the JSON object.
const PAIRS: [(&str, &str, &str); 3] = [
    ("json_object_agg", "to_json", "json_of_pairs"),
    ("jsonb_object_agg", "to_jsonb", "jsonb_of_pairs"),
    ("json_group_object", "to_json", "json_of_pairs_short"),
];

/// Set-returning functions. For each, the names of its columns, and the function that returns each
/// column as a list.
const SETS: [(&str, &[(&str, &str)]); 10] = [
    ("json_array_elements", &[("value", "json_elements")]),
    ("jsonb_array_elements", &[("value", "json_elements")]),
    ("json_array_elements_text", &[("value", "json_elements_text")]),
    ("jsonb_array_elements_text", &[("value", "json_elements_text")]),
    ("json_object_keys", &[("json_object_keys", "json_keys")]),
    ("jsonb_object_keys", &[("jsonb_object_keys", "json_keys")]),
    ("json_each", &[("key", "json_keys"), ("value", "json_values")]),
    ("jsonb_each", &[("key", "json_keys"), ("value", "json_values")]),
    ("json_each_text", &[("key", "json_keys"), ("value", "json_values_text")]),
    ("jsonb_each_text", &[("key", "json_keys"), ("value", "json_values_text")]),
];

/// Rewrites a cast or a call; leaves any other expression unchanged.
///
/// # Errors
/// [`SqlError::Refused`] for a cast to a list of JSON, and for functions over row types.
pub(super) fn write_out(expr: &mut Expr) -> Result<(), SqlError> {
    let written = match expr {
        Expr::Cast { kind, expr, data_type, array: false, format: None }
            if is_path(data_type) && matches!(kind, CastKind::Cast | CastKind::DoubleColon) =>
        {
            Some(call("jsonpath_cast", [mem::replace(expr.as_mut(), null())]))
        }
        Expr::Cast { kind, expr, data_type, array: false, format: None } => {
            let operand = mem::replace(expr.as_mut(), null());
            match cast(data_type, *kind != CastKind::Cast && *kind != CastKind::DoubleColon) {
                Some(function) => Some(call(function, [operand])),
                None => {
                    **expr = operand;
                    refuse_lists(data_type)?;
                    None
                }
            }
        }
        Expr::TypedString(TypedString { data_type, value, .. }) => {
            cast(data_type, false).map(|function| call(function, [Expr::Value(value.clone())]))
        }
        Expr::Function(function) => {
            refuse_row_types(&function.name)?;
            as_jsonb(function);
            aggregate(function).or_else(|| set(function))
        }
        _ => None,
    };
    if let Some(written) = written {
        *expr = written;
    }
    Ok(())
}

/// Functions of JSONB that return parts of a value, which are those of its normal form.
const OF_JSONB: [(&str, ()); 8] = [
    ("jsonb_array_elements", ()),
    ("jsonb_array_elements_text", ()),
    ("jsonb_each", ()),
    ("jsonb_each_text", ()),
    ("jsonb_extract_path", ()),
    ("jsonb_extract_path_text", ()),
    ("jsonb_object_keys", ()),
    ("jsonb_pretty", ()),
];

/// Casts a literal that is the value of a function of JSONB.
fn as_jsonb(function: &mut Function) {
    if find(&function.name, &OF_JSONB).is_none() {
        return;
    }
    let Some(arguments) = arguments(function) else { return };
    if let Some(value @ Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(_), .. })) =
        arguments.into_iter().next()
    {
        *value = call("jsonb_cast", [mem::replace(value, null())]);
    }
}

/// True for `jsonpath`, the type of JSON paths, which exists only in casts.
fn is_path(of: &DataType) -> bool {
    let DataType::Custom(name, _) = of else { return false };
    let [name] = name.0.as_slice() else { return false };
    name.as_ident().is_some_and(|name| name.value.eq_ignore_ascii_case("jsonpath"))
}

fn null() -> Expr {
    Expr::Value(Value::Null.into())
}

/// The function of a cast to JSON or JSONB; if `lenient`, one that returns null for an invalid
/// text. `None` for a cast to another type.
fn cast(to: &DataType, lenient: bool) -> Option<&'static str> {
    match (to, lenient) {
        (DataType::JSON, false) => Some("json_cast"),
        (DataType::JSON, true) => Some("try_json_cast"),
        (DataType::JSONB, false) => Some("jsonb_cast"),
        (DataType::JSONB, true) => Some("try_jsonb_cast"),
        _ => None,
    }
}

fn refuse_lists(to: &DataType) -> Result<(), SqlError> {
    let DataType::Array(_) = to else { return Ok(()) };
    match to.to_string().to_ascii_uppercase().contains("JSON") {
        true => Err(refused(
            &format!("a cast to {to}"),
            "cast to VARCHAR[], or take the elements with json_array_elements",
        )),
        false => Ok(()),
    }
}

fn find<T: Copy>(name: &ObjectName, functions: &[(&str, T)]) -> Option<T> {
    let [name] = name.0.as_slice() else { return None };
    let name = &name.as_ident()?.value;
    let found = functions.iter().find(|(function, _)| function.eq_ignore_ascii_case(name));
    found.map(|(_, found)| *found)
}

/// Rewrites a JSON aggregate as a call over `array_agg`, which takes over its ORDER BY, FILTER and
/// OVER; `None` for any other function.
fn aggregate(function: &mut Function) -> Option<Expr> {
    let lists = LISTS.map(|(name, element, list)| (name, (element, list)));
    let pairs = PAIRS.map(|(name, element, list)| (name, (element, list)));
    let (of_list, of_pairs) = (find(&function.name, &lists), find(&function.name, &pairs));
    let (element, list) = of_list.or(of_pairs)?;
    let mut given = arguments(function)?;
    let taken = match given.as_mut_slice() {
        [value] if of_list.is_some() => call(element, [mem::replace(*value, null())]),
        [name, value] if of_pairs.is_some() => {
            let (name, value) = (mem::replace(*name, null()), mem::replace(*value, null()));
            let key = |key: &str| Expr::Value(Value::SingleQuotedString(key.to_owned()).into());
            call("named_struct", [key("k"), name, key("v"), call(element, [value])])
        }
        _ => return None,
    };
    let mut inner = mem::replace(function, empty());
    inner.name = ObjectName::from(vec![Ident::new("array_agg")]);
    if let FunctionArguments::List(list) = &mut inner.args {
        list.args = vec![FunctionArg::Unnamed(FunctionArgExpr::Expr(taken))];
    }
    Some(call(list, [Expr::Function(inner)]))
}

/// A placeholder for a call that is moved.
fn empty() -> Function {
    Function {
        name: ObjectName(Vec::new()),
        uses_odbc_syntax: false,
        parameters: FunctionArguments::None,
        args: FunctionArguments::None,
        filter: None,
        null_treatment: None,
        over: None,
        within_group: Vec::new(),
    }
}

/// Names the columns of set-returning functions in a SELECT list after the functions, as in
/// PostgreSQL.
pub(super) fn name_columns(select: &mut Select) {
    for item in &mut select.projection {
        let SelectItem::UnnamedExpr(Expr::Function(function)) = item else { continue };
        if let Some([_]) = find(&function.name, &SETS)
            && let Some(name) = function.name.0.last().and_then(|part| part.as_ident())
        {
            let alias = Ident::with_quote('"', name.value.to_ascii_lowercase());
            let expr = Expr::Function(mem::replace(function, empty()));
            *item = SelectItem::ExprWithAlias { expr, alias };
        }
    }
}

/// Rewrites a set-returning function of one column in an expression; `None` for any other function.
fn set(function: &mut Function) -> Option<Expr> {
    let [(_, list)] = find(&function.name, &SETS)? else { return None };
    let argument = match arguments(function)?.as_mut_slice() {
        [argument] => mem::replace(*argument, null()),
        _ => return None,
    };
    Some(call("unnest", [call(list, [argument])]))
}

/// Rewrites a set-returning function of JSON in FROM; leaves any other relation unchanged.
pub(super) fn write_out_table(table: &mut TableFactor) {
    let (name, args, alias) = match table {
        TableFactor::Table { name, args: Some(args), alias, .. } => (name, &mut args.args, alias),
        TableFactor::Function { name, args, alias, with_ordinality: false, .. } => {
            (name, args, alias)
        }
        _ => return,
    };
    let (Some(columns), [argument]) = (find(name, &SETS), args.as_mut_slice()) else { return };
    let Some(argument) = expression(argument).cloned() else { return };
    let quoted = |name: &str| Ident::with_quote('"', name);
    let function = name.0.last().and_then(|part| part.as_ident()).map_or("", |name| &name.value);
    let given = || TableAlias {
        explicit: true,
        name: quoted(&function.to_ascii_lowercase()),
        columns: Vec::new(),
        at: None,
    };
    let is_unnamed_output = function.eq_ignore_ascii_case("json_object_keys")
        || function.eq_ignore_ascii_case("jsonb_object_keys");
    let mut alias = match alias.take() {
        // The column has the name of the function only where nothing else names it.
        Some(mut alias) if is_unnamed_output && alias.columns.is_empty() => {
            let name = alias.name.clone();
            alias.columns.push(TableAliasColumnDef { name, data_type: None });
            alias
        }
        alias => alias.unwrap_or_else(given),
    };
    let named = columns.iter().skip(alias.columns.len());
    let named = named.map(|(name, _)| TableAliasColumnDef { name: quoted(name), data_type: None });
    alias.columns.extend(named.collect::<Vec<_>>());
    let lists = columns.iter().map(|(_, list)| call(list, [argument.clone()]));
    *table = TableFactor::UNNEST {
        alias: Some(alias),
        array_exprs: lists.collect(),
        with_offset: false,
        with_offset_alias: None,
        with_ordinality: false,
    };
}
