//! Functions that extract values from JSON texts.

use std::borrow::Cow;
use std::cell::RefCell;
use std::rc::Rc;

use datafusion::arrow::array::{Array as _, ArrayRef, AsArray as _};
use datafusion::arrow::datatypes::{DataType, Int64Type};
use datafusion::common::{Result, exec_err};

use super::function::{Argument, Call, Definition, Output};
use super::path::{Path, child};
use super::text::{Json, Kind};

/// The functions of this file.
pub(super) fn functions() -> Vec<Definition> {
    use Argument::{Json as Document, Key, Text, Texts};
    vec![
        Definition::new(&["json_extract"], &[Document, Key], Output::Found, extract),
        Definition::new(
            &["json_extract_string"],
            &[Document, Key],
            Output::FoundText,
            extract_text,
        ),
        Definition::new(&["json_get"], &[Document, Key], Output::Json, get),
        Definition::new(&["json_get_text"], &[Document, Key], Output::Text, get_text),
        Definition::new(&["json_subscript"], &[Document, Key], Output::Json, subscript),
        Definition::new(&["json_get_path"], &[Document, Texts], Output::Json, get_path),
        Definition::new(&["json_get_path_text"], &[Document, Texts], Output::Text, get_path_text),
        Definition::new(
            &["json_extract_path", "jsonb_extract_path"],
            &[Document],
            Output::Json,
            |it| follow(it, raw),
        )
        .rest(Text),
        Definition::new(
            &["json_extract_path_text", "jsonb_extract_path_text"],
            &[Document],
            Output::Text,
            |it| follow(it, plain),
        )
        .rest(Text),
        Definition::new(&["json_value"], &[Document, Key], Output::Text, value),
        Definition::new(&["json_exists"], &[Document, Key], Output::Boolean, exists),
        Definition::new(&["jsonb_exists"], &[Document, Text], Output::Boolean, has_key),
        Definition::new(&["jsonb_exists_any"], &[Document, Texts], Output::Boolean, has_any),
        Definition::new(&["jsonb_exists_all"], &[Document, Texts], Output::Boolean, has_all),
        Definition::new(
            &["json_array_length", "jsonb_array_length"],
            &[Document, Key],
            Output::Integer,
            length,
        )
        .optional(1),
        Definition::new(&["json_keys"], &[Document, Key], Output::Texts, keys).optional(1),
        Definition::new(&["json_values"], &[Document], Output::Jsons, values),
        Definition::new(&["json_elements"], &[Document], Output::Jsons, elements),
        Definition::new(&["json_values_text"], &[Document], Output::Texts, values_text),
        Definition::new(&["json_elements_text"], &[Document], Output::Texts, elements_text),
    ]
}

fn raw(json: Json<'_>) -> Option<Cow<'_, str>> {
    Some(Cow::Borrowed(json.text()))
}

fn plain(json: Json<'_>) -> Option<Cow<'_, str>> {
    json.plain()
}

/// Parser of the paths in argument `at`, with a cache of the last path.
struct Paths<'a> {
    call: &'a Call,
    at: usize,
    last: RefCell<Option<(String, Rc<Path>)>>,
}

impl<'a> Paths<'a> {
    fn of(call: &'a Call, at: usize) -> Self {
        Self { call, at, last: RefCell::new(None) }
    }

    /// The path of a row; `None` for null.
    fn path(&self, row: usize) -> Result<Option<Rc<Path>>> {
        let Some(array) = self.call.arguments.get(self.at).filter(|array| array.is_valid(row))
        else {
            return Ok(None);
        };
        if let Some(positions) = array.as_primitive_opt::<Int64Type>() {
            return Ok(Some(Rc::new(Path::of_position(positions.value(row)))));
        }
        let text = self.call.text(self.at, row)?.unwrap_or_default();
        let mut last = self.last.borrow_mut();
        if let Some((_, path)) = last.as_ref().filter(|(of, _)| of == text) {
            return Ok(Some(Rc::clone(path)));
        }
        let path = Rc::new(Path::parse(text)?);
        *last = Some((text.to_owned(), Rc::clone(&path)));
        Ok(Some(path))
    }

    /// The JSON text of a row and its path; `None` if one of them is null.
    fn both(&self, row: usize) -> Result<Option<(Json<'a>, Rc<Path>)>> {
        Ok(self.call.json(0, row)?.zip(self.path(row)?))
    }

    /// The value at the path of a row; `None` if it does not exist, or if an argument is null.
    fn found(&self, row: usize) -> Result<Option<Json<'a>>> {
        let Some((json, path)) = self.both(row)? else { return Ok(None) };
        if path.is_of_many() {
            return exec_err!("{}: a path with * has to be a constant", self.call.name);
        }
        Ok(path.find(json))
    }
}

