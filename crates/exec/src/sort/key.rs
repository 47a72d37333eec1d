//! Normalised keys: numbers and byte strings that compare like the rows.
//!
//! A row's *prefix* is a number such that a smaller prefix means an earlier row. Equal prefixes
//! decide nothing, unless the key is *exact*: one column of at most 64 bits. Even then a null, or a
//! value at either end of the range of the prefix, may share its prefix with another value, so the
//! two lowest and the two highest prefixes always require the whole key.
//!
//! A column of variable length that is a key is long, and the encoded key has all of it. So blocks
//! leave such columns out, with the other columns of the key, and they are decoded from the keys.

use std::cmp::Ordering;
use std::sync::OnceLock;

use datafusion::arrow::array::{Array, ArrayRef, RecordBatch};
use datafusion::arrow::buffer::ScalarBuffer;
use datafusion::arrow::compute::SortOptions;
use datafusion::arrow::datatypes::{ArrowNativeType, DataType, Schema, TimeUnit};
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::row::{RowConverter, Rows, SortField};
use datafusion::physical_expr::LexOrdering;
use datafusion::physical_expr::expressions::Column;

use crate::error::Result;

/// Minimum number of keys from which a common beginning is derived.
const SAMPLE_ROWS: usize = 64;
/// Expected bytes of an encoded key; longer keys do no harm.
const KEY_BYTES: usize = 24;

/// Conversion of the first column of a key to a number.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Leading {
    Int8,
    Int16,
    Int32,
    Int64,
    Uint8,
    Uint16,
    Uint32,
    Uint64,
    Float32,
    Float64,
    Int128,
    /// Eight bytes of the encoded key, after the beginning that all keys seem to have in common.
    Encoded,
}

/// The keys of an order.
#[derive(Debug)]
pub(crate) struct SortKeys {
    order: LexOrdering,
    converter: RowConverter,
    leading: Leading,
    options: SortOptions,
    exact: bool,
    /// For each column of the key its index in the rows, if blocks leave these columns out; else
    /// empty.
    decoded: Vec<usize>,
    /// Common beginning of the first keys that were encoded.
    common: OnceLock<Box<[u8]>>,
}

/// The keys of some rows.
#[derive(Debug)]
pub(crate) struct Keys {
    pub(crate) prefixes: Vec<u64>,
    /// The encoded keys, if prefixes do not distinguish all rows.
    pub(crate) encoded: Option<Rows>,
}

impl SortKeys {
    /// Creates the keys of the order `order` over rows of `schema`.
    ///
    /// # Errors
    /// If a type has no order.
    pub(crate) fn new(schema: &Schema, order: &LexOrdering) -> datafusion::common::Result<Self> {
        let mut fields = Vec::new();
        for column in order {
            let data_type = column.expr.data_type(schema)?;
            fields.push(SortField::new_with_options(data_type, column.options));
        }
        let first = order.first();
        let single = order.len() == 1;
        let leading = leading(&first.expr.data_type(schema)?, single);
        let exact = single && leading != Leading::Encoded;
        let options = first.options;
        let decoded = if exact { Vec::new() } else { decoded(schema, order) };
        let converter = RowConverter::new(fields)?;
        let common = OnceLock::new();
        Ok(Self { order: order.clone(), converter, leading, options, exact, decoded, common })
    }

    /// Returns the indexes of the columns that blocks store, for rows of `width` columns.
    pub(crate) fn stored(&self, width: usize) -> Vec<usize> {
        (0..width).filter(|column| !self.decoded.contains(column)).collect()
    }

