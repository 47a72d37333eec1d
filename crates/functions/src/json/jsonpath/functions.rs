//! SQL functions that evaluate paths, such as `jsonb_path_query_array`.

use std::borrow::Cow;

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use super::super::function::{Argument, Call, Definition, Output};
use super::super::text::Kind;
use super::super::value::{TEXT_BYTES_MAX, Value};
use super::evaluation::Evaluation;
use super::fault::Fault;
use super::item::Item;
use super::syntax::JsonPath;

/// Returns the functions.
pub(in super::super) fn functions() -> Vec<Definition> {
    use Argument::{Boolean, Json, Text};
    let of = |names, output, run| {
        Definition::new(names, &[Json, Text, Json, Boolean], output, run).optional(2)
    };
    let operator = |names, run| Definition::new(names, &[Json, Text], Output::Boolean, run);
    vec![
        of(&["jsonb_path_exists", "jsonb_path_exists_tz"], Output::Boolean, exists),
        of(&["jsonb_path_match", "jsonb_path_match_tz"], Output::Boolean, matches),
        of(&["jsonb_path_query_array", "jsonb_path_query_array_tz"], Output::Json, array),
        of(&["jsonb_path_query_first", "jsonb_path_query_first_tz"], Output::Json, first),
        of(&["jsonb_path_query_list"], Output::Jsons, list),
        operator(&["jsonb_path_exists_opr"], exists),
        operator(&["jsonb_path_match_opr"], matches),
        Definition::new(&["jsonpath_cast"], &[Text], Output::Text, cast),
    ]
}

/// Cache of the last path; mostly all rows have the same one.
#[derive(Default)]
struct Paths {
    known: Option<(String, JsonPath)>,
}

impl Paths {
    fn of(&mut self, text: &str) -> Result<&JsonPath> {
        let known = match self.known.take() {
            Some(known) if known.0 == text => known,
            _ => (text.to_owned(), JsonPath::parse(text)?),
        };
        Ok(&self.known.insert(known).1)
    }
}

/// Calls `map` with the evaluation of each row, and true if the row's faults are suppressed.
/// Returns null for rows with a null argument or a suppressed fault.
fn each<T>(
    call: &Call,
    mut map: impl FnMut(Evaluation<'_>, bool) -> std::result::Result<Option<T>, Fault>,
) -> Result<Vec<Option<T>>> {
    let mut paths = Paths::default();
    let is_operator = call.name.ends_with("_opr");
    let rows = (0..call.rows).map(|row| {
        let normal = |at: usize| -> Result<Option<Value<'_>>> {
            Ok(call.json(at, row)?.map(|json| Value::from(json).normalized()))
        };
        let Some(silent) = call.boolean(3, row, is_operator) else { return Ok(None) };
        let (Some(document), Some(path)) = (normal(0)?, call.text(1, row)?) else {
            return Ok(None);
        };
        let variables = if call.count() > 2 { normal(2)? } else { Some(Value::Object(Vec::new())) };
        let Some(variables) = variables else { return Ok(None) };
        if !matches!(variables, Value::Object(_)) {
            return exec_err!(
                "{}: the variables are no JSON object: give one such as {{\"x\": 1}} for $x",
                call.name
            );
        }
        let evaluation = Evaluation::new(paths.of(path)?, &document, Some(&variables));
        match map(evaluation, silent) {
            Ok(result) => Ok(result),
            Err(Fault::Value(_)) if silent => Ok(None),
            Err(Fault::Value(fault)) => exec_err!("{}: {fault}", call.name),
            Err(Fault::Call(error)) => Err(error),
        }
    });
    rows.collect()
}

