//! Lists, structs and maps as DuckDB's texts: `[1, NULL]`, `{'a': 1, 'b': x}`, `{k=1.5}`.
//!
//! A text within them is quoted if it could be taken for something else. A struct whose fields have
//! the names that functions give to fields without a name is a tuple: `(1, x)`.

use std::sync::Arc;

use datafusion::arrow::array::timezone::Tz;
use datafusion::arrow::array::{
    Array, ArrayRef, AsArray as _, MapArray, StringBuilder, StructArray,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::arrow::util::display::{ArrayFormatter, FormatOptions};
use datafusion::common::{Result, ScalarValue, exec_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};

use crate::columns::{displayed_values, timestamp_texts};

/// Maximum length of the text of a value.
const TEXT_BYTES_MAX: usize = 1 << 28;

/// Returns the batch with its nested columns replaced by their texts.
///
/// # Errors
/// If a text is longer than 256 MiB.
pub fn flattened(batch: &RecordBatch) -> Result<RecordBatch, ArrowError> {
    if !batch.columns().iter().any(|column| column.data_type().is_nested()) {
        return Ok(batch.clone());
    }
    let columns = batch.columns().iter().map(|column| match column.data_type().is_nested() {
        true => texts(column),
        false => Ok(ArrayRef::clone(column)),
    });
    let columns = columns.collect::<Result<Vec<_>>>()?;
    let fields = batch.schema_ref().fields().iter().zip(&columns);
    let fields = fields.map(|(field, column)| {
        Field::new(field.name(), column.data_type().clone(), field.is_nullable())
    });
    let schema = datafusion::arrow::datatypes::Schema::new(fields.collect::<Vec<_>>());
    RecordBatch::try_new(Arc::new(schema), columns)
}

/// The texts of an array of any type.
///
/// # Errors
/// If a text is longer than 256 MiB.
pub fn texts(array: &ArrayRef) -> Result<ArrayRef> {
    let writer = Writer::new(array)?;
    let mut texts = StringBuilder::new();
    for row in 0..array.len() {
        if array.is_null(row) {
            texts.append_null();
            continue;
        }
        let mut text = String::new();
        writer.write(row, false, &mut text)?;
        texts.append_value(&text);
        if texts.values_slice().len() > TEXT_BYTES_MAX {
            return exec_err!("the texts of nested values are longer than 256 MiB");
        }
    }
    Ok(Arc::new(texts.finish()))
}

/// Returns the function `nested_text(x)`, the text of a value.
#[must_use]
pub fn function() -> Arc<ScalarUDF> {
    Arc::new(NestedText::function(None))
}

/// Returns an expression for the text of a list, a struct or a map, with timestamps with time zone
/// shown in `zone`, as a cast to text does.
#[must_use]
pub fn nested_text(expr: Expr, zone: &str) -> Expr {
    NestedText::function(Some(zone.to_owned())).call(vec![expr])
}

/// The text of a nested value. The function of a cast is shown by the name of its argument.
#[derive(Debug, PartialEq, Eq, Hash)]
struct NestedText {
    /// The time zone of a cast.
    zone: Option<String>,
    signature: Signature,
}

impl NestedText {
    fn function(zone: Option<String>) -> ScalarUDF {
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::new_from_impl(Self { zone, signature })
    }

    fn apply(&self, values: &ArrayRef) -> Result<ArrayRef> {
        match &self.zone {
            None => texts(values),
            Some(zone) => texts(&displayed_values(values, zone.parse::<Tz>()?)?),
        }
    }
}

impl ScalarUDFImpl for NestedText {
    fn name(&self) -> &str {
        "nested_text"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        let names: Vec<_> = args.iter().map(|arg| arg.schema_name().to_string()).collect();
        Ok(match &self.zone {
            Some(_) => names.join(","),
            None => format!("{}({})", self.name(), names.join(",")),
        })
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _given: &[DataType]) -> Result<DataType> {
        Ok(DataType::Utf8)
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(values)] => Ok(ColumnarValue::Array(self.apply(values)?)),
            [ColumnarValue::Scalar(value)] => {
                let texts = self.apply(&value.to_array_of_size(1)?)?;
                Ok(ColumnarValue::Scalar(ScalarValue::try_from_array(&texts, 0)?))
            }
            _ => exec_err!("nested_text takes a value"),
        }
    }
}