    /// Returns all columns of rows: the `stored` ones, and those decoded from the encoded `keys` of
    /// the rows. Keys with decoded columns are never exact, so every row has an encoded key.
    ///
    /// # Errors
    /// If the rows are too long for their type, or the keys are damaged.
    pub(crate) fn restore<'a>(
        &self,
        stored: Vec<ArrayRef>,
        keys: impl Iterator<Item = &'a [u8]>,
    ) -> Result<Vec<ArrayRef>> {
        if self.decoded.is_empty() {
            return Ok(stored);
        }
        let keys: Vec<&[u8]> = keys.collect();
        // The decoder panics on texts that are too long for 32-bit offsets.
        let bytes: usize = keys.iter().map(|key| key.len()).sum();
        if i32::try_from(bytes).is_err() {
            return Err(ArrowError::OffsetOverflowError(bytes).into());
        }
        let parser = self.converter.parser();
        let decoded = self.converter.convert_rows(keys.iter().map(|key| parser.parse(key)))?;
        let mut decoded: Vec<_> = self.decoded.iter().copied().zip(decoded).collect();
        decoded.sort_by_key(|(column, _)| *column);
        let mut columns = stored;
        for (column, array) in decoded {
            columns.insert(column, array);
        }
        Ok(columns)
    }

    /// Returns true if rows of equal `prefix` must be compared by their whole keys.
    #[inline]
    pub(crate) fn is_open(&self, prefix: u64) -> bool {
        !self.exact || is_edge(prefix)
    }

    /// Returns the key columns of `batch`.
    pub(crate) fn evaluate(
        &self,
        batch: &RecordBatch,
    ) -> datafusion::common::Result<Vec<ArrayRef>> {
        let value = |column: &datafusion::physical_expr::PhysicalSortExpr| {
            column.expr.evaluate(batch)?.into_array(batch.num_rows())
        };
        self.order.iter().map(value).collect()
    }

    /// Returns the keys of rows whose key columns came in `parts`.
    pub(crate) fn keys_of(&self, parts: &[Vec<ArrayRef>]) -> Result<Keys> {
        let mut encoded = (!self.exact).then(|| self.encode(parts)).transpose()?;
        let mut prefixes = Vec::new();
        if self.leading == Leading::Encoded {
            encoded.iter().for_each(|rows| self.encoded_prefixes(rows, &mut prefixes));
        } else {
            parts.iter().for_each(|columns| self.prefixes(&columns[0], &mut prefixes));
        }
        if self.exact && prefixes.iter().any(|prefix| is_edge(*prefix)) {
            encoded = Some(self.encode(parts)?);
        }
        Ok(Keys { prefixes, encoded })
    }

    /// Encodes whole keys so that their bytes compare as the rows do.
    pub(crate) fn encode(&self, parts: &[Vec<ArrayRef>]) -> Result<Rows> {
        let count = parts.iter().map(|columns| columns[0].len()).sum();
        let mut rows = self.converter.empty_rows(count, count * KEY_BYTES);
        for columns in parts {
            self.converter.append(&mut rows, columns)?;
        }
        Ok(rows)
    }

    /// Appends the prefixes of rows whose first key column is `first`.
    pub(crate) fn prefixes(&self, first: &ArrayRef, to: &mut Vec<u64>) {
        match self.leading {
            Leading::Encoded => {}
            Leading::Int8 => self.numbers(first, to, |v: i8| wide(i64::from(v))),
            Leading::Int16 => self.numbers(first, to, |v: i16| wide(i64::from(v))),
            Leading::Int32 => self.numbers(first, to, |v: i32| wide(i64::from(v))),
            Leading::Int64 => self.numbers(first, to, wide),
            Leading::Uint8 => self.numbers(first, to, |v: u8| wide(i64::from(v))),
            Leading::Uint16 => self.numbers(first, to, |v: u16| wide(i64::from(v))),
            Leading::Uint32 => self.numbers(first, to, |v: u32| wide(i64::from(v))),
            Leading::Uint64 => self.numbers(first, to, |v: u64| v),
            Leading::Float32 => self.numbers(first, to, |v: f32| {
                let bits = v.to_bits().cast_signed();
                wide(i64::from(bits ^ ((bits >> 31).cast_unsigned() >> 1).cast_signed()))
            }),
            Leading::Float64 => self.numbers(first, to, |v: f64| {
                let bits = v.to_bits().cast_signed();
                wide(bits ^ ((bits >> 63).cast_unsigned() >> 1).cast_signed())
            }),
            Leading::Int128 => self.numbers(first, to, |v: i128| {
                let clamped = v.clamp(i128::from(i64::MIN), i128::from(i64::MAX));
                wide(i64::try_from(clamped).unwrap_or(i64::MAX))
            }),
        }
    }

    /// Appends the prefixes of encoded keys: the bytes after their common beginning. A key that
    /// begins otherwise is before or after all of them, and gets the number at that end.
    fn encoded_prefixes(&self, rows: &Rows, to: &mut Vec<u64>) {
        let common = self.common.get_or_init(|| common_beginning(rows));
        to.extend(rows.iter().map(|row| {
            let (start, rest) = row.data().split_at(common.len().min(row.data().len()));
            match start.cmp(common) {
                Ordering::Less => 0,
                Ordering::Equal => word(rest).clamp(1, u64::MAX - 1),
                Ordering::Greater => u64::MAX,
            }
        }));
    }

    fn null(&self) -> u64 {
        if self.options.nulls_first { 0 } else { u64::MAX }
    }

    fn numbers<T: ArrowNativeType>(
        &self,
        array: &ArrayRef,
        to: &mut Vec<u64>,
        number: impl Fn(T) -> u64,
    ) {
        let data = array.to_data();
        let values = ScalarBuffer::<T>::new(data.buffers()[0].clone(), data.offset(), data.len());
        let flip = if self.options.descending { u64::MAX } else { 0 };
        let start = to.len();
        to.extend(values.iter().map(|value| (number(*value) ^ flip).clamp(1, u64::MAX - 1)));
        self.mark_nulls(array, &mut to[start..]);
    }

    fn mark_nulls(&self, array: &ArrayRef, prefixes: &mut [u64]) {
        if let Some(nulls) = array.nulls().filter(|nulls| nulls.null_count() > 0) {
            for (prefix, valid) in prefixes.iter_mut().zip(nulls.iter()) {
                *prefix = if valid { *prefix } else { self.null() };
            }
        }
    }
}