fn extract(call: &Call) -> Result<ArrayRef> {
    extract_as(call, |json| Some(json.minified()))
}

fn extract_text(call: &Call) -> Result<ArrayRef> {
    extract_as(call, |json| match json.kind() {
        Kind::Array | Kind::Object => Some(json.minified()),
        _ => json.plain(),
    })
}

fn extract_as(call: &Call, text: impl Fn(Json<'_>) -> Option<Cow<'_, str>>) -> Result<ArrayRef> {
    let paths = Paths::of(call, 1);
    if !matches!(call.output, DataType::List(_)) {
        return call.each_text(|row| Ok(paths.found(row)?.and_then(&text)));
    }
    call.each_list(|row| {
        let both = paths.both(row)?;
        Ok(both.map(|(json, path)| path.find_all(json).into_iter().map(&text).collect()))
    })
}

/// PostgreSQL's `->`: a member, or an element. A key such as `$.a` or `/a` that is not the name of
/// a member is DuckDB's path.
fn find<'a>(call: &'a Call, row: usize) -> Result<Option<Json<'a>>> {
    let Some(json) = call.json(0, row)? else { return Ok(None) };
    let Some(keys) = call.arguments.get(1).filter(|keys| keys.is_valid(row)) else {
        return Ok(None);
    };
    if let Some(positions) = keys.as_primitive_opt::<Int64Type>() {
        return Ok(json.element(positions.value(row)));
    }
    let key = call.text(1, row)?.unwrap_or_default();
    match json.member(key) {
        None if Path::is_path(key) => {
            let path = Path::parse(key)?;
            match path.is_of_many() {
                true => exec_err!("the operator -> takes no path with *: use json_extract"),
                false => Ok(path.find(json)),
            }
        }
        found => Ok(found),
    }
}

fn get(call: &Call) -> Result<ArrayRef> {
    call.each_text(|row| Ok(find(call, row)?.map(Json::text)))
}

fn get_text(call: &Call) -> Result<ArrayRef> {
    call.each_text(|row| Ok(find(call, row)?.and_then(Json::plain)))
}

/// PostgreSQL's `j['a']`: a member, or an element, also if its position is a text.
fn subscript(call: &Call) -> Result<ArrayRef> {
    call.each_text(|row| {
        let Some(json) = call.json(0, row)? else { return Ok(None) };
        let Some(keys) = call.arguments.get(1).filter(|keys| keys.is_valid(row)) else {
            return Ok(None);
        };
        let key = match keys.as_primitive_opt::<Int64Type>() {
            Some(positions) => Cow::Owned(positions.value(row).to_string()),
            None => Cow::Borrowed(call.text(1, row)?.unwrap_or_default()),
        };
        Ok(child(json, &key).map(Json::text))
    })
}

fn find_path<'a>(call: &'a Call, row: usize) -> Result<Option<Json<'a>>> {
    let Some((json, keys)) = call.json(0, row)?.zip(call.items(1, row)?) else { return Ok(None) };
    Ok(keys.iter().try_fold(json, |value, key| child(value, key.as_deref()?)))
}

fn get_path(call: &Call) -> Result<ArrayRef> {
    call.each_text(|row| Ok(find_path(call, row)?.map(Json::text)))
}

fn get_path_text(call: &Call) -> Result<ArrayRef> {
    call.each_text(|row| Ok(find_path(call, row)?.and_then(Json::plain)))
}

/// Follows the keys of all arguments behind the first. A single path such as `$.a` is DuckDB's.
fn follow(
    call: &Call,
    text: impl for<'j> Fn(Json<'j>) -> Option<Cow<'j, str>>,
) -> Result<ArrayRef> {
    call.each_text(|row| {
        let Some(mut value) = call.json(0, row)? else { return Ok(None) };
        for at in 1..call.count() {
            let Some(key) = call.text(at, row)? else { return Ok(None) };
            let found = match child(value, key) {
                None if call.count() == 2 && Path::is_path(key) => Path::parse(key)?.find(value),
                found => found,
            };
            let Some(found) = found else { return Ok(None) };
            value = found;
        }
        Ok(text(value))
    })
}

