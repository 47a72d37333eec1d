//! Random arrays of every type that tables support, and a database in memory.

use std::sync::Arc;

use datafusion::arrow::array::builder::{
    BinaryBuilder, BinaryViewBuilder, BooleanBuilder, FixedSizeBinaryBuilder, LargeBinaryBuilder,
    LargeStringBuilder, StringBuilder, StringViewBuilder,
};
use datafusion::arrow::array::{
    Array, ArrayData, ArrayRef, DictionaryArray, FixedSizeListArray, GenericListArray, MapArray,
    NullArray, OffsetSizeTrait, StructArray, UInt64Array, make_array,
};
use datafusion::arrow::buffer::{Buffer, NullBuffer, OffsetBuffer, ScalarBuffer};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    ArrowDictionaryKeyType, DataType, Field, FieldRef, Fields, Int8Type, Int32Type, IntervalUnit,
    TimeUnit,
};
use terrace_testkit::Rng;

mod database;

pub(crate) use database::{Database, batch, collect, int_schema, ints, memory, rows_of, stream_of};

/// All types that a table supports, including nested ones.
pub fn types() -> Vec<DataType> {
    use DataType::*;
    let field = |data_type: DataType| Arc::new(Field::new("item", data_type, true));
    let scalar = [
        Null,
        Boolean,
        Int8,
        Int16,
        Int32,
        Int64,
        UInt8,
        UInt16,
        UInt32,
        UInt64,
        Float16,
        Float32,
        Float64,
        Decimal32(7, 2),
        Decimal64(15, 3),
        Decimal128(30, 4),
        Decimal256(60, 5),
        Date32,
        Date64,
        Time32(TimeUnit::Millisecond),
        Time64(TimeUnit::Nanosecond),
        Timestamp(TimeUnit::Microsecond, Some("Europe/Berlin".into())),
        Duration(TimeUnit::Second),
        Interval(IntervalUnit::YearMonth),
        Interval(IntervalUnit::DayTime),
        Interval(IntervalUnit::MonthDayNano),
        Binary,
        LargeBinary,
        BinaryView,
        FixedSizeBinary(5),
        Utf8,
        LargeUtf8,
        Utf8View,
        Dictionary(Box::new(Int8), Box::new(Utf8)),
        Dictionary(Box::new(Int32), Box::new(Utf8View)),
    ];
    let entries = Struct(Fields::from(vec![
        Field::new("key", Utf8, false),
        Field::new("value", Utf8View, true),
    ]));
    let nested = [
        List(field(Int32)),
        LargeList(field(Utf8View)),
        FixedSizeList(field(Float64), 3),
        FixedSizeList(field(Boolean), 0),
        List(field(List(field(Boolean)))),
        Struct(Fields::from(vec![
            Field::new("a", Int64, true),
            Field::new("b", Utf8View, true),
            Field::new("c", List(field(Utf8)), true),
        ])),
        Map(Arc::new(Field::new("entries", entries, false)), false),
        List(field(Dictionary(Box::new(Int8), Box::new(Utf8)))),
    ];
    scalar.into_iter().chain(nested).collect()
}

/// `len` random values of a type; one in `nulls` is null, or none if `nulls` is zero.
pub fn array(rng: &mut Rng, data_type: &DataType, len: usize, nulls: u64) -> ArrayRef {
    let validity = validity(rng, len, nulls);
    match data_type {
        DataType::Null => Arc::new(NullArray::new(len)),
        DataType::Boolean => {
            let mut builder = BooleanBuilder::new();
            values(rng, validity.as_ref(), len, |rng| Some(rng.one_in(2)))
                .for_each(|value| builder.append_option(value));
            Arc::new(builder.finish())
        }
        DataType::Dictionary(keys, values) if **keys == DataType::Int8 => {
            Arc::new(dictionary::<Int8Type>(rng, values, len, nulls, 100))
        }
        DataType::Dictionary(_, values) => {
            Arc::new(dictionary::<Int32Type>(rng, values, len, nulls, 3 * len + 1))
        }
        DataType::List(item) => Arc::new(list::<i32>(rng, item, len, validity)),
        DataType::LargeList(item) => Arc::new(list::<i64>(rng, item, len, validity)),
        DataType::FixedSizeList(item, width) => {
            let count = len * usize::try_from(*width).expect("positive");
            let items = array(rng, item.data_type(), count, 4);
            let list =
                FixedSizeListArray::try_new_with_length(item.clone(), *width, items, validity, len);
            Arc::new(list.expect("fixed size list"))
        }
        DataType::Struct(fields) => {
            let columns = fields.iter().map(|field| {
                let nulls = if field.is_nullable() { 5 } else { 0 };
                array(rng, field.data_type(), len, nulls)
            });
            let columns = columns.collect();
            Arc::new(StructArray::new(fields.clone(), columns, validity))
        }
        DataType::Map(entries, sorted) => {
            let (offsets, count) = offsets::<i32>(rng, len);
            let DataType::Struct(fields) = entries.data_type() else { panic!("entries") };
            let keys = array(rng, fields[0].data_type(), count, 0);
            let items = array(rng, fields[1].data_type(), count, 3);
            let pairs = StructArray::new(fields.clone(), vec![keys, items], None);
            Arc::new(MapArray::new(entries.clone(), offsets, pairs, validity, *sorted))
        }
        _ => leaf(rng, data_type, len, validity),
    }
}

