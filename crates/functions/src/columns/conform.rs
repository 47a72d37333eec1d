//! Conversion of texts to values of a column's type, such as UUID or VARCHAR(n).

use std::borrow::Cow;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array as _, ArrayRef, AsArray as _, FixedSizeListArray, GenericListArray, MapArray,
    OffsetSizeTrait, StringViewArray, StringViewBuilder, StructArray,
};
use datafusion::arrow::compute::{CastOptions, cast, cast_with_options};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef, Fields};
use datafusion::arrow::util::display::FormatOptions;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::expr::ScalarFunction;
use datafusion::logical_expr::{
    ColumnarValue, Expr, ReturnFieldArgs, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature,
    Volatility,
};

use super::text_type::TextType;

/// The reason for which a text is converted, which decides about texts that are too long.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Usage {
    /// Storing the value in a column: a text that is too long is an error.
    Assignment,
    /// An explicit cast: a text that is too long is shortened.
    Cast,
    /// As a cast, with null in place of errors.
    TryCast,
    /// Comparing the value with one of the type: a text that is too long equals none.
    Comparison,
    /// Naming the type of a value that is one of the type already, or null.
    Known,
}

/// Returns true if a field, or a field nested in its type, has a [`TextType`].
#[must_use]
pub fn is_checked(field: &Field) -> bool {
    TextType::of(field).is_some() || inner(field.data_type()).iter().any(|field| is_checked(field))
}

/// The fields of the parts of nested values.
fn inner(data_type: &DataType) -> &[FieldRef] {
    match data_type {
        DataType::List(item)
        | DataType::LargeList(item)
        | DataType::FixedSizeList(item, _)
        | DataType::Map(item, _) => std::slice::from_ref(item),
        DataType::Struct(fields) => fields,
        _ => &[],
    }
}

/// Converts texts to values of a field's type, also within nested values. `values` has the storage
/// type of `field`.
///
/// # Errors
/// For a text that denotes no value of the type.
pub fn conform(values: &ArrayRef, field: &Field, usage: Usage) -> Result<ArrayRef> {
    if usage == Usage::Known {
        return Ok(Arc::clone(values));
    }
    if let Some(of) = TextType::of(field) {
        return texts(values, of, usage);
    }
    if !is_checked(field) {
        return Ok(Arc::clone(values));
    }
    Ok(match field.data_type() {
        DataType::List(item) => Arc::new(list(values.as_list::<i32>(), item, usage)?),
        DataType::LargeList(item) => Arc::new(list(values.as_list::<i64>(), item, usage)?),
        DataType::FixedSizeList(item, size) => {
            let lists = values.as_fixed_size_list();
            let items = conform(lists.values(), item, usage)?;
            let nulls = lists.nulls().cloned();
            Arc::new(FixedSizeListArray::try_new(Arc::clone(item), *size, items, nulls)?)
        }
        DataType::Map(entries, is_sorted) => {
            let maps = values.as_map();
            let items: ArrayRef = Arc::new(maps.entries().clone());
            let items = conform(&items, entries, usage)?;
            Arc::new(MapArray::try_new(
                Arc::clone(entries),
                maps.offsets().clone(),
                items.as_struct().clone(),
                maps.nulls().cloned(),
                *is_sorted,
            )?)
        }
        DataType::Struct(fields) => Arc::new(structure(values.as_struct(), fields, usage)?),
        other => return exec_err!("values of type {other} have no texts to check"),
    })
}

fn list<O: OffsetSizeTrait>(
    lists: &GenericListArray<O>,
    item: &FieldRef,
    usage: Usage,
) -> Result<GenericListArray<O>> {
    let items = conform(lists.values(), item, usage)?;
    let (offsets, nulls) = (lists.offsets().clone(), lists.nulls().cloned());
    Ok(GenericListArray::try_new(Arc::clone(item), offsets, items, nulls)?)
}

fn structure(values: &StructArray, fields: &Fields, usage: Usage) -> Result<StructArray> {
    let columns = values.columns().iter().zip(fields);
    let columns = columns.map(|(column, field)| conform(column, field, usage));
    let columns = columns.collect::<Result<Vec<_>>>()?;
    Ok(StructArray::try_new(fields.clone(), columns, values.nulls().cloned())?)
}

