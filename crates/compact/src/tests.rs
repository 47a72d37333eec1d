#![allow(clippy::cast_possible_truncation, reason = "the numbers of these tests are small")]

use std::sync::Arc;

use arrow_array::builder::{StringViewBuilder, make_view};
use arrow_array::types::Decimal128Type;
use arrow_array::{
    Array, ArrayRef, BinaryArray, BinaryViewArray, BooleanArray, Date32Array, Decimal128Array,
    Float64Array, Int8Array, Int32Array, Int64Array, LargeStringArray, PrimitiveArray, StringArray,
    StringViewArray, TimestampNanosecondArray, UInt16Array, UInt64Array, new_null_array,
};
use arrow_buffer::{BooleanBuffer, MutableBuffer};
use arrow_schema::{DataType, TimeUnit};
use arrow_select::filter::filter;
use bytes::Bytes;
use proptest::prelude::*;

use crate::{Column, Encoded, Rows, encode};

/// Aligned bytes on the heap, like those of a page.
struct Heap(MutableBuffer);

impl AsRef<[u8]> for Heap {
    fn as_ref(&self) -> &[u8] {
        self.0.as_slice()
    }
}

fn body_of(encoded: &Encoded) -> Vec<u8> {
    let mut body = vec![0; encoded.body_bytes()];
    encoded.write_body(&mut body);
    body
}

fn aligned(body: &[u8]) -> Bytes {
    let mut heap = MutableBuffer::from_len_zeroed(body.len());
    heap.as_slice_mut().copy_from_slice(body);
    Bytes::from_owner(Heap(heap))
}

fn reopened(array: &dyn Array) -> Option<Column> {
    let encoded = encode(&[array]).expect("encodes")?;
    let body = aligned(&body_of(&encoded));
    let column = Column::open(encoded.description(), &body, array.data_type(), array.len());
    Some(column.expect("opens"))
}

fn numbers(n: usize) -> Vec<i64> {
    (0..n).map(|row| i64::try_from(row * row % 977).unwrap_or(0)).collect()
}

/// Returns arrays that encoding makes smaller, one of every encoded type.
fn arrays() -> Vec<ArrayRef> {
    let n = 20_000;
    let words: Vec<String> =
        (0..n).map(|row| format!("value number {} of some", row % 50)).collect();
    let texts: Vec<String> = (0..n)
        .map(|row| format!("the {row}th row has some words of its own, {}", row * 7))
        .collect();
    let with_nulls = |row: usize| row % 7 != 3;
    let decimal = |values: Vec<i128>| {
        Decimal128Array::from(values).with_precision_and_scale(20, 2).expect("fits")
    };
    vec![
        Arc::new(Int64Array::from(numbers(n))),
        Arc::new(Int64Array::from_iter_values((0..n).map(|row| row as i64 * 3 - 50))),
        Arc::new(Int64Array::from_iter(
            (0..n).map(|row| with_nulls(row).then_some(row as i64 / 9)),
        )),
        Arc::new(Int32Array::from_iter_values((0..n).map(|row| row as i32 % 100 - 50))),
        Arc::new(Int8Array::from_iter_values((0..n).map(|row| (row % 3) as i8))),
        Arc::new(UInt16Array::from_iter_values((0..n).map(|row| (row / 1000) as u16))),
        Arc::new(UInt64Array::from_iter_values((0..n).map(|row| u64::MAX - row as u64))),
        Arc::new(Int32Array::from_value(7, n)),
        Arc::new(Date32Array::from_iter_values((0..n).map(|row| 8000 + row as i32 % 2500))),
        Arc::new(TimestampNanosecondArray::from_iter_values(
            (0..n).map(|row| row as i64 * 1_000_000_000),
        )),
        Arc::new(decimal(numbers(n).iter().map(|v| i128::from(*v)).collect())),
        Arc::new(decimal((0..n).map(|row| (1_i128 << 40) + row as i128).collect())),
        Arc::new(decimal((0..n).map(|row| -(row as i128 % 11)).collect())),
        Arc::new(PrimitiveArray::<Decimal128Type>::from_iter(
            (0..n).map(|row| with_nulls(row).then_some(row as i128 % 500)),
        )),
        Arc::new(Float64Array::from_iter_values((0..n).map(|row| (row % 1000) as f64 / 100.0))),
        Arc::new(StringViewArray::from_iter_values(&words)),
        Arc::new(StringViewArray::from_iter_values(&texts)),
        Arc::new(StringViewArray::from_iter(
            texts.iter().enumerate().map(|(row, text)| with_nulls(row).then_some(text)),
        )),
        Arc::new(StringViewArray::from_iter(
            words.iter().enumerate().map(|(row, text)| with_nulls(row).then_some(text)),
        )),
        Arc::new(StringArray::from_iter_values(&words)),
        Arc::new(LargeStringArray::from_iter_values(&texts)),
        Arc::new(BinaryArray::from_iter_values(&texts)),
        Arc::new(BinaryViewArray::from_iter_values(&words)),
        new_null_array(&DataType::Int64, n),
        new_null_array(&DataType::Utf8View, n),
        new_null_array(&DataType::Timestamp(TimeUnit::Second, Some("UTC".into())), n),
    ]
}

