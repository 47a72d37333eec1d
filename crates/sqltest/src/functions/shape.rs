//! Types of the arguments of generated calls.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::ScalarValue;
use datafusion::logical_expr::type_coercion::functions::{UDFCoercionExt, fields_with_udf};
use datafusion::logical_expr::{AggregateUDF, ReturnFieldArgs, ScalarUDF};

use super::argument::{KINDS, Kind};
use super::words::words;

/// An argument of a call.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Argument {
    /// Values of a type.
    Of(Kind),
    /// Literals that the function needs at this place, such as the name of a unit.
    Words(&'static [&'static str]),
}

/// Combinations of two types that differ.
const PAIRS: &[[Kind; 2]] = &[
    [Kind::Text, Kind::Int],
    [Kind::Ints, Kind::Int],
    [Kind::Texts, Kind::Text],
    [Kind::Date, Kind::Int],
    [Kind::Timestamp, Kind::Interval],
    [Kind::Date, Kind::Interval],
    [Kind::Decimal, Kind::Int],
    [Kind::Double, Kind::Int],
    [Kind::Json, Kind::Text],
    [Kind::Json, Kind::Int],
    [Kind::Json, Kind::Texts],
    [Kind::Map, Kind::Text],
    [Kind::Interval, Kind::Timestamp],
    [Kind::Text, Kind::Date],
    [Kind::Text, Kind::Timestamp],
    [Kind::Text, Kind::Instant],
    [Kind::Text, Kind::Interval],
    [Kind::Text, Kind::Time],
    [Kind::Date, Kind::Text],
    [Kind::Timestamp, Kind::Text],
    [Kind::Interval, Kind::Text],
    [Kind::Double, Kind::Text],
    [Kind::Int, Kind::Text],
    [Kind::Int, Kind::Ints],
    [Kind::Bytes, Kind::Text],
    [Kind::Ints, Kind::Text],
    [Kind::Ints, Kind::Double],
    [Kind::Text, Kind::Texts],
];

const TRIPLES: &[[Kind; 3]] = &[
    [Kind::Text, Kind::Text, Kind::Text],
    [Kind::Text, Kind::Int, Kind::Int],
    [Kind::Text, Kind::Int, Kind::Text],
    [Kind::Text, Kind::Text, Kind::Int],
    [Kind::Ints, Kind::Int, Kind::Int],
    [Kind::Texts, Kind::Text, Kind::Text],
    [Kind::Texts, Kind::Text, Kind::Int],
    [Kind::Int, Kind::Int, Kind::Int],
    [Kind::Double, Kind::Double, Kind::Double],
    [Kind::Decimal, Kind::Decimal, Kind::Decimal],
    [Kind::Int, Kind::Int, Kind::Double],
    [Kind::Bool, Kind::Int, Kind::Int],
    [Kind::Text, Kind::Date, Kind::Date],
    [Kind::Text, Kind::Timestamp, Kind::Timestamp],
    [Kind::Interval, Kind::Timestamp, Kind::Timestamp],
    [Kind::Json, Kind::Texts, Kind::Json],
    [Kind::Json, Kind::Json, Kind::Json],
    [Kind::Json, Kind::Text, Kind::Text],
    [Kind::Timestamp, Kind::Timestamp, Kind::Interval],
];

const LONGER: &[&[Kind]] = &[
    &[Kind::Text, Kind::Text, Kind::Text, Kind::Text],
    &[Kind::Text, Kind::Text, Kind::Int, Kind::Int],
    &[Kind::Double, Kind::Double, Kind::Double, Kind::Int],
    &[Kind::Int, Kind::Int, Kind::Int, Kind::Int, Kind::Int, Kind::Double],
    &[Kind::Ints, Kind::Int, Kind::Int, Kind::Int],
    &[Kind::Int, Kind::Int, Kind::Int, Kind::Int],
];