/// Writes the values of an array.
struct Writer {
    array: ArrayRef,
    kind: Kind,
}

enum Kind {
    Plain,
    List { ends: Vec<usize>, elements: Box<Writer> },
    Struct(Vec<(String, Writer)>),
    Map { ends: Vec<usize>, keys: Box<Writer>, values: Box<Writer> },
}

impl Writer {
    fn new(array: &ArrayRef) -> Result<Self> {
        let array = ArrayRef::clone(array);
        let (array, kind) = match array.data_type() {
            DataType::List(field)
            | DataType::LargeList(field)
            | DataType::FixedSizeList(field, _)
            | DataType::ListView(field)
            | DataType::LargeListView(field) => {
                let lists = cast(&array, &DataType::LargeList(Arc::clone(field)))?;
                let ends = ends(lists.as_list::<i64>().offsets());
                let elements = Box::new(Self::new(lists.as_list::<i64>().values())?);
                (lists, Kind::List { ends, elements })
            }
            DataType::Struct(_) => {
                let members = members(array.as_struct())?;
                (array, Kind::Struct(members))
            }
            DataType::Map(..) => {
                let map = map(array.as_map())?;
                (array, map)
            }
            DataType::Timestamp(..) => (timestamp_texts(&array, None)?, Kind::Plain),
            _ => (array, Kind::Plain),
        };
        Ok(Self { array, kind })
    }

    /// Appends the value of a row to `out`; if `is_within`, a text is quoted if it needs quotes.
    fn write(&self, row: usize, is_within: bool, out: &mut String) -> Result<()> {
        if out.len() > TEXT_BYTES_MAX {
            return exec_err!("the text of a nested value is longer than 256 MiB");
        }
        // Arrow counts the values of the type of nulls as valid.
        if self.array.is_null(row) || self.array.data_type().is_null() {
            out.push_str("NULL");
            return Ok(());
        }
        match &self.kind {
            Kind::Plain => {
                let options = FormatOptions::default().with_display_error(false);
                let formatter = ArrayFormatter::try_new(self.array.as_ref(), &options)?;
                let text = formatter.value(row).try_to_string()?;
                if is_within && needs_quotes(&text) {
                    quote(&text, out)
                } else {
                    out.push_str(&text)
                }
            }
            Kind::List { ends, elements } => {
                out.push('[');
                for (at, element) in between(ends, row).enumerate() {
                    comma(at, out);
                    elements.write(element, true, out)?;
                }
                out.push(']');
            }
            Kind::Struct(members) => {
                let is_tuple = is_tuple(members);
                out.push(if is_tuple { '(' } else { '{' });
                for (at, (name, values)) in members.iter().enumerate() {
                    comma(at, out);
                    if !is_tuple {
                        quote(name, out);
                        out.push_str(": ");
                    }
                    values.write(row, true, out)?;
                }
                out.push(if is_tuple { ')' } else { '}' });
            }
            Kind::Map { ends, keys, values } => {
                out.push('{');
                for (at, entry) in between(ends, row).enumerate() {
                    comma(at, out);
                    keys.write(entry, true, out)?;
                    out.push('=');
                    values.write(entry, true, out)?;
                }
                out.push('}');
            }
        }
        Ok(())
    }
}

fn members(array: &StructArray) -> Result<Vec<(String, Writer)>> {
    let members = array.fields().iter().zip(array.columns());
    members.map(|(field, column)| Ok((field.name().clone(), Writer::new(column)?))).collect()
}

