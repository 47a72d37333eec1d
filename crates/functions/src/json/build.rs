//! Functions that build JSON texts from values.

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _};
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, exec_err, plan_err};

use super::forms::normal;
use super::function::{Argument, Call, Definition, Output};
use super::text::{Json, Malformed};
use super::types::is_json;
use super::write::Writer;

/// The functions of this file.
pub(super) fn functions() -> Vec<Definition> {
    use Argument::Any;
    vec![
        Definition::new(
            &["to_json", "json_quote", "row_to_json", "array_to_json"],
            &[Any],
            Output::Json,
            |call| to_json(call, false),
        ),
        Definition::new(&["to_jsonb"], &[Any], Output::Json, |call| to_json(call, true)),
        Definition::new(&["json_cast"], &[Any], Output::Json, |call| cast(call, false, false)),
        Definition::new(&["try_json_cast"], &[Any], Output::Json, |call| cast(call, false, true)),
        Definition::new(&["jsonb_cast"], &[Any], Output::Json, |call| cast(call, true, false)),
        Definition::new(&["try_jsonb_cast"], &[Any], Output::Json, |call| cast(call, true, true)),
        Definition::new(&["json_array"], &[], Output::Json, |call| array(call, ",")).rest(Any),
        Definition::new(&["json_build_array"], &[], Output::Json, |call| array(call, ", "))
            .rest(Any),
        Definition::new(&["jsonb_build_array"], &[], Output::Json, |call| {
            normalized(call, &array(call, ",")?)
        })
        .rest(Any),
        Definition::new(&["json_object"], &[], Output::Json, |call| object(call, ":", ","))
            .rest(Any),
        Definition::new(&["json_build_object"], &[], Output::Json, |call| {
            object(call, " : ", ", ")
        })
        .rest(Any),
        Definition::new(&["jsonb_build_object"], &[], Output::Json, |call| {
            normalized(call, &object(call, ":", ",")?)
        })
        .rest(Any),
        Definition::new(&["json_of_list"], &[Any], Output::Json, |call| {
            of_list(call, ["[", ", ", "]"])
        }),
        Definition::new(&["jsonb_of_list"], &[Any], Output::Json, |call| {
            of_list(call, ["[", ", ", "]"])
        }),
        Definition::new(&["json_of_list_short"], &[Any], Output::Json, |call| {
            of_list(call, ["[", ",", "]"])
        }),
        Definition::new(&["json_of_pairs"], &[Any], Output::Json, |call| {
            of_pairs(call, ["{ ", ", ", " }"], " : ")
        }),
        Definition::new(&["json_of_pairs_short"], &[Any], Output::Json, |call| {
            of_pairs(call, ["{", ",", "}"], ":")
        }),
        Definition::new(&["jsonb_of_pairs"], &[Any], Output::Json, |call| {
            normalized(call, &of_pairs(call, ["{", ",", "}"], ":")?)
        }),
    ]
}

fn writers(call: &Call) -> Result<Vec<Writer>> {
    let arguments = call.arguments.iter().zip(&call.fields);
    arguments.map(|(array, field)| Writer::new(array, field)).collect()
}

fn to_json(call: &Call, normal: bool) -> Result<ArrayRef> {
    let (writers, values) = (writers(call)?, call.arguments.first());
    call.each_text(|row| {
        if values.is_none_or(|values| values.data_type().is_null() || values.is_null(row)) {
            return Ok(None);
        }
        let mut out = String::new();
        for writer in &writers {
            writer.write(row, &mut out)?;
        }
        if normal { normal_text(call, &out).map(Some) } else { Ok(Some(out)) }
    })
}

