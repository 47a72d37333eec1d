//! Functions that change JSON values.

use std::borrow::Cow;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::{Result, exec_err};

use super::function::{Argument, Call, Definition, Output};
use super::value::Value;

/// The functions of this file.
pub(super) fn functions() -> Vec<Definition> {
    use Argument::{Boolean, Json, Key, Text, Texts};
    vec![
        Definition::new(&["json_merge_patch"], &[Json, Json], Output::Json, merge).rest(Json),
        Definition::new(&["json_strip_nulls"], &[Json], Output::Json, |call| {
            let value = |row| Ok(call.json(0, row)?.map(|it| Value::from(it).without_nulls()));
            each(call, value, Value::write)
        }),
        Definition::new(&["jsonb_strip_nulls"], &[Json], Output::Json, |call| {
            let value = |row| Ok(normal(call, 0, row)?.map(Value::without_nulls));
            each(call, value, Value::write_normal)
        }),
        Definition::new(&["jsonb_set"], &[Json, Texts, Json, Boolean], Output::Json, set)
            .optional(1),
        Definition::new(
            &["jsonb_set_lax"],
            &[Json, Texts, Json, Boolean, Text],
            Output::Json,
            set_lax,
        )
        .optional(2),
        Definition::new(&["jsonb_insert"], &[Json, Texts, Json, Boolean], Output::Json, insert)
            .optional(1),
        Definition::new(&["jsonb_concat"], &[Json, Json], Output::Json, concat),
        Definition::new(&["jsonb_delete"], &[Json, Key], Output::Json, delete),
        Definition::new(&["jsonb_delete_path"], &[Json, Texts], Output::Json, delete_path),
    ]
}

/// Returns the texts that `write` makes of the value of each row; null for `None`.
fn each<'a>(
    call: &'a Call,
    value: impl Fn(usize) -> Result<Option<Value<'a>>>,
    write: fn(&Value<'a>, &mut String),
) -> Result<ArrayRef> {
    call.each_text(|row| {
        let value = value(row)?;
        Ok(value.map(|value| {
            let mut out = String::new();
            write(&value, &mut out);
            out
        }))
    })
}

/// The JSON of an argument in normal form.
fn normal(call: &Call, at: usize, row: usize) -> Result<Option<Value<'_>>> {
    Ok(call.json(at, row)?.map(|json| Value::from(json).normalized()))
}

/// Merges patches from the left; a null is the JSON null, as in DuckDB.
fn merge(call: &Call) -> Result<ArrayRef> {
    let value = |row| {
        let mut merged = call.json(0, row)?.map(Value::from);
        for at in 1..call.count() {
            let patch = call.json(at, row)?.map(Value::from);
            merged = patch.map(|patch| merged.take().unwrap_or(Value::Word("null")).merged(patch));
        }
        Ok(merged)
    };
    each(call, value, Value::write)
}

fn set(call: &Call) -> Result<ArrayRef> {
    change(call, true, put)
}

fn insert(call: &Call) -> Result<ArrayRef> {
    change(call, false, insert_at)
}

/// Sets a value as `jsonb_set` does; the last argument, such as `delete_key`, decides what a new
/// value that is NULL does.
fn set_lax(call: &Call) -> Result<ArrayRef> {
    let value = |row| {
        let Some(creates) = call.boolean(3, row, true) else { return Ok(None) };
        let treatment = match call.count() {
            5 => call.text(4, row)?.unwrap_or_default(),
            _ => "use_json_null",
        };
        let both = normal(call, 0, row)?.zip(path(call, row)?);
        let Some((mut target, path)) = both else { return Ok(None) };
        refuse_scalar(call, &target)?;
        let new = match (normal(call, 2, row)?, treatment) {
            (Some(new), _) => new,
            (None, "use_json_null") => Value::Word("null"),
            (None, "return_target") => return Ok(Some(target)),
            (None, "delete_key") => {
                remove(&mut target, &path)?;
                return Ok(Some(target));
            }
            (None, "raise_exception") => {
                return exec_err!(
                    "jsonb_set_lax: the new value is NULL, which the argument \"raise_exception\" \
                     refuses"
                );
            }
            (None, other) => {
                return exec_err!(
                    "jsonb_set_lax: a new value that is NULL is treated by \"use_json_null\", \
                     \"delete_key\", \"return_target\" or \"raise_exception\", not {other:?}"
                );
            }
        };
        put(&mut target, &path, new, creates)?;
        Ok(Some(target.normalized()))
    };
    each(call, value, Value::write_normal)
}

