//! Columns of arguments and results.

use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray as _, BinaryArray, BinaryBuilder, BooleanArray, LargeStringArray,
    ListArray, PrimitiveArray, StringArray, StringBuilder, StringViewArray,
};
use datafusion::arrow::datatypes::{
    ArrowPrimitiveType, DataType, Date32Type, Decimal128Type, Float64Type, Int32Type, Int64Type,
    IntervalMonthDayNanoType, Time64NanosecondType, TimestampMicrosecondType, UInt64Type,
};
use datafusion::common::{Result, exec_err, internal_datafusion_err};

/// Maximum bytes of all texts of a result: the offsets of Arrow's arrays have 31 bits.
const TEXT_BYTES_MAX: usize = 1 << 30;

/// A column of arguments.
pub(crate) trait Input {
    /// The array, with its type known.
    type View<'a>: Copy;
    /// A value of the array.
    type Item<'a>;

    fn view(array: &ArrayRef) -> Option<Self::View<'_>>;

    fn item<'a>(view: Self::View<'a>, row: usize) -> Self::Item<'a>;
}

/// A column of results.
pub(crate) trait Output {
    /// A value of the array.
    type Value<'a>;

    /// Collects values into an array of the type `of`.
    fn collect<'a>(
        values: impl Iterator<Item = Result<Option<Self::Value<'a>>>>,
        of: &DataType,
    ) -> Result<ArrayRef>;
}

/// The view of an argument, or an error for an array of another type.
pub(crate) fn view<A: Input>(array: &ArrayRef) -> Result<A::View<'_>> {
    A::view(array)
        .ok_or_else(|| internal_datafusion_err!("a function got a column of {}", array.data_type()))
}

/// Numbers, dates, times and intervals.
pub(crate) struct Primitive<T>(PhantomData<T>);

pub(crate) type Int = Primitive<Int64Type>;
pub(crate) type Int32 = Primitive<Int32Type>;
pub(crate) type UInt = Primitive<UInt64Type>;
pub(crate) type Double = Primitive<Float64Type>;
pub(crate) type Decimal = Primitive<Decimal128Type>;
pub(crate) type Date = Primitive<Date32Type>;
pub(crate) type Time = Primitive<Time64NanosecondType>;
pub(crate) type Timestamp = Primitive<TimestampMicrosecondType>;
pub(crate) type Interval = Primitive<IntervalMonthDayNanoType>;

impl<T: ArrowPrimitiveType> Input for Primitive<T> {
    type View<'a> = &'a PrimitiveArray<T>;
    type Item<'a> = T::Native;

    fn view(array: &ArrayRef) -> Option<Self::View<'_>> {
        array.as_primitive_opt::<T>()
    }

    fn item<'a>(view: Self::View<'a>, row: usize) -> Self::Item<'a> {
        view.value(row)
    }
}

impl<T: ArrowPrimitiveType> Output for Primitive<T> {
    type Value<'a> = T::Native;

    fn collect<'a>(
        values: impl Iterator<Item = Result<Option<Self::Value<'a>>>>,
        of: &DataType,
    ) -> Result<ArrayRef> {
        let values = values.collect::<Result<PrimitiveArray<T>>>()?;
        Ok(Arc::new(values.with_data_type(of.clone())))
    }
}

/// True and false.
pub(crate) struct Bool;

impl Input for Bool {
    type View<'a> = &'a BooleanArray;
    type Item<'a> = bool;

    fn view(array: &ArrayRef) -> Option<&BooleanArray> {
        array.as_boolean_opt()
    }

    fn item<'a>(view: Self::View<'a>, row: usize) -> Self::Item<'a> {
        view.value(row)
    }
}

impl Output for Bool {
    type Value<'a> = bool;

    fn collect<'a>(
        values: impl Iterator<Item = Result<Option<Self::Value<'a>>>>,
        _: &DataType,
    ) -> Result<ArrayRef> {
        Ok(Arc::new(values.collect::<Result<BooleanArray>>()?))
    }
}

/// Texts.
pub(crate) struct Text;

/// An array of texts in one of Arrow's layouts.
#[derive(Clone, Copy)]
pub(crate) enum TextView<'a> {
    Small(&'a StringArray),
    Large(&'a LargeStringArray),
    View(&'a StringViewArray),
}

impl Input for Text {
    type View<'a> = TextView<'a>;
    type Item<'a> = &'a str;

    fn view(array: &ArrayRef) -> Option<TextView<'_>> {
        match array.data_type() {
            DataType::Utf8 => array.as_string_opt().map(TextView::Small),
            DataType::LargeUtf8 => array.as_string_opt().map(TextView::Large),
            DataType::Utf8View => array.as_string_view_opt().map(TextView::View),
            _ => None,
        }
    }

    fn item<'a>(view: Self::View<'a>, row: usize) -> Self::Item<'a> {
        match view {
            TextView::Small(array) => array.value(row),
            TextView::Large(array) => array.value(row),
            TextView::View(array) => array.value(row),
        }
    }
}

impl Output for Text {
    type Value<'a> = Cow<'a, str>;

    fn collect<'a>(
        values: impl Iterator<Item = Result<Option<Self::Value<'a>>>>,
        _: &DataType,
    ) -> Result<ArrayRef> {
        let mut texts = StringBuilder::with_capacity(values.size_hint().0, 0);
        let mut bytes = 0;
        for value in values {
            let value = value?;
            bytes = checked_bytes(bytes, value.as_ref().map_or(0, |it| it.len()))?;
            texts.append_option(value);
        }
        Ok(Arc::new(texts.finish()))
    }
}

/// Bytes.
pub(crate) struct Bytes;

impl Input for Bytes {
    type View<'a> = &'a BinaryArray;
    type Item<'a> = &'a [u8];

    fn view(array: &ArrayRef) -> Option<&BinaryArray> {
        array.as_binary_opt()
    }

    fn item<'a>(view: Self::View<'a>, row: usize) -> Self::Item<'a> {
        view.value(row)
    }
}

impl Output for Bytes {
    type Value<'a> = Vec<u8>;

    fn collect<'a>(
        values: impl Iterator<Item = Result<Option<Self::Value<'a>>>>,
        _: &DataType,
    ) -> Result<ArrayRef> {
        let mut all = BinaryBuilder::with_capacity(values.size_hint().0, 0);
        let mut bytes = 0;
        for value in values {
            let value = value?;
            bytes = checked_bytes(bytes, value.as_ref().map_or(0, Vec::len))?;
            all.append_option(value);
        }
        Ok(Arc::new(all.finish()))
    }
}

/// Lists of texts.
pub(crate) struct TextList;

impl Input for TextList {
    type View<'a> = &'a ListArray;
    type Item<'a> = ArrayRef;

    fn view(array: &ArrayRef) -> Option<&ListArray> {
        array.as_list_opt()
    }

    fn item<'a>(view: Self::View<'a>, row: usize) -> Self::Item<'a> {
        view.value(row)
    }
}

/// Adds the bytes of a value to those of a result.
///
/// # Errors
/// If the result has more bytes than an array can have.
pub(super) fn checked_bytes(total: usize, more: usize) -> Result<usize> {
    match total.saturating_add(more) {
        total @ ..=TEXT_BYTES_MAX => Ok(total),
        _ => exec_err!(
            "the texts that a function makes of one batch exceed {TEXT_BYTES_MAX} bytes; make \
             shorter ones, or set a smaller datafusion.execution.batch_size"
        ),
    }
}