fn selected(array: &ArrayRef, bits: &BooleanBuffer) -> ArrayRef {
    filter(array, &BooleanArray::new(bits.clone(), None)).expect("filters")
}

#[test]
fn every_encoded_type_comes_back_as_it_was() {
    for array in arrays() {
        let column = reopened(&array).unwrap_or_else(|| panic!("{} shrinks", array.data_type()));
        for range in [0..array.len(), 0..8192, 8192..16384, 16384..20_000, 77..78, 5000..9000, 5..5]
        {
            let read = column.read(&Rows::All(range.clone())).expect("reads");
            assert_eq!(&read, &array.slice(range.start, range.len()), "{range:?}");
            read.to_data().validate_full().expect("is valid");
            for every in [1, 2, 100, 1 << 20] {
                let bits = BooleanBuffer::collect_bool(range.len(), |row| row % every == every - 1);
                let some =
                    column.read(&Rows::Selected(range.clone(), bits.clone())).expect("reads");
                let expected = selected(&array.slice(range.start, range.len()), &bits);
                assert_eq!(&some, &expected, "{} {range:?} {every}", array.data_type());
            }
        }
    }
}

#[test]
fn columns_shrink_and_those_that_do_not_are_left_alone() {
    let clerk = &arrays()[15];
    let encoded = encode(&[clerk]).expect("encodes").expect("shrinks");
    assert!(encoded.body_bytes() * 16 < clerk.get_buffer_memory_size(), "{}", encoded.body_bytes());
    let booleans = BooleanArray::from(vec![true; 100]);
    assert!(encode(&[&booleans]).expect("encodes").is_none());
    let huge = Decimal128Array::from(vec![i128::MAX, 0, i128::MIN]);
    assert!(encode(&[&huge]).expect("encodes").is_none());
}

/// Zeros of both signs and NaNs of different payloads are distinct values.
#[test]
fn floats_come_back_to_the_bit() {
    let specials = [0.0, -0.0, f64::NAN, -f64::NAN, f64::INFINITY, 1.5, f64::MIN_POSITIVE, 1e300];
    for kinds in [2, 3, 5, 8] {
        let values: Vec<f64> = (0..5000).map(|row| specials[row % kinds]).collect();
        let short = values.iter().map(|value| *value as f32);
        let singles: ArrayRef = Arc::new(arrow_array::Float32Array::from_iter_values(short));
        let doubles: ArrayRef = Arc::new(Float64Array::from(values));
        for array in [singles, doubles] {
            let Some(column) = reopened(&array) else { continue };
            let read = column.read(&Rows::All(0..array.len())).expect("reads").to_data();
            let (read, written) = (read.buffers()[0].as_slice(), array.to_data());
            assert_eq!(read, written.buffers()[0].as_slice(), "{kinds} kinds");
        }
    }
}

