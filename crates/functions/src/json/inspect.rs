//! Functions that describe JSON texts, check them, and print them.

use datafusion::arrow::array::{Array as _, ArrayRef};
use datafusion::common::Result;

use super::function::{Argument, Call, Definition, Output};
use super::path::Path;
use super::text::{Json, Kind};
use super::value::Value;

/// The functions of this file.
pub(super) fn functions() -> Vec<Definition> {
    use Argument::{Json as Document, Text};
    vec![
        Definition::new(&["json_type"], &[Document, Text], Output::Text, type_name).optional(1),
        Definition::new(&["json_typeof", "jsonb_typeof"], &[Document], Output::Text, kind_name),
        Definition::new(&["json_valid"], &[Text], Output::Boolean, valid),
        Definition::new(&["json"], &[Document], Output::Json, |call| {
            call.each_text(|row| Ok(call.json(0, row)?.map(Json::minified)))
        }),
        Definition::new(&["json_pretty"], &[Document], Output::Text, |call| pretty(call, false)),
        Definition::new(&["jsonb_pretty"], &[Document], Output::Text, |call| pretty(call, true)),
        Definition::new(&["json_contains"], &[Document, Document], Output::Boolean, |call| {
            contains(call, |own, other| own.contains_deep(other))
        }),
        Definition::new(&["jsonb_contains"], &[Document, Document], Output::Boolean, |call| {
            contains(call, |own, other| own.contains(other))
        }),
    ]
}

fn contains(call: &Call, test: fn(&Value<'_>, &Value<'_>) -> bool) -> Result<ArrayRef> {
    call.each_truth(|row| {
        let both = call.json(0, row)?.zip(call.json(1, row)?);
        let normal = |json| Value::from(json).normalized();
        Ok(both.map(|(left, right)| test(&normal(left), &normal(right))))
    })
}

fn pretty(call: &Call, breaks_empty: bool) -> Result<ArrayRef> {
    call.each_text(|row| {
        let Some(json) = call.json(0, row)? else { return Ok(None) };
        let mut out = String::new();
        Value::from(json).write_pretty(0, breaks_empty, &mut out)?;
        Ok(Some(out))
    })
}

fn valid(call: &Call) -> Result<ArrayRef> {
    call.each_truth(|row| Ok(call.text(0, row)?.map(|text| Json::parse(text).is_ok())))
}

fn kind_name(call: &Call) -> Result<ArrayRef> {
    call.each_text(|row| Ok(call.json(0, row)?.map(|json| json.kind().name())))
}

/// DuckDB's name of the type.
fn type_name(call: &Call) -> Result<ArrayRef> {
    call.each_text(|row| {
        let Some(json) = call.json(0, row)? else { return Ok(None) };
        let keys = call.arguments.get(1);
        let found = match keys {
            None => Some(json),
            Some(keys) if keys.is_null(row) => None,
            Some(_) => Path::parse(call.text(1, row)?.unwrap_or_default())?.find(json),
        };
        Ok(found.map(|found| match found.kind() {
            Kind::Null => "NULL",
            Kind::Boolean => "BOOLEAN",
            Kind::Number if found.text().parse::<u64>().is_ok() => "UBIGINT",
            Kind::Number if found.text().parse::<i64>().is_ok() => "BIGINT",
            Kind::Number => "DOUBLE",
            Kind::Text => "VARCHAR",
            Kind::Array => "ARRAY",
            Kind::Object => "OBJECT",
        }))
    })
}
