//! Functions that choose elements of lists, and those of PostgreSQL about their bounds.

use std::sync::Arc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _, Int64Array, StringArray};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err, plan_err};

use super::elements::{Lists, element_field, list_type, lists_at};
use super::function::{Call, Definition};
use super::limits::{BATCH_BYTES_MAX, element_bytes};

/// Maximum number of elements of a list whose length is an argument.
const FILLED_MAX: usize = 1 << 24;

/// The functions of this file.
pub(super) fn functions() -> Vec<Definition> {
    let same = |given: &[DataType]| given.first().cloned().unwrap_or(DataType::Null);
    let integer = |_: &[DataType]| DataType::Int64;
    let of_booleans = |name: &str, given: &[DataType]| {
        list_and(name, given, DataType::new_list(DataType::Boolean, true))
    };
    let of_integers = |name: &str, given: &[DataType]| {
        list_and(name, given, DataType::new_list(DataType::Int64, true))
    };
    let with_integer = |name: &str, given: &[DataType]| list_and(name, given, DataType::Int64);
    vec![
        Definition {
            names: &["array_length", "list_length"],
            coerce: list_and_dimension,
            returns: integer,
            run: |call| if call.arguments.len() == 1 { length(call) } else { bound(call, true) },
        },
        Definition {
            names: &["list_where", "array_where"],
            coerce: of_booleans,
            returns: same,
            run: pick_where,
        },
        Definition {
            names: &["list_select", "array_select"],
            coerce: of_integers,
            returns: same,
            run: select,
        },
        Definition {
            names: &["array_upper"],
            coerce: with_integer,
            returns: integer,
            run: |call| bound(call, true),
        },
        Definition {
            names: &["array_lower"],
            coerce: with_integer,
            returns: integer,
            run: |call| bound(call, false),
        },
        Definition { names: &["trim_array"], coerce: with_integer, returns: same, run: trim },
        Definition { names: &["len"], coerce: list_or_text, returns: integer, run: length },
        Definition {
            names: &["array_dims", "list_dims"],
            coerce: list,
            returns: |_| DataType::Utf8,
            run: dims,
        },
        Definition {
            names: &["array_fill"],
            coerce: value_and_lengths,
            returns: |given| {
                DataType::new_list(given.first().cloned().unwrap_or(DataType::Null), true)
            },
            run: fill,
        },
    ]
}

/// The function of the number of elements of a list.
pub(super) fn length_of_list() -> Definition {
    Definition { names: &["list_length"], coerce: list, returns: |_| DataType::Int64, run: length }
}

pub(super) fn list(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [of] if list_type(of).is_some() => Ok(list_type(of).into_iter().collect()),
        _ => plan_err!("{name} takes a list"),
    }
}

/// A list, and the number of a dimension that may be left out.
fn list_and_dimension(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [_] => list(name, given),
        _ => list_and(name, given, DataType::Int64),
    }
}

/// A list and an argument of another type.
fn list_and(name: &str, given: &[DataType], other: DataType) -> Result<Vec<DataType>> {
    match given {
        [of, second] => {
            let fits = match &other {
                DataType::List(_) => list_type(second).is_some(),
                _ => second.is_integer() || second.is_null(),
            };
            match list_type(of).filter(|_| fits) {
                Some(of) => Ok(vec![of, other]),
                None => plan_err!("{name} takes a list and {other}, not {of} and {second}"),
            }
        }
        _ => plan_err!("{name} takes a list and {other}"),
    }
}

fn list_or_text(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [of] if of.is_string() => Ok(vec![DataType::Utf8]),
        [of] if list_type(of).is_some() => Ok(list_type(of).into_iter().collect()),
        _ => plan_err!("{name} takes a list or a text"),
    }
}

fn value_and_lengths(name: &str, given: &[DataType]) -> Result<Vec<DataType>> {
    match given {
        [value, lengths] if list_type(lengths).is_some() => {
            Ok(vec![value.clone(), DataType::new_list(DataType::Int64, true)])
        }
        _ => plan_err!("{name} takes a value and the lengths of the dimensions: {name}(7, [3])"),
    }
}

/// Builds lists of chosen places of the elements of the first argument.
pub(super) fn choose(
    call: &Call,
    chosen: impl Fn(&Lists, usize) -> Result<Option<Vec<Option<usize>>>>,
) -> Result<ArrayRef> {
    let lists = Lists::new(&call.arguments[0])?;
    let rows = (0..call.rows).map(|row| chosen(&lists, row)).collect::<Result<Vec<_>>>()?;
    match element_field(&call.output) {
        Some(field) => lists_at(field, &rows, lists.values()),
        None => exec_err!("{} returns lists", call.name),
    }
}

fn pick_where(call: &Call) -> Result<ArrayRef> {
    let conditions = Lists::new(&call.arguments[1])?;
    let flags = conditions.values().as_boolean();
    choose(call, |lists, row| {
        let Some((places, conditions)) = lists.range(row).zip(conditions.range(row)) else {
            return Ok(None);
        };
        let is_null = conditions.clone().any(|at| flags.is_null(at));
        if is_null {
            return exec_err!("{}: a condition is NULL: give true or false", call.name);
        }
        let kept = conditions.enumerate().filter(|&(_, at)| flags.value(at));
        let kept = kept.map(|(at, _)| Some(places.start + at).filter(|at| places.contains(at)));
        Ok(Some(kept.collect()))
    })
}