/// Applies `apply` to the first argument, with the path, the new value and the option, which is
/// `default` if left out.
fn change(
    call: &Call,
    default: bool,
    apply: for<'a> fn(&mut Value<'a>, &[String], Value<'a>, bool) -> Result<()>,
) -> Result<ArrayRef> {
    let value = |row| {
        let Some(option) = call.boolean(3, row, default) else { return Ok(None) };
        let (target, path) = (normal(call, 0, row)?, path(call, row)?);
        let (Some(mut target), Some(path), Some(new)) = (target, path, normal(call, 2, row)?)
        else {
            return Ok(None);
        };
        refuse_scalar(call, &target)?;
        apply(&mut target, &path, new, option)?;
        Ok(Some(target.normalized()))
    };
    each(call, value, Value::write_normal)
}

/// Inserts a member that does not exist, or an element before another one, or after it if
/// `is_behind`.
fn insert_at<'a>(
    target: &mut Value<'a>,
    path: &[String],
    new: Value<'a>,
    is_behind: bool,
) -> Result<()> {
    let Some((step, rest)) = path.split_first() else { return Ok(()) };
    if !rest.is_empty() {
        return match child_mut(target, step)? {
            Some(child) => insert_at(child, rest, new, is_behind),
            None => Ok(()),
        };
    }
    match target {
        Value::Object(members) if members.iter().any(|(key, _)| key.as_ref() == step.as_str()) => {
            exec_err!("jsonb_insert: the key {step:?} exists; use jsonb_set to replace its value")
        }
        Value::Object(members) => {
            members.push((Cow::Owned(step.clone()), new));
            Ok(())
        }
        Value::Array(elements) => {
            let end = if step.starts_with('-') { 0 } else { elements.len() };
            let place = place(elements.len(), step)?;
            elements.insert(place.map_or(end, |place| place + usize::from(is_behind)), new);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// The steps of a path, the second argument; `None` for null.
fn path(call: &Call, row: usize) -> Result<Option<Vec<String>>> {
    let Some(steps) = call.items(1, row)? else { return Ok(None) };
    let steps = steps.into_iter().enumerate().map(|(place, step)| match step {
        Some(step) => Ok(step),
        None => exec_err!("{}: step {} of the path is NULL", call.name, place + 1),
    });
    steps.collect::<Result<_>>().map(Some)
}

/// Sets the value at a path, if all but its last step exist; adds the last one if `creates`.
fn put<'a>(target: &mut Value<'a>, path: &[String], new: Value<'a>, creates: bool) -> Result<()> {
    let Some((step, rest)) = path.split_first() else { return Ok(()) };
    if let Some(child) = child_mut(target, step)? {
        return match rest {
            [] => {
                *child = new;
                Ok(())
            }
            rest => put(child, rest, new, creates),
        };
    }
    match target {
        _ if !creates || !rest.is_empty() => {}
        Value::Object(members) => members.push((Cow::Owned(step.clone()), new)),
        Value::Array(elements) if step.starts_with('-') => elements.insert(0, new),
        Value::Array(elements) => elements.push(new),
        _ => {}
    }
    Ok(())
}

fn child_mut<'v, 'a>(value: &'v mut Value<'a>, step: &str) -> Result<Option<&'v mut Value<'a>>> {
    Ok(match value {
        Value::Object(members) => {
            members.iter_mut().find(|(key, _)| key == step).map(|(_, value)| value)
        }
        Value::Array(elements) => match place(elements.len(), step)? {
            Some(place) => elements.get_mut(place),
            None => None,
        },
        _ => None,
    })
}

/// The index of the element of an array of `count` elements at the position `step`, which counts
/// from the end if negative; `None` if there is no such element.
fn place(count: usize, step: &str) -> Result<Option<usize>> {
    let Ok(position) = step.parse::<i64>() else {
        return exec_err!("{step:?} is no position of a JSON array: give an integer");
    };
    Ok(place_of(count, position))
}

fn place_of(count: usize, position: i64) -> Option<usize> {
    let distance = usize::try_from(position.unsigned_abs()).ok()?;
    let place = if position < 0 { count.checked_sub(distance)? } else { distance };
    (place < count).then_some(place)
}

fn refuse_scalar(call: &Call, value: &Value<'_>) -> Result<()> {
    match value {
        Value::Array(_) | Value::Object(_) => Ok(()),
        _ => exec_err!("{}: the JSON value is no array or object", call.name),
    }
}

fn concat(call: &Call) -> Result<ArrayRef> {
    let value = |row| {
        let both = normal(call, 0, row)?.zip(normal(call, 1, row)?);
        Ok(both.map(|(left, right)| match (left, right) {
            (Value::Object(mut left), Value::Object(right)) => {
                left.extend(right);
                Value::Object(left).normalized()
            }
            (left, right) => {
                let mut elements = elements_of(left);
                elements.extend(elements_of(right));
                Value::Array(elements)
            }
        }))
    };
    each(call, value, Value::write_normal)
}

fn elements_of(value: Value<'_>) -> Vec<Value<'_>> {
    match value {
        Value::Array(elements) => elements,
        other => vec![other],
    }
}

fn delete(call: &Call) -> Result<ArrayRef> {
    let value = |row| {
        let keys = call.arguments.get(1).filter(|keys| keys.is_valid(row));
        let Some((mut target, keys)) = normal(call, 0, row)?.zip(keys) else { return Ok(None) };
        refuse_scalar(call, &target)?;
        match (&mut target, keys.as_primitive_opt::<Int64Type>()) {
            (Value::Array(elements), Some(positions)) => {
                if let Some(place) = place_of(elements.len(), positions.value(row)) {
                    elements.remove(place);
                }
            }
            (_, Some(_)) => return exec_err!("an object has no positions: give the member's name"),
            (Value::Array(elements), None) => {
                let key = call.text(1, row)?.unwrap_or_default();
                elements.retain(|element| !matches!(element, Value::Text(text) if text == key));
            }
            (Value::Object(members), None) => {
                let key = call.text(1, row)?.unwrap_or_default();
                members.retain(|(name, _)| name != key);
            }
            _ => {}
        }
        Ok(Some(target))
    };
    each(call, value, Value::write_normal)
}

fn delete_path(call: &Call) -> Result<ArrayRef> {
    let value = |row| {
        let both = normal(call, 0, row)?.zip(path(call, row)?);
        let Some((mut target, path)) = both else { return Ok(None) };
        refuse_scalar(call, &target)?;
        remove(&mut target, &path)?;
        Ok(Some(target))
    };
    each(call, value, Value::write_normal)
}

fn remove(target: &mut Value<'_>, path: &[String]) -> Result<()> {
    match path {
        [] => {}
        [last] => match target {
            Value::Object(members) => members.retain(|(name, _)| name != last),
            Value::Array(elements) => {
                if let Some(place) = place(elements.len(), last)? {
                    elements.remove(place);
                }
            }
            _ => {}
        },
        [step, rest @ ..] => {
            if let Some(child) = child_mut(target, step)? {
                remove(child, rest)?;
            }
        }
    }
    Ok(())
}