fn value(call: &Call) -> Result<ArrayRef> {
    let paths = Paths::of(call, 1);
    call.each_text(|row| {
        let found = paths.found(row)?;
        let scalar = found.filter(|it| !matches!(it.kind(), Kind::Array | Kind::Object));
        Ok(scalar.map(Json::text))
    })
}

fn exists(call: &Call) -> Result<ArrayRef> {
    let paths = Paths::of(call, 1);
    call.each_truth(|row| {
        let both = paths.both(row)?;
        Ok(both.map(|(json, path)| !path.find_all(json).is_empty()))
    })
}

/// True for an object with the member `key`, an array with the string `key` as an element, and the
/// string `key` itself, as PostgreSQL's `?`.
fn has(json: Json<'_>, key: &str) -> bool {
    let is_key = |it: Json<'_>| it.kind() == Kind::Text && it.plain().is_some_and(|it| it == key);
    match json.kind() {
        Kind::Object => json.member(key).is_some(),
        Kind::Array => json.elements().any(is_key),
        _ => is_key(json),
    }
}

fn has_key(call: &Call) -> Result<ArrayRef> {
    call.each_truth(|row| Ok(call.json(0, row)?.zip(call.text(1, row)?).map(|(j, k)| has(j, k))))
}

fn has_any(call: &Call) -> Result<ArrayRef> {
    call.each_truth(|row| {
        let both = call.json(0, row)?.zip(call.list(1, row)?);
        Ok(both.map(|(json, keys)| keys.iter().any(|key| has(json, key))))
    })
}

fn has_all(call: &Call) -> Result<ArrayRef> {
    call.each_truth(|row| {
        let both = call.json(0, row)?.zip(call.list(1, row)?);
        Ok(both.map(|(json, keys)| keys.iter().all(|key| has(json, key))))
    })
}

/// The value of a row, or the value within it at the path of the second argument.
fn value_at<'a>(call: &'a Call, paths: &Paths<'a>, row: usize) -> Result<Option<Json<'a>>> {
    if call.count() == 1 { call.json(0, row) } else { paths.found(row) }
}

/// Returns an error for a value that is not of `kind`, an array or an object.
fn require(call: &Call, json: Json<'_>, kind: Kind) -> Result<()> {
    let name = if kind == Kind::Array { "array" } else { "object" };
    match json.kind() == kind {
        true => Ok(()),
        false => exec_err!("{}: a JSON value is no {name}", call.name),
    }
}

fn length(call: &Call) -> Result<ArrayRef> {
    let paths = Paths::of(call, 1);
    call.each_number(|row| {
        let Some(json) = value_at(call, &paths, row)? else { return Ok(None) };
        require(call, json, Kind::Array)?;
        Ok(Some(json.elements().count()))
    })
}

fn keys(call: &Call) -> Result<ArrayRef> {
    let paths = Paths::of(call, 1);
    call.each_list(|row| {
        let json = value_at(call, &paths, row)?;
        Ok(json.map(|json| json.members().map(|(key, _)| Some(key.text())).collect()))
    })
}

fn values(call: &Call) -> Result<ArrayRef> {
    members(call, raw)
}

fn values_text(call: &Call) -> Result<ArrayRef> {
    members(call, plain)
}

fn members(
    call: &Call,
    text: impl for<'j> Fn(Json<'j>) -> Option<Cow<'j, str>>,
) -> Result<ArrayRef> {
    call.each_list(|row| {
        let Some(json) = call.json(0, row)? else { return Ok(None) };
        require(call, json, Kind::Object)?;
        Ok(Some(json.members().map(|(_, value)| text(value)).collect()))
    })
}

fn elements(call: &Call) -> Result<ArrayRef> {
    items(call, raw)
}

fn elements_text(call: &Call) -> Result<ArrayRef> {
    items(call, plain)
}

fn items(call: &Call, text: impl for<'j> Fn(Json<'j>) -> Option<Cow<'j, str>>) -> Result<ArrayRef> {
    call.each_list(|row| {
        let Some(json) = call.json(0, row)? else { return Ok(None) };
        require(call, json, Kind::Array)?;
        Ok(Some(json.elements().map(&text).collect()))
    })
}