fn select(call: &Call) -> Result<ArrayRef> {
    let positions = Lists::new(&call.arguments[1])?;
    let numbers = positions.values().as_primitive::<Int64Type>();
    choose(call, |lists, row| {
        let Some((places, positions)) = lists.range(row).zip(positions.range(row)) else {
            return Ok(None);
        };
        if positions.clone().any(|at| numbers.is_null(at)) {
            return exec_err!("{}: a position is NULL: give a number", call.name);
        }
        let place = |at: usize| {
            let position = usize::try_from(numbers.value(at).checked_sub(1)?).ok()?;
            Some(places.start + position).filter(|place| places.contains(place))
        };
        Ok(Some(positions.map(place).collect()))
    })
}

fn trim(call: &Call) -> Result<ArrayRef> {
    let counts = call.arguments[1].as_primitive::<Int64Type>();
    choose(call, |lists, row| {
        let Some(places) = lists.range(row).filter(|_| counts.is_valid(row)) else {
            return Ok(None);
        };
        let count = usize::try_from(counts.value(row)).ok();
        let kept = count.and_then(|count| places.len().checked_sub(count));
        match kept {
            Some(kept) => Ok(Some(places.take(kept).map(Some).collect())),
            None => exec_err!(
                "trim_array: the number of elements must be between 0 and {}",
                places.len()
            ),
        }
    })
}

/// The number of elements of a list, or of characters of a text.
fn length(call: &Call) -> Result<ArrayRef> {
    let array = &call.arguments[0];
    let count = |count: usize| i64::try_from(count).ok();
    let counts: Int64Array = if let Some(texts) = array.as_string_opt::<i32>() {
        texts.iter().map(|text| count(text?.chars().count())).collect()
    } else {
        let lists = Lists::new(array)?;
        (0..call.rows).map(|row| count(lists.range(row)?.len())).collect()
    };
    Ok(Arc::new(counts))
}

/// The bounds of all dimensions, such as `[1:2][1:3]`; null for an empty list.
fn dims(call: &Call) -> Result<ArrayRef> {
    let dims = |row: usize| -> Result<Option<String>> {
        let mut level = call.arguments[0].slice(row, 1);
        let mut dims = String::new();
        loop {
            let lists = Lists::new(&level)?;
            let Some(range) = lists.range(0).filter(|range| !range.is_empty()) else { break };
            dims.push_str(&format!("[1:{}]", range.len()));
            if list_type(lists.values().data_type()).is_none()
                || lists.values().data_type().is_null()
            {
                break;
            }
            level = lists.values().slice(range.start, 1);
        }
        Ok((!dims.is_empty()).then_some(dims))
    };
    Ok(Arc::new((0..call.rows).map(dims).collect::<Result<StringArray>>()?))
}

/// The bound of a dimension: 1, or the number of elements.
fn bound(call: &Call, upper: bool) -> Result<ArrayRef> {
    let dimensions = call.arguments[1].as_primitive::<Int64Type>();
    let bound = |row: usize| -> Result<Option<i64>> {
        let mut level = ArrayRef::clone(&call.arguments[0]).slice(row, 1);
        let dimension = if dimensions.is_valid(row) { dimensions.value(row) } else { 0 };
        if dimension < 1 {
            return Ok(None);
        }
        for _ in 1..dimension {
            let lists = Lists::new(&level)?;
            let first = lists.range(0).filter(|range| !range.is_empty());
            let Some(first) = first.filter(|_| list_type(lists.values().data_type()).is_some())
            else {
                return Ok(None);
            };
            level = lists.values().slice(first.start, 1);
        }
        let lists = Lists::new(&level)?;
        let count = lists.range(0).map_or(0, |range| range.len());
        let upper = if upper { i64::try_from(count).ok() } else { Some(1) };
        Ok(upper.filter(|_| count > 0))
    };
    Ok(Arc::new((0..call.rows).map(bound).collect::<Result<Int64Array>>()?))
}

/// Lists of one dimension filled with one value. More dimensions are planned as nested calls.
fn fill(call: &Call) -> Result<ArrayRef> {
    let lengths = Lists::new(&call.arguments[1])?;
    let numbers = lengths.values().as_primitive::<Int64Type>();
    let Some(field) = element_field(&call.output) else {
        return exec_err!("{} returns lists", call.name);
    };
    let bytes = usize::try_from(element_bytes(&call.arguments[0])).unwrap_or(usize::MAX);
    let bytes_max = usize::try_from(BATCH_BYTES_MAX).unwrap_or(usize::MAX);
    let mut total = 0_usize;
    let rows = (0..call.rows).map(|row| {
        let Some(range) = lengths.range(row) else { return Ok(None) };
        if range.is_empty() {
            return Ok(Some(Vec::new()));
        }
        if range.len() != 1 || numbers.is_null(range.start) {
            return exec_err!(
                "array_fill makes lists of one dimension: array_fill(7, [3]); write the lengths of \
                 more dimensions as a list of constants, array_fill(7, ARRAY[2, 3])"
            );
        }
        let count = usize::try_from(numbers.value(range.start)).ok();
        total = total.saturating_add(count.unwrap_or(usize::MAX));
        match count.filter(|_| total <= FILLED_MAX && total.saturating_mul(bytes) <= bytes_max) {
            Some(count) => Ok(Some(vec![Some(row); count])),
            None => exec_err!(
                "array_fill makes at most {FILLED_MAX} elements, of {bytes_max} bytes together"
            ),
        }
    });
    lists_at(field, &rows.collect::<Result<Vec<_>>>()?, &call.arguments[0])
}