/// Casts to JSON, or to JSONB if `normal`: checks a text, and converts a value of another type as
/// `to_json` does. A malformed text is null if `lenient`, else an error.
fn cast(call: &Call, normal: bool, lenient: bool) -> Result<ArrayRef> {
    let is_text = |field: &Field| field.data_type().is_string() && !is_json(field);
    let is_json = call.fields.first().is_some_and(|field| is_json(field));
    let is_checked = call.fields.first().is_some_and(|field| is_text(field));
    if !(is_checked || is_json && normal) {
        return to_json(call, normal);
    }
    let texts = datafusion::arrow::compute::cast(&call.arguments[0], &DataType::Utf8View)?;
    let texts = texts.as_string_view();
    call.each_text(|row| {
        if texts.is_null(row) {
            return Ok(None);
        }
        let text = texts.value(row);
        match Json::parse(text) {
            Ok(_) if !normal => Ok(Some(text.to_owned())),
            Ok(_) => normal_text(call, text).map(Some),
            Err(_) if lenient => Ok(None),
            Err(error) => refused(&error),
        }
    })
}

fn refused<T>(error: &Malformed) -> Result<T> {
    exec_err!("{error}")
}

/// The normal form of a JSON text.
fn normal_text(call: &Call, text: &str) -> Result<String> {
    normal(text).map_err(|error| call.error(&error))
}

fn normalized(call: &Call, texts: &ArrayRef) -> Result<ArrayRef> {
    let texts = texts.as_string_view();
    call.each_text(|row| match texts.is_valid(row) {
        true => normal_text(call, texts.value(row)).map(Some),
        false => Ok(None),
    })
}

fn array(call: &Call, comma: &str) -> Result<ArrayRef> {
    let writers = writers(call)?;
    call.each_text(|row| {
        let mut out = "[".to_owned();
        for (at, writer) in writers.iter().enumerate() {
            out.push_str(if at > 0 { comma } else { "" });
            writer.write(row, &mut out)?;
        }
        out.push(']');
        Ok(Some(out))
    })
}

fn object(call: &Call, colon: &str, comma: &str) -> Result<ArrayRef> {
    if !call.count().is_multiple_of(2) {
        return plan_err!("{} takes names and values in turn", call.name);
    }
    let writers = writers(call)?;
    call.each_text(|row| {
        let mut out = "{".to_owned();
        for (at, pair) in writers.chunks_exact(2).enumerate() {
            let [name, value] = pair else { continue };
            out.push_str(if at > 0 { comma } else { "" });
            name.write_name(row, &mut out)?;
            out.push_str(colon);
            value.write(row, &mut out)?;
        }
        out.push('}');
        Ok(Some(out))
    })
}

/// Joins the JSON texts of each list in the first argument to an array, as `json_agg` does.
fn of_list(call: &Call, [open, comma, close]: [&str; 3]) -> Result<ArrayRef> {
    let lists = &call.arguments[0];
    let Some(lists) = lists.as_list_opt::<i32>() else {
        return call.each_text(|_| Ok(None::<String>));
    };
    call.each_text(|row| {
        if lists.is_null(row) {
            return Ok(None);
        }
        let items = datafusion::arrow::compute::cast(&lists.value(row), &DataType::Utf8View)?;
        let mut out = open.to_owned();
        for (at, item) in items.as_string_view().iter().enumerate() {
            out.push_str(if at > 0 { comma } else { "" });
            out.push_str(item.unwrap_or("null"));
        }
        out.push_str(close);
        Ok(Some(out))
    })
}

/// Joins each list of pairs, of a name and a JSON text, to an object, as `json_object_agg` does.
fn of_pairs(call: &Call, [open, comma, close]: [&str; 3], colon: &str) -> Result<ArrayRef> {
    let lists = &call.arguments[0];
    let Some(lists) = lists.as_list_opt::<i32>() else {
        return call.each_text(|_| Ok(None::<String>));
    };
    call.each_text(|row| {
        if lists.is_null(row) {
            return Ok(None);
        }
        let pairs = lists.value(row);
        let pairs = pairs.as_struct();
        let names = Writer::new(pairs.column(0), &pairs.fields()[0])?;
        let texts = datafusion::arrow::compute::cast(pairs.column(1), &DataType::Utf8View)?;
        let mut out = open.to_owned();
        for (at, text) in texts.as_string_view().iter().enumerate() {
            out.push_str(if at > 0 { comma } else { "" });
            names.write_name(at, &mut out)?;
            out.push_str(colon);
            out.push_str(text.unwrap_or("null"));
        }
        out.push_str(close);
        Ok(Some(out))
    })
}