/// The values that texts denote; the array itself if they are values already.
fn texts(values: &ArrayRef, of: TextType, usage: Usage) -> Result<ArrayRef> {
    let views = cast(values, &DataType::Utf8View)?;
    let views = views.as_string_view();
    let mut changed: Option<StringViewBuilder> = None;
    for row in 0..views.len() {
        let value = match views.is_valid(row) {
            true => value(views.value(row), of, usage)?,
            false => None,
        };
        let is_same = match &value {
            Some(Cow::Borrowed(text)) => text.len() == views.value(row).len(),
            Some(Cow::Owned(_)) => false,
            None => views.is_null(row),
        };
        if changed.is_none() && !is_same {
            changed = Some(first_rows(views, row));
        }
        if let Some(changed) = &mut changed {
            changed.append_option(value);
        }
    }
    Ok(match changed {
        None => Arc::clone(values),
        Some(mut changed) => {
            let changed: ArrayRef = Arc::new(changed.finish());
            cast(&changed, values.data_type())?
        }
    })
}

fn value(text: &str, of: TextType, usage: Usage) -> Result<Option<Cow<'_, str>>> {
    match (usage, of) {
        (Usage::Comparison, TextType::Varchar(_)) => Ok(Some(Cow::Borrowed(text))),
        (Usage::Comparison, TextType::Char(_)) => {
            Ok(Some(Cow::Borrowed(text.trim_end_matches(' '))))
        }
        (Usage::Assignment | Usage::Comparison, _) => of.value(text, false).map(Some),
        (Usage::Cast, _) => of.value(text, true).map(Some),
        (Usage::Known, _) => Ok(Some(Cow::Borrowed(text))),
        (Usage::TryCast, _) => Ok(of.value(text, true).ok()),
    }
}

/// A builder with the first rows of an array.
fn first_rows(views: &StringViewArray, rows: usize) -> StringViewBuilder {
    let mut builder = StringViewBuilder::with_capacity(views.len());
    (0..rows).for_each(|row| builder.append_option(views.is_valid(row).then(|| views.value(row))));
    builder
}

/// Returns an expression that converts `expr`, a text or another value, to the type of `field`.
#[must_use]
pub fn as_type(expr: Expr, field: &Field, usage: Usage) -> Expr {
    let field = Arc::new(field.clone().with_name("").with_nullable(true));
    let result = match usage {
        Usage::Known => Arc::clone(&field),
        _ => Arc::new(field.as_ref().clone().with_data_type(unmarked(field.data_type()))),
    };
    let signature = Signature::any(1, Volatility::Immutable);
    ScalarUDF::new_from_impl(AsType { field, result, usage, signature }).call(vec![expr])
}

/// Returns the type that a cast was written with, if the result of the cast lacks the metadata of
/// fields within that type; `None` for any other call.
#[must_use]
pub fn nested_type(call: &ScalarFunction) -> Option<DataType> {
    let cast = call.func.inner().downcast_ref::<AsType>()?;
    let of = cast.field.data_type();
    (cast.result.data_type() != of).then(|| of.clone())
}

/// The value of an array of one row. That of a list keeps the metadata of the field of its items.
fn scalar(values: &ArrayRef) -> Result<ScalarValue> {
    match values.data_type() {
        DataType::List(_) => Ok(ScalarValue::List(Arc::new(values.as_list::<i32>().clone()))),
        _ => ScalarValue::try_from_array(values, 0),
    }
}

/// Returns the type without the metadata of the fields within it. Constants of nested types lose
/// this metadata: values in a plan have none, and those of a table get it when they are written.
#[must_use]
pub fn unmarked(data_type: &DataType) -> DataType {
    let bare = |field: &FieldRef| {
        let field = field.as_ref().clone();
        let inner = unmarked(field.data_type());
        Arc::new(field.with_data_type(inner).with_metadata(Default::default()))
    };
    match data_type {
        DataType::List(item) => DataType::List(bare(item)),
        DataType::LargeList(item) => DataType::LargeList(bare(item)),
        DataType::FixedSizeList(item, size) => DataType::FixedSizeList(bare(item), *size),
        DataType::Map(entries, is_sorted) => DataType::Map(bare(entries), *is_sorted),
        DataType::Struct(fields) => DataType::Struct(fields.iter().map(bare).collect()),
        other => other.clone(),
    }
}