/// Returns the column index of each key if blocks leave these columns out: if all keys are plain
/// columns that can be decoded from the encoded key, and one of them has a variable length. Else
/// empty.
fn decoded(schema: &Schema, order: &LexOrdering) -> Vec<usize> {
    let column = |expr: &datafusion::physical_expr::PhysicalSortExpr| {
        let index = expr.expr.downcast_ref::<Column>()?.index();
        let data_type = schema.fields().get(index)?.data_type();
        (data_type.is_primitive() || is_variable(data_type)).then_some((index, data_type))
    };
    let columns: Option<Vec<_>> = order.iter().map(column).collect();
    let columns = columns.filter(|columns| columns.iter().any(|(_, it)| is_variable(it)));
    columns.unwrap_or_default().into_iter().map(|(index, _)| index).collect()
}

/// Returns true for texts and bytes of variable length.
fn is_variable(data_type: &DataType) -> bool {
    use DataType as T;
    matches!(
        data_type,
        T::Utf8 | T::LargeUtf8 | T::Utf8View | T::Binary | T::LargeBinary | T::BinaryView
    )
}

fn is_edge(prefix: u64) -> bool {
    prefix.wrapping_add(2) <= 3
}

/// Maps signed numbers to unsigned ones of the same order.
fn wide(value: i64) -> u64 {
    (value ^ i64::MIN).cast_unsigned()
}

fn common_beginning(rows: &Rows) -> Box<[u8]> {
    if rows.num_rows() < SAMPLE_ROWS {
        return Box::default();
    }
    let first = rows.row(0).data();
    let shared = rows.iter().map(|row| shared_bytes(first, row.data())).min();
    first[..shared.unwrap_or(0)].into()
}

/// Returns the number of bytes that two keys have in common before they differ.
pub(crate) fn shared_bytes(left: &[u8], right: &[u8]) -> usize {
    let (left_words, _) = left.as_chunks::<8>();
    let (right_words, _) = right.as_chunks::<8>();
    let words = left_words.iter().zip(right_words).take_while(|(a, b)| a == b).count() * 8;
    let rest = left[words..].iter().zip(&right[words..]);
    words + rest.take_while(|(a, b)| a == b).count()
}

/// Returns the first eight bytes as a number.
pub(crate) fn word(bytes: &[u8]) -> u64 {
    match bytes.first_chunk::<8>() {
        Some(chunk) => u64::from_be_bytes(*chunk),
        None => {
            let mut chunk = [0; 8];
            chunk[..bytes.len()].copy_from_slice(bytes);
            u64::from_be_bytes(chunk)
        }
    }
}

fn leading(data_type: &DataType, single: bool) -> Leading {
    use DataType as T;
    match data_type {
        T::Int64
        | T::Date64
        | T::Time64(_)
        | T::Timestamp(_, _)
        | T::Duration(_)
        | T::Decimal64(_, _) => Leading::Int64,
        T::UInt64 => Leading::Uint64,
        T::Float64 => Leading::Float64,
        T::Decimal128(_, _) => Leading::Int128,
        // For a short first column the encoded key has more information: it goes on with the
        // second.
        _ if !single => Leading::Encoded,
        T::Int8 => Leading::Int8,
        T::Int16 => Leading::Int16,
        T::Int32 | T::Date32 | T::Decimal32(_, _) => Leading::Int32,
        T::Time32(TimeUnit::Second | TimeUnit::Millisecond) => Leading::Int32,
        T::UInt8 => Leading::Uint8,
        T::UInt16 => Leading::Uint16,
        T::UInt32 => Leading::Uint32,
        T::Float32 => Leading::Float32,
        _ => Leading::Encoded,
    }
}