/// Returns all combinations of types that are tried.
fn candidates() -> Vec<Vec<Kind>> {
    let mut all = vec![Vec::new()];
    all.extend(KINDS.iter().map(|kind| vec![*kind]));
    all.extend(KINDS.iter().map(|kind| vec![*kind, *kind]));
    all.extend(PAIRS.iter().map(|pair| pair.to_vec()));
    all.extend(TRIPLES.iter().map(|triple| triple.to_vec()));
    all.extend(LONGER.iter().map(|kinds| kinds.to_vec()));
    all
}

fn fields(kinds: &[Kind]) -> Vec<FieldRef> {
    let field = |kind: &Kind| -> FieldRef { Arc::new(Field::new("x", kind.data_type(), true)) };
    kinds.iter().map(field).collect()
}

/// Returns the types to which arguments of `kinds` are coerced; `None` if the function does not
/// take them.
fn coerced(function: &impl UDFCoercionExt, kinds: &[Kind]) -> Option<Vec<FieldRef>> {
    fields_with_udf(&fields(kinds), function).ok()
}

fn is_exact(kinds: &[Kind], taken: &[FieldRef]) -> bool {
    let same = |(kind, field): (&Kind, &FieldRef)| {
        let (given, taken) = (kind.data_type(), field.data_type());
        given == *taken || is_text(&given) && is_text(taken)
    };
    kinds.len() == taken.len() && kinds.iter().zip(taken).all(same)
}

fn is_text(of: &DataType) -> bool {
    match of {
        DataType::List(element) => element.data_type().is_string(),
        other => other.is_string(),
    }
}

/// Chooses at most `count` combinations of types that a function takes, first those that it takes
/// without a cast.
fn chosen(
    name: &str,
    count: usize,
    takes: impl Fn(&[Kind]) -> Option<Vec<FieldRef>>,
) -> Vec<Vec<Argument>> {
    let has_json = name.contains("json");
    let taken = candidates().into_iter().filter_map(|kinds| {
        // To other functions JSON is a text.
        if kinds.contains(&Kind::Json) && !has_json {
            return None;
        }
        let taken = takes(&kinds)?;
        Some((!is_exact(&kinds, &taken), kinds))
    });
    let mut taken: Vec<_> = taken.collect();
    taken.sort_by_key(|(is_cast, _)| *is_cast);
    let shape = |(_, kinds): (bool, Vec<Kind>)| {
        let argument = |(place, kind)| match words(name, place) {
            Some(words) => Argument::Words(words),
            None => Argument::Of(kind),
        };
        kinds.into_iter().enumerate().map(argument).collect::<Vec<_>>()
    };
    let mut shapes: Vec<Vec<Argument>> = Vec::new();
    for shape in taken.into_iter().map(shape) {
        if shapes.len() < count && !shapes.contains(&shape) {
            shapes.push(shape);
        }
    }
    shapes
}

/// Returns the arguments that a scalar function is called with, at most `count` combinations.
pub fn of_scalar(function: &ScalarUDF, count: usize) -> Vec<Vec<Argument>> {
    chosen(function.name(), count, |kinds| {
        let taken = coerced(function, kinds)?;
        let given = fields(kinds);
        let constants: Vec<_> =
            given.iter().map(|field| ScalarValue::try_from(field.data_type()).ok()).collect();
        let constants: Vec<_> = constants.iter().map(Option::as_ref).collect();
        let args = ReturnFieldArgs { arg_fields: &taken, scalar_arguments: &constants };
        let is_typed = function.return_field_from_args(args).is_ok()
            || words(function.name(), 0).is_some()
            || words(function.name(), 1).is_some();
        is_typed.then_some(taken)
    })
}

/// Returns the arguments that an aggregate function is called with, at most `count` combinations.
pub fn of_aggregate(function: &AggregateUDF, count: usize) -> Vec<Vec<Argument>> {
    let shapes = chosen(function.name(), count, |kinds| coerced(function, kinds));
    // The names that stand for other functions take anything here.
    shapes.into_iter().filter(|shape| shape.len() < 4).collect()
}