#[test]
fn pieces_are_one_column() {
    let array = &arrays()[2];
    let (first, second) = (array.slice(0, 9_999), array.slice(9_999, 10_001));
    let encoded = encode(&[&first, &second]).expect("encodes").expect("shrinks");
    let body = aligned(&body_of(&encoded));
    let column = Column::open(encoded.description(), &body, array.data_type(), array.len());
    let read = column.expect("opens").read(&Rows::All(0..array.len())).expect("reads");
    assert_eq!(&read, array);
}

#[test]
fn a_dictionary_answers_by_its_values() {
    let column = reopened(&arrays()[15]).expect("shrinks");
    let values = column.distinct_values().expect("decodes").expect("is a dictionary");
    assert_eq!(values.len(), 50);
    let views = arrow_array::cast::AsArray::as_string_view(&values).clone();
    let wanted: Vec<bool> = views.iter().map(|v| v == Some("value number 7 of some")).collect();
    let rows = column.rows_with(100..200, &wanted).expect("looks up");
    assert_eq!(rows.set_indices().collect::<Vec<_>>(), [7, 57]);
    assert!(column.rows_with(0..10, &wanted[..3]).is_err());
}

#[test]
fn rows_that_are_not_there_are_an_error() {
    let column = reopened(&arrays()[0]).expect("shrinks");
    assert!(column.read(&Rows::All(19_999..20_001)).is_err());
    assert!(column.read(&Rows::Selected(0..10, BooleanBuffer::new_set(9))).is_err());
}

/// A reader of unverified bytes gets an error or an array, never a panic.
#[test]
fn damaged_bytes_do_not_panic() {
    let mut state = 0x2545_f491_4f6c_dd1d_u64;
    let mut random = |below: usize| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as usize % below.max(1)
    };
    for array in arrays().into_iter().filter(|array| array.null_count() < array.len()) {
        let encoded = encode(&[&array]).expect("encodes").expect("shrinks");
        let (description, body) = (encoded.description().to_vec(), body_of(&encoded));
        for round in 0..40 {
            let (mut description, mut body) = (description.clone(), body.clone());
            match round % 4 {
                0 | 1 => {
                    let at = random(description.len());
                    description[at] ^= 1 << random(8);
                }
                2 => description.truncate(random(description.len())),
                _ => body.truncate(random(body.len())),
            }
            let body = aligned(&body);
            if let Ok(column) = Column::open(&description, &body, array.data_type(), array.len()) {
                let _ = column.read(&Rows::All(0..8192));
            }
        }
    }
}

#[test]
fn a_view_is_what_arrow_makes_of_it() {
    let mut builder = StringViewBuilder::new();
    (0..5000)
        .for_each(|row| builder.append_value(if row % 2 == 0 { "short" } else { "a longer text" }));
    let array: ArrayRef = Arc::new(builder.finish());
    let column = reopened(&array).expect("shrinks");
    let read = column.read(&Rows::All(0..5000)).expect("reads");
    let views = arrow_array::cast::AsArray::as_string_view(&read);
    assert_eq!(views.views()[0], make_view(b"short", 0, 0));
    assert_eq!(&read, &array);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn any_numbers_come_back(
        values in prop::collection::vec(prop::option::of(-1000_i64..1000), 1..3000),
        every in 1_usize..9,
    ) {
        let ints: ArrayRef = Arc::new(Int64Array::from(values.clone()));
        let texts: ArrayRef = Arc::new(StringViewArray::from_iter(
            values.iter().map(|value| value.map(|value| format!("{value} is the value"))),
        ));
        let decimals: ArrayRef = Arc::new(Decimal128Array::from_iter(
            values.iter().map(|value| value.map(|value| i128::from(value) << 24)),
        ));
        for array in [ints, texts, decimals] {
            let Some(column) = reopened(&array) else { continue };
            let (start, len) = (array.len() / 3, array.len() / 2);
            let bits = BooleanBuffer::collect_bool(len, |row| row % every == 0);
            let rows = Rows::Selected(start..start + len, bits.clone());
            let read = column.read(&rows).expect("reads");
            prop_assert_eq!(&read, &selected(&array.slice(start, len), &bits));
            let all = column.read(&Rows::All(0..array.len())).expect("reads");
            prop_assert_eq!(&all, &array);
        }
    }
}
