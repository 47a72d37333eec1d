//! Scalar functions over JSON: their arguments, and their results.

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray as _, BooleanArray, Int64Array, ListBuilder, StringViewArray,
    StringViewBuilder,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{
    DataFusionError, Result, ScalarValue, exec_datafusion_err, exec_err, internal_err, plan_err,
};
use datafusion::logical_expr::{Expr, ScalarFunctionArgs};

use super::text::Json;
use super::types::{is_jsonb, json_field, jsonb_field};
use super::value::TEXT_BYTES_MAX;
use crate::adapter::{Scalar, columns};
use crate::lists::array_items;

/// The type of an argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Argument {
    /// A JSON text.
    Json,
    Text,
    /// A text or an integer.
    Key,
    /// A list of texts, or a text such as `{a,b}`.
    Texts,
    Boolean,
    /// A value of any type.
    Any,
}

/// The type of a result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    Json,
    Text,
    Boolean,
    Integer,
    Texts,
    Jsons,
    /// A list of JSON if a constant path has a `*`, else JSON.
    Found,
    /// As [`Self::Found`], of texts.
    FoundText,
}

/// A function: its names, its arguments, and its implementation.
#[derive(Debug)]
pub(crate) struct Definition {
    pub(crate) names: &'static [&'static str],
    /// The types of the arguments.
    pub(crate) arguments: &'static [Argument],
    /// The number of arguments that may be left out.
    pub(crate) optional: usize,
    /// The type of further arguments, of which a call may have any number; `None` if it has none.
    pub(crate) rest: Option<Argument>,
    pub(crate) output: Output,
    pub(crate) run: fn(&Call) -> Result<ArrayRef>,
}

impl Definition {
    /// A function with a fixed number of arguments.
    pub(crate) const fn new(
        names: &'static [&'static str],
        arguments: &'static [Argument],
        output: Output,
        run: fn(&Call) -> Result<ArrayRef>,
    ) -> Self {
        Self { names, arguments, optional: 0, rest: None, output, run }
    }

    /// Allows the last `optional` arguments to be left out.
    pub(crate) const fn optional(self, optional: usize) -> Self {
        Self { optional, ..self }
    }

    /// Allows any number of further arguments.
    pub(crate) const fn rest(self, rest: Argument) -> Self {
        Self { rest: Some(rest), ..self }
    }
}

/// Evaluated arguments of a call.
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) arguments: Vec<ArrayRef>,
    pub(crate) fields: Vec<FieldRef>,
    pub(crate) rows: usize,
    pub(crate) output: DataType,
}

impl Call {
    /// The number of arguments.
    pub(crate) fn count(&self) -> usize {
        self.arguments.len()
    }

    /// The column of the argument `at`, which is of texts.
    pub(crate) fn texts(&self, at: usize) -> Result<&StringViewArray> {
        let texts = self.arguments.get(at).and_then(|array| array.as_string_view_opt());
        texts.ok_or_else(|| exec_datafusion_err!("{}: argument {} is no text", self.name, at + 1))
    }

    /// The text of a row; `None` for null.
    pub(crate) fn text(&self, at: usize, row: usize) -> Result<Option<&str>> {
        let texts = self.texts(at)?;
        Ok(texts.is_valid(row).then(|| texts.value(row)))
    }