/// Function that casts to a [`TextType`] or a type that contains one.
///
/// In a plan, a cast that was written has the name of its argument, as other casts do.
#[derive(Debug, PartialEq, Eq, Hash)]
struct AsType {
    field: FieldRef,
    /// The field of the result: without marks within its type, unless these are what the call adds.
    result: FieldRef,
    usage: Usage,
    signature: Signature,
}

impl AsType {
    fn apply(&self, values: &ArrayRef) -> Result<ArrayRef> {
        let safe = self.usage == Usage::TryCast;
        let options = CastOptions { safe, format_options: FormatOptions::new() };
        let values = cast_with_options(values, self.field.data_type(), &options)?;
        let values = conform(&values, &self.field, self.usage)?;
        match values.data_type() == self.result.data_type() {
            true => Ok(values),
            false => Ok(cast(&values, self.result.data_type())?),
        }
    }
}

impl ScalarUDFImpl for AsType {
    fn name(&self) -> &str {
        "as_column_type"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        match args {
            // A key of a join is projected beside its value, and needs a name of its own.
            [value] if self.usage == Usage::Comparison => {
                Ok(format!("{}({})", self.name(), value.schema_name()))
            }
            [value] => Ok(value.schema_name().to_string()),
            _ => plan_err!("{} takes 1 value", self.name()),
        }
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, _: &[DataType]) -> Result<DataType> {
        Ok(self.result.data_type().clone())
    }

    fn return_field_from_args(&self, _: ReturnFieldArgs) -> Result<FieldRef> {
        Ok(Arc::clone(&self.result))
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        match args.args.as_slice() {
            [ColumnarValue::Array(values)] => Ok(ColumnarValue::Array(self.apply(values)?)),
            [ColumnarValue::Scalar(value)] => {
                let values = self.apply(&value.to_array_of_size(1)?)?;
                Ok(ColumnarValue::Scalar(scalar(&values)?))
            }
            _ => plan_err!("{} takes 1 value", self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::ListArray;

    use super::*;

    const UUID: &str = "a0eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";

    fn views(texts: &[Option<&str>]) -> ArrayRef {
        Arc::new(texts.iter().collect::<StringViewArray>())
    }

    #[test]
    fn only_arrays_with_other_texts_are_copied() {
        let field = TextType::Uuid.field("u");
        let same = views(&[None, Some(UUID)]);
        let kept = conform(&same, &field, Usage::Assignment).expect("uuids");
        assert!(Arc::ptr_eq(&kept, &same));
        let upper = UUID.to_uppercase();
        let other = views(&[None, Some(UUID), Some(&upper), None]);
        let changed = conform(&other, &field, Usage::Assignment).expect("uuids");
        assert_eq!(&changed, &views(&[None, Some(UUID), Some(UUID), None]));
        let wrong = views(&[Some("x")]);
        assert!(conform(&wrong, &field, Usage::Comparison).is_err());
        assert_eq!(&conform(&wrong, &field, Usage::TryCast).expect("null"), &views(&[None]));
    }

    #[test]
    fn items_of_lists_are_checked() {
        let item = Arc::new(TextType::Varchar(1).field("item"));
        let offsets = datafusion::arrow::buffer::OffsetBuffer::from_lengths([2, 0]);
        let lists = |texts| {
            let lists = ListArray::new(Arc::clone(&item), offsets.clone(), views(texts), None);
            Arc::new(lists) as ArrayRef
        };
        let field = Field::new("l", DataType::List(Arc::clone(&item)), true);
        assert!(is_checked(&field));
        let shortened = conform(&lists(&[Some("a "), Some("b")]), &field, Usage::Assignment);
        assert_eq!(&shortened.expect("texts"), &lists(&[Some("a"), Some("b")]));
        assert!(conform(&lists(&[Some("ab"), None]), &field, Usage::Assignment).is_err());
    }
}