/// True for the fields of `list_zip`, whose names are numbers, and those of `row`, `c0` and so on.
fn is_tuple(members: &[(String, Writer)]) -> bool {
    let all = |name_of: fn(usize) -> String| {
        members.iter().enumerate().all(|(at, (name, _))| *name == name_of(at))
    };
    all(|at| (at + 1).to_string()) || all(|at| format!("c{at}"))
}

fn map(array: &MapArray) -> Result<Kind> {
    let keys = Box::new(Writer::new(array.keys())?);
    let values = Box::new(Writer::new(array.values())?);
    Ok(Kind::Map { ends: ends(array.offsets()), keys, values })
}

fn ends<T: Copy>(offsets: &[T]) -> Vec<usize>
where
    usize: TryFrom<T>,
{
    offsets.iter().map(|&end| usize::try_from(end).unwrap_or(0)).collect()
}

fn between(ends: &[usize], row: usize) -> std::ops::Range<usize> {
    match ends.get(row..row + 2) {
        Some(&[begin, end]) => begin..end,
        _ => 0..0,
    }
}

fn comma(at: usize, out: &mut String) {
    if at > 0 {
        out.push_str(", ");
    }
}

fn needs_quotes(text: &str) -> bool {
    let is_special = |c: char| ",[]{}()'\":=\\".contains(c);
    text.is_empty()
        || text.eq_ignore_ascii_case("null")
        || text.trim() != text
        || text.contains(is_special)
}

fn quote(text: &str, out: &mut String) {
    out.push('\'');
    for c in text.chars() {
        if matches!(c, '\'' | '\\') {
            out.push('\\');
        }
        out.push(c);
    }
    out.push('\'');
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Int64Array, ListArray, NullArray};
    use datafusion::arrow::datatypes::Int32Type;

    use super::*;

    /// The texts of DuckDB 2.0.
    #[test]
    fn texts_are_those_of_duckdb() {
        let lists: ListArray = ListArray::from_iter_primitive::<Int32Type, _, _>([
            Some(vec![Some(1), None, Some(3)]),
            None,
            Some(vec![]),
        ]);
        let written = texts(&(Arc::new(lists) as _)).expect("texts");
        let written: Vec<_> = written.as_string::<i32>().iter().collect();
        assert_eq!(written, [Some("[1, NULL, 3]"), None, Some("[]")]);
        let quoted = ["b,c", "d'e", "", "NULL", " s", "a:b", "a\\b"];
        assert!(quoted.into_iter().all(needs_quotes));
        assert!(!needs_quotes("a b") && !needs_quotes("2024-01-01"));
        let numbers: ArrayRef = Arc::new(Int64Array::from(vec![Some(1), None]));
        let of = |names: [&'static str; 2]| {
            let fields = names.map(|name| (name, Arc::clone(&numbers)));
            let structs = StructArray::try_from(fields.to_vec()).expect("structs");
            let written = texts(&(Arc::new(structs) as _)).expect("texts");
            written.as_string::<i32>().iter().flatten().collect::<Vec<_>>().join("|")
        };
        assert_eq!(of(["a", "it's"]), r"{'a': 1, 'it\'s': 1}|{'a': NULL, 'it\'s': NULL}");
        assert_eq!(of(["1", "2"]), "(1, 1)|(NULL, NULL)");
        assert_eq!(of(["c0", "c1"]), "(1, 1)|(NULL, NULL)");
        assert_eq!(of(["c1", "c0"]), "{'c1': 1, 'c0': 1}|{'c1': NULL, 'c0': NULL}");
        let nulls: ArrayRef = Arc::new(NullArray::new(1));
        let structs = StructArray::try_from(vec![("a", nulls)]).expect("structs");
        let written = texts(&(Arc::new(structs) as _)).expect("texts");
        assert_eq!(written.as_string::<i32>().value(0), "{'a': NULL}");
        let mut out = String::new();
        quote("d'e\\", &mut out);
        assert_eq!(out, "'d\\'e\\\\'");
    }
}