    /// The JSON of a row; `None` for null.
    ///
    /// # Errors
    /// For malformed texts.
    pub(crate) fn json(&self, at: usize, row: usize) -> Result<Option<Json<'_>>> {
        let text = self.text(at, row)?;
        text.map(|text| Json::parse(text).map_err(|error| self.error(&error))).transpose()
    }

    /// The boolean of a row, `default` without such an argument; `None` for null.
    pub(crate) fn boolean(&self, at: usize, row: usize, default: bool) -> Option<bool> {
        let Some(array) = self.arguments.get(at) else { return Some(default) };
        array.as_boolean_opt().filter(|it| it.is_valid(row)).map(|it| it.value(row))
    }

    /// The items of a list of texts, or of a text such as `{a,"b c",NULL}`; `None` for null.
    pub(crate) fn items(&self, at: usize, row: usize) -> Result<Option<Vec<Option<String>>>> {
        let Some(array) = self.arguments.get(at).filter(|array| array.is_valid(row)) else {
            return Ok(None);
        };
        if let Some(lists) = array.as_list_opt::<i32>() {
            let items = lists.value(row);
            let items = items.as_string_view().iter();
            return Ok(Some(items.map(|item| item.map(str::to_owned)).collect()));
        }
        let text = self.text(at, row)?.unwrap_or_default();
        match array_items(text) {
            Some(items) => Ok(Some(items)),
            None => exec_err!("{}: {text:?} is no list of texts: write '{{a,0}}'", self.name),
        }
    }

    /// The items that are not null, of a list of texts or a text; `None` for null.
    pub(crate) fn list(&self, at: usize, row: usize) -> Result<Option<Vec<String>>> {
        Ok(self.items(at, row)?.map(|items| items.into_iter().flatten().collect()))
    }

    /// An error about the arguments.
    pub(crate) fn error(&self, error: &dyn std::fmt::Display) -> DataFusionError {
        exec_datafusion_err!("{}: {error}", self.name)
    }

    /// Returns a column of texts with `value(row)` for each row; `None` is null.
    pub(crate) fn each_text<'a, T: Into<Cow<'a, str>>>(
        &self,
        value: impl Fn(usize) -> Result<Option<T>>,
    ) -> Result<ArrayRef> {
        let mut texts = StringViewBuilder::new();
        for row in 0..self.rows {
            let text = value(row)?.map(Into::into);
            texts.append_option(text.as_deref().map(short).transpose()?);
        }
        Ok(Arc::new(texts.finish()))
    }

    /// Returns a column of lists of texts with `value(row)` for each row; `None` is null.
    pub(crate) fn each_list<'a>(
        &self,
        value: impl Fn(usize) -> Result<Option<Vec<Option<Cow<'a, str>>>>>,
    ) -> Result<ArrayRef> {
        let DataType::List(field) = &self.output else {
            return internal_err!("{} returns lists", self.name);
        };
        let mut lists = ListBuilder::new(StringViewBuilder::new()).with_field(Arc::clone(field));
        for row in 0..self.rows {
            let items = value(row)?;
            for item in items.iter().flatten() {
                lists.values().append_option(item.as_deref().map(short).transpose()?);
            }
            lists.append(items.is_some());
        }
        Ok(Arc::new(lists.finish()))
    }

    /// Returns a column of booleans with `value(row)` for each row; `None` is null.
    pub(crate) fn each_truth(
        &self,
        value: impl Fn(usize) -> Result<Option<bool>>,
    ) -> Result<ArrayRef> {
        let values = (0..self.rows).map(value).collect::<Result<BooleanArray>>()?;
        Ok(Arc::new(values))
    }

    /// Returns a column of integers with `value(row)` for each row; `None` is null.
    pub(crate) fn each_number(
        &self,
        value: impl Fn(usize) -> Result<Option<usize>>,
    ) -> Result<ArrayRef> {
        let number = |row| Ok(value(row)?.and_then(|number| i64::try_from(number).ok()));
        let values = (0..self.rows).map(number).collect::<Result<Int64Array>>()?;
        Ok(Arc::new(values))
    }
}

fn short(text: &str) -> Result<&str> {
    match text.len() > TEXT_BYTES_MAX {
        true => exec_err!("the JSON text of a value is longer than 256 MiB"),
        false => Ok(text),
    }
}

impl Definition {
    /// The types that the arguments are cast to.
    fn coerced(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.refuse_count(given.len())?;
        given.iter().enumerate().map(|(at, given)| self.type_of(at, given)).collect()
    }

    /// Checks the number of arguments.
    fn refuse_count(&self, count: usize) -> Result<()> {
        let Definition { arguments, optional, rest, .. } = self;
        let (least, most) = (arguments.len() - optional, arguments.len());
        let is_right = count >= least && (count <= most || rest.is_some());
        let plural = if most == 1 { "" } else { "s" };
        match (is_right, rest, optional) {
            (true, ..) => Ok(()),
            (_, Some(_), _) => plan_err!("{} takes at least {least} arguments", self.name()),
            (_, _, 0) => plan_err!("{} takes {most} argument{plural}, not {count}", self.name()),
            _ => plan_err!("{} takes {least} to {most} arguments, not {count}", self.name()),
        }
    }