/// The values that a path finds; only those before a fault if faults are suppressed.
fn found<T>(
    evaluation: Evaluation<'_>,
    silent: bool,
    map: impl FnOnce(&[Item<'_>]) -> Result<T>,
) -> std::result::Result<Option<T>, Fault> {
    let mut items = Vec::new();
    match evaluation.all(&mut items) {
        Err(Fault::Value(_)) if silent => {}
        result => result?,
    }
    map(&items).map(Some).map_err(Fault::Call)
}

/// Checks a path, which stays a text.
fn cast(call: &Call) -> Result<ArrayRef> {
    let paths = (0..call.rows).map(|row| match call.text(0, row)? {
        Some(text) => JsonPath::parse(text).map(|_| Some(text)),
        None => Ok(None),
    });
    let paths = paths.collect::<Result<Vec<_>>>()?;
    call.each_text(|row| Ok(paths.get(row).copied().flatten()))
}

fn exists(call: &Call) -> Result<ArrayRef> {
    let truths = each(call, |evaluation, _| evaluation.any().map(Some))?;
    call.each_truth(|row| Ok(truths.get(row).copied().flatten()))
}

/// The only value of a path, if it is a boolean or null.
fn matches(call: &Call) -> Result<ArrayRef> {
    let truths = each(call, |evaluation, silent| {
        let truth = found(evaluation, silent, |items| {
            Ok(match items {
                [one] if one.kind() == Kind::Boolean => Some(Some(one.word() == "true")),
                [one] if one.kind() == Kind::Null => Some(None),
                _ => None,
            })
        })?;
        match truth.flatten() {
            Some(truth) => Ok(truth),
            None if silent => Ok(None),
            None => Err(Fault::Value(
                "the JSON path finds no single boolean: write a condition such as $.a > 1"
                    .to_owned(),
            )),
        }
    })?;
    call.each_truth(|row| Ok(truths.get(row).copied().flatten()))
}

fn array(call: &Call) -> Result<ArrayRef> {
    let mut room = Room::default();
    let texts = each(call, |evaluation, silent| {
        found(evaluation, silent, |items| {
            let mut out = String::from("[");
            for (at, item) in items.iter().enumerate() {
                let begin = out.len();
                if at > 0 {
                    out.push_str(", ");
                }
                item.write(&mut out);
                room.take(call, out.len() - begin)?;
            }
            out.push(']');
            Ok(out)
        })
    })?;
    call.each_text(|row| Ok(texts.get(row).and_then(Option::as_deref)))
}

fn first(call: &Call) -> Result<ArrayRef> {
    let mut room = Room::default();
    let texts = each(call, |evaluation, silent| {
        let first = found(evaluation, silent, |items| {
            items.first().map(|item| room.text(call, item)).transpose()
        })?;
        Ok(first.flatten())
    })?;
    call.each_text(|row| Ok(texts.get(row).and_then(Option::as_deref)))
}

/// The values that a path finds as a list; `jsonb_path_query` returns a row for each element.
fn list(call: &Call) -> Result<ArrayRef> {
    let mut room = Room::default();
    let lists = each(call, |evaluation, silent| {
        found(evaluation, silent, |items| {
            items.iter().map(|item| room.text(call, item)).collect::<Result<Vec<_>>>()
        })
    })?;
    call.each_list(|row| {
        let list = lists.get(row).and_then(Option::as_ref);
        Ok(list.map(|texts| texts.iter().map(|text| Some(Cow::Borrowed(text.as_str()))).collect()))
    })
}

/// Counter of the bytes of a function's results for one batch, which limits them.
#[derive(Default)]
struct Room {
    bytes: usize,
}

impl Room {
    /// The text of a value, whose bytes are added to the counter.
    ///
    /// # Errors
    /// If the batch has too many bytes.
    fn text(&mut self, call: &Call, item: &Item<'_>) -> Result<String> {
        let mut out = String::new();
        item.write(&mut out);
        self.take(call, out.len())?;
        Ok(out)
    }

    fn take(&mut self, call: &Call, bytes: usize) -> Result<()> {
        self.bytes = self.bytes.saturating_add(bytes);
        match self.bytes > TEXT_BYTES_MAX {
            true => exec_err!(
                "{}: the values of a batch of rows have more than {TEXT_BYTES_MAX} bytes; make the \
                 path find fewer, or set a smaller datafusion.execution.batch_size",
                call.name
            ),
            false => Ok(()),
        }
    }
}