/// Random values that are not nested.
fn leaf(rng: &mut Rng, data_type: &DataType, len: usize, validity: Option<NullBuffer>) -> ArrayRef {
    macro_rules! built {
        ($builder:expr, $value:expr) => {{
            let mut builder = $builder;
            values(rng, validity.as_ref(), len, $value)
                .for_each(|value| builder.append_option(value));
            Arc::new(builder.finish())
        }};
    }
    match data_type {
        DataType::Utf8 => built!(StringBuilder::new(), |rng| Some(text(rng))),
        DataType::LargeUtf8 => built!(LargeStringBuilder::new(), |rng| Some(text(rng))),
        DataType::Utf8View => built!(StringViewBuilder::new(), |rng| Some(text(rng))),
        DataType::Binary => built!(BinaryBuilder::new(), |rng| Some(text(rng).into_bytes())),
        DataType::LargeBinary => {
            built!(LargeBinaryBuilder::new(), |rng| Some(text(rng).into_bytes()))
        }
        DataType::BinaryView => {
            built!(BinaryViewBuilder::new(), |rng| Some(text(rng).into_bytes()))
        }
        DataType::FixedSizeBinary(width) => {
            let mut builder = FixedSizeBinaryBuilder::new(*width);
            for value in values(rng, validity.as_ref(), len, |rng| Some(rng.next_u64())) {
                match value {
                    Some(value) => builder.append_value(&value.to_le_bytes()[..5]).expect("width"),
                    None => builder.append_null(),
                }
            }
            Arc::new(builder.finish())
        }
        _ => primitive(rng, data_type, len, validity),
    }
}

/// Small numbers, so that they repeat and are valid for decimals, dates and times.
fn primitive(
    rng: &mut Rng,
    data_type: &DataType,
    len: usize,
    validity: Option<NullBuffer>,
) -> ArrayRef {
    if matches!(data_type, DataType::Float16 | DataType::Float32 | DataType::Float64) {
        let numbers = array(rng, &DataType::Int16, len, 0);
        let floats = cast(&numbers, data_type).expect("numbers");
        let data = floats.to_data().into_builder().nulls(validity).build().expect("floats");
        return make_array(data);
    }
    let width = data_type.primitive_width().expect("a primitive type");
    let mut bytes = vec![0; width * len];
    for value in bytes.chunks_exact_mut(width) {
        let number = rng.next_u64() % 20_000;
        let used = width.min(8).min(if width == 1 { 1 } else { 2 });
        value[..used].copy_from_slice(&number.to_le_bytes()[..used]);
    }
    let data = ArrayData::builder(data_type.clone())
        .len(len)
        .nulls(validity)
        .add_buffer(Buffer::from(bytes.as_slice()))
        .build();
    make_array(data.expect("a primitive array"))
}

fn dictionary<K: ArrowDictionaryKeyType>(
    rng: &mut Rng,
    values_type: &DataType,
    len: usize,
    nulls: u64,
    size: usize,
) -> DictionaryArray<K> {
    let dictionary = array(rng, values_type, size, 20);
    let keys = (0..len).map(|_| {
        let null = nulls != 0 && rng.one_in(nulls);
        (!null).then(|| rng.next_u64() % size as u64)
    });
    let keys: UInt64Array = keys.collect();
    let keys = cast(&keys, &K::DATA_TYPE).expect("small keys");
    let keys = datafusion::arrow::array::AsArray::as_primitive::<K>(&keys).clone();
    DictionaryArray::new(keys, dictionary)
}

fn list<O: OffsetSizeTrait>(
    rng: &mut Rng,
    item: &FieldRef,
    len: usize,
    validity: Option<NullBuffer>,
) -> GenericListArray<O> {
    let (offsets, count) = offsets::<O>(rng, len);
    let items = array(rng, item.data_type(), count, 6);
    GenericListArray::new(item.clone(), offsets, items, validity)
}

fn offsets<O: OffsetSizeTrait>(rng: &mut Rng, len: usize) -> (OffsetBuffer<O>, usize) {
    let mut end = 0;
    let ends = std::iter::once(0).chain((0..len).map(|_| {
        end += rng.index(5);
        end
    }));
    let ends: Vec<O> = ends.map(O::usize_as).collect();
    (OffsetBuffer::new(ScalarBuffer::from(ends)), end)
}

fn validity(rng: &mut Rng, len: usize, nulls: u64) -> Option<NullBuffer> {
    (nulls != 0).then(|| (0..len).map(|_| !rng.one_in(nulls)).collect::<Vec<bool>>().into())
}

fn values<'a, T>(
    rng: &'a mut Rng,
    validity: Option<&'a NullBuffer>,
    len: usize,
    mut value: impl FnMut(&mut Rng) -> Option<T> + 'a,
) -> impl Iterator<Item = Option<T>> + 'a {
    (0..len).map(move |row| {
        let value = value(rng);
        value.filter(|_| validity.is_none_or(|validity| validity.is_valid(row)))
    })
}

/// Text of 0 to 80 characters of one to four bytes; half of it repeats.
pub fn text(rng: &mut Rng) -> String {
    const ALPHABET: [char; 8] = ['a', 'b', 'z', '\u{e9}', '\u{3b1}', '\u{4e2d}', '\u{1f600}', ' '];
    if rng.one_in(2) {
        return format!("a value that is seen again and again, number {}", rng.below(5));
    }
    (0..rng.index(80)).map(|_| ALPHABET[rng.index(ALPHABET.len())]).collect()
}