    fn type_of(&self, at: usize, given: &DataType) -> Result<DataType> {
        let argument = self.arguments.get(at).copied().or(self.rest);
        let texts = || Arc::new(Field::new_list_field(DataType::Utf8View, true));
        let is_text = given.is_string() || given.is_null();
        let (wanted, right) = match argument.unwrap_or(Argument::Any) {
            Argument::Any => return Ok(given.clone()),
            Argument::Key if given.is_integer() => return Ok(DataType::Int64),
            Argument::Texts if matches!(given, DataType::List(_) | DataType::LargeList(_)) => {
                return Ok(DataType::List(texts()));
            }
            Argument::Boolean if given.is_null() => return Ok(DataType::Boolean),
            Argument::Boolean => ("a boolean", *given == DataType::Boolean),
            Argument::Json => ("a JSON text", is_text),
            Argument::Text => ("a text", is_text),
            Argument::Key => ("a text or an integer", is_text),
            Argument::Texts => ("a list of texts", is_text),
        };
        match (right, argument) {
            (false, _) => {
                plan_err!("{}: argument {} is {given}; give {wanted}", self.name(), at + 1)
            }
            (true, Some(Argument::Boolean)) => Ok(DataType::Boolean),
            // A cast would hide from the result's type that a path is a constant.
            (true, _) if given.is_string() => Ok(given.clone()),
            (true, _) => Ok(DataType::Utf8View),
        }
    }

    /// True for a function whose results are in the normal form.
    fn makes_jsonb(&self) -> bool {
        let name = self.name();
        name == "to_jsonb" || name.starts_with("jsonb_") || name.starts_with("try_jsonb_")
    }

    /// True for a function that returns a part of its first argument: JSONB if that is JSONB.
    fn takes_parts(&self) -> bool {
        let names = ["json_get", "json_get_path", "json_extract_path", "json_subscript"];
        names.contains(&self.name())
    }

    fn output(&self, arguments: &[Option<&ScalarValue>]) -> Field {
        let list = |item: Field| Field::new_list("", item.with_name("item"), true);
        let text = Field::new("", DataType::Utf8View, true);
        let path = arguments.get(1).copied().flatten();
        let path = path.and_then(|path| path.try_as_str()).flatten().unwrap_or_default();
        let is_of_many = path.starts_with('$')
            && super::path::Path::parse(path).is_ok_and(|path| path.is_of_many());
        match self.output {
            Output::Json if self.makes_jsonb() => jsonb_field(""),
            Output::Json => json_field(""),
            Output::Text => text,
            Output::Boolean => Field::new("", DataType::Boolean, true),
            Output::Integer => Field::new("", DataType::Int64, true),
            Output::Texts => list(text),
            Output::Jsons if self.makes_jsonb() => list(jsonb_field("")),
            Output::Jsons => list(json_field("")),
            Output::Found if is_of_many => list(json_field("")),
            Output::Found => json_field(""),
            Output::FoundText if is_of_many => list(text),
            Output::FoundText => text,
        }
    }
}

impl Scalar for Definition {
    fn name(&self) -> &'static str {
        self.names.first().copied().unwrap_or_default()
    }

    fn aliases(&self) -> &'static [&'static str] {
        self.names.get(1..).unwrap_or_default()
    }

    fn coerce(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        self.coerced(given)
    }

    fn field(&self, given: &[DataType], constants: &[Option<&ScalarValue>]) -> Result<Field> {
        self.coerced(given)?;
        Ok(self.output(constants))
    }

    fn marked(&self, field: Field, arguments: &[FieldRef]) -> Field {
        match arguments.first() {
            Some(first) if self.takes_parts() && is_jsonb(first) => jsonb_field(""),
            _ => field,
        }
    }

    fn column_name(&self, arguments: &[Expr]) -> Option<String> {
        // A cast has the name of its operand.
        match arguments {
            [value] if self.name().ends_with("_cast") => Some(value.schema_name().to_string()),
            _ => None,
        }
    }

    fn run(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let arguments = columns(args, rows)?.into_iter().map(|array| match array.data_type() {
            DataType::Utf8 | DataType::LargeUtf8 => Ok(cast(&array, &DataType::Utf8View)?),
            _ => Ok(array),
        });
        (self.run)(&Call {
            name: self.name().to_owned(),
            arguments: arguments.collect::<Result<_>>()?,
            fields: args.arg_fields.clone(),
            rows,
            output: args.return_field.data_type().clone(),
        })
    }
}
