//! Functions on names, texts and arrays.

use datafusion::arrow::array::{Array as _, ArrayRef};
use datafusion::common::{Result, ScalarValue, plan_err};

use super::super::types;
use super::super::value::Value;
use super::argument::{integer, items, text};
use super::call::Call;
use super::function::{Definition, Returns, lenient, strict};
use super::identifier::{identifiers, quote};
use crate::column_types::field_type;

pub(super) const FUNCTIONS: &[Definition] = &[
    strict("quote_ident", (1, 1), Returns::Text, |_, arguments| Ok(quoted(arguments).into())),
    strict("quote_literal", (1, 1), Returns::Text, |_, arguments| Ok(literal(arguments).into())),
    lenient("quote_nullable", (1, 1), Returns::Text, |_, arguments| {
        let is_null = arguments.iter().any(ScalarValue::is_null);
        Ok(if is_null { "NULL".to_owned() } else { literal(arguments) }.into())
    }),
    strict("bpchar", (1, 1), Returns::Text, |_, args| Ok(args.first().and_then(text).into())),
    strict("oidvectortypes", (1, 1), Returns::Text, |call, arguments| {
        let items = arguments.first().and_then(items);
        let item =
            |items: &ArrayRef, index| integer(&ScalarValue::try_from_array(items, index).ok()?);
        let oids = items.iter().flat_map(|items| (0..items.len()).filter_map(|i| item(items, i)));
        let types: Vec<_> = oids.map(|oid| call.format_type(oid, None)).collect();
        Ok(types.join(", ").into())
    }),
    strict("like_escape", (2, 2), Returns::Text, like_escape),
    strict("parse_ident", (1, 2), Returns::Texts, parse_ident),
    strict("array_prefixed", (2, 2), Returns::Texts, array_prefixed),
    strict("array_lower", (2, 2), Returns::Int4, |_, arguments| Ok(bound(arguments, |_| 1))),
    strict("array_upper", (2, 2), Returns::Int4, |_, arguments| Ok(bound(arguments, |len| len))),
    strict("generate_subscripts", (2, 2), Returns::Ints, |_, arguments| {
        match bound(arguments, |len| len) {
            Value::Int(len) => Ok(Value::Ints((1..=len).collect())),
            _ => Ok(Value::Ints(vec![])),
        }
    }),
    strict("_pg_expandarray", (1, 1), Returns::Pairs, |_, arguments| {
        let items = arguments.first().and_then(items);
        let numbers = items.iter().flat_map(|items| {
            let item = |index| ScalarValue::try_from_array(items, index).ok();
            (0..items.len()).filter_map(item).filter_map(|item| integer(&item))
        });
        Ok(Value::Ints(numbers.collect()))
    }),
    lenient("pg_typeof", (1, 1), Returns::Text, |call, _| {
        let of = call.fields.first().map(|field| field_type(field));
        let of = of.and_then(|of| types::by_oid(of.oid().into()));
        Ok(of.map(|of| of.sql_name).into())
    }),
];

/// Converts a LIKE pattern with another escape character to one whose escape character is a
/// backslash.
fn like_escape(_: &Call<'_>, arguments: &[ScalarValue]) -> Result<Value> {
    let [pattern, escape] = arguments else { return Ok(Value::Null) };
    let (pattern, escape) = (text(pattern).unwrap_or_default(), text(escape).unwrap_or_default());
    let mut characters = escape.chars();
    let escape = characters.next();
    if characters.next().is_some() {
        return plan_err!("ESCAPE takes one character or none");
    }
    let mut written = String::with_capacity(pattern.len());
    let mut pattern = pattern.chars();
    while let Some(character) = pattern.next() {
        let literal = match character {
            _ if Some(character) == escape => pattern.next(),
            '\\' => Some(character),
            _ => None,
        };
        match literal {
            Some(literal) => written.extend(['\\', literal]),
            None => written.push(character),
        }
    }
    Ok(written.into())
}

/// Returns the items of an array of texts, each with a prefix.
fn array_prefixed(_: &Call<'_>, arguments: &[ScalarValue]) -> Result<Value> {
    let [prefix, array] = arguments else { return Ok(Value::Null) };
    let prefix = text(prefix).unwrap_or_default();
    let Some(items) = items(array) else { return Ok(Value::Null) };
    let item = |index| ScalarValue::try_from_array(&items, index).ok();
    let texts = (0..items.len()).filter_map(item).filter_map(|item| text(&item));
    Ok(Value::Texts(texts.map(|item| format!("{prefix}{item}")).collect()))
}

/// Returns a bound of an array's only dimension; null for another dimension, or an empty array.
fn bound(arguments: &[ScalarValue], of: impl Fn(i64) -> i64) -> Value {
    let [array, dimension] = arguments else { return Value::Null };
    let len = items(array).and_then(|items| i64::try_from(items.len()).ok()).unwrap_or(0);
    let is_first = integer(dimension) == Some(1);
    (is_first && len > 0).then(|| of(len)).into()
}

fn quoted(arguments: &[ScalarValue]) -> String {
    quote(&arguments.first().and_then(text).unwrap_or_default())
}

/// Returns the first argument as a literal of SQL, as `quote_literal` does.
pub(super) fn literal(arguments: &[ScalarValue]) -> String {
    let text = arguments.first().and_then(text).unwrap_or_default().replace('\'', "''");
    match text.contains('\\') {
        true => format!(" E'{}'", text.replace('\\', "\\\\")),
        false => format!("'{text}'"),
    }
}

fn parse_ident(_: &Call<'_>, arguments: &[ScalarValue]) -> Result<Value> {
    let name = arguments.first().and_then(text).unwrap_or_default();
    match identifiers(&name) {
        Some(parts) => Ok(Value::Texts(parts)),
        None => plan_err!("{name:?} is no name; quote what is not a letter, digit or underscore"),
    }
}
