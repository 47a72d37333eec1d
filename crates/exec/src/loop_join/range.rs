//! Ranges of rows: binary search for the rows that can satisfy the comparisons of a filter.
//!
//! A filter such as `l.at BETWEEN r.start AND r.end` compares one expression of a side, the key,
//! with expressions of the other side, the bounds. With the rows of the first side sorted by the
//! key, those that are within the bounds of a row of the other side are consecutive. Only they are
//! paired with it, and the whole filter decides about each pair. A second expression of the sorted
//! side may be bounded below, as in the overlap of two intervals,
//! `l.start <= r.end AND l.end >= r.start`: as many of the first rows are left out as have a
//! smaller maximum of that expression.
//!
//! Keys and bounds are compared as words, integers of 64 bits in the same order as the values.
//! Different values may have the same word, as texts with eight equal first bytes, so both ends of
//! a range are inclusive.

use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{
    Array, ArrayRef, AsArray, Int64Array, PrimitiveArray, RecordBatch, make_array,
};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{
    DataType, Decimal128Type, Float32Type, Float64Type, Int64Type, UInt64Type,
};
use datafusion::common::tree_node::{Transformed, TreeNode};
use datafusion::common::{JoinSide, Result};
use datafusion::logical_expr::Operator;
use datafusion::physical_expr::expressions::{BinaryExpr, Column};
use datafusion::physical_expr::utils::collect_columns;
use datafusion::physical_expr::{PhysicalExpr, split_conjunction};
use datafusion::physical_expr_common::physical_expr::is_volatile;
use datafusion::physical_plan::joins::utils::JoinFilter;
use terrace_sys::size::to_u64;

use crate::floats::Float;

type Expr = Arc<dyn PhysicalExpr>;

/// Bytes for the keys of a row while they are sorted; bounds take fewer.
const ROW_BYTES: u64 = 52;

/// The comparisons of a filter that bound a key.
#[derive(Clone, Debug)]
pub(super) struct RangeFilter {
    /// Side whose rows are sorted.
    side: JoinSide,
    key: Expr,
    /// Expressions of the other side.
    low: Option<Expr>,
    high: Option<Expr>,
    /// Another expression of the sorted side, and its lower bound.
    reach: Option<(Expr, Expr)>,
}

/// A comparison of an expression of one side with one of the other.
#[derive(Clone)]
struct Comparison {
    side: JoinSide,
    expr: Expr,
    bound: Expr,
    /// True if `bound` is a lower bound.
    is_low: bool,
}

impl RangeFilter {
    /// Returns the most selective kind of bounds among the conditions of a filter: two bounds of
    /// one key, else an overlap, else one bound. `None` if no condition is a bound.
    pub(super) fn of(filter: &JoinFilter) -> Option<Self> {
        let conditions = split_conjunction(filter.expression());
        let comparisons: Vec<Comparison> =
            conditions.into_iter().flat_map(|it| comparisons(it, filter)).flatten().collect();
        let of_side = |one: &Comparison, is_low: bool, is_key: bool| {
            let fits = |other: &&Comparison| {
                other.side == one.side
                    && other.is_low == is_low
                    && other.expr.eq(&one.expr) == is_key
            };
            comparisons.iter().find(fits).cloned()
        };
        let both = comparisons.iter().filter(|it| !it.is_low).find_map(|high| {
            let low = of_side(high, true, true)?;
            Some(Self::new(high, Some(low.bound), Some(Arc::clone(&high.bound)), None))
        });
        let overlap = || {
            comparisons.iter().filter(|it| !it.is_low).find_map(|high| {
                let reach = of_side(high, true, false)?;
                let reach = Some((reach.expr, reach.bound));
                Some(Self::new(high, None, Some(Arc::clone(&high.bound)), reach))
            })
        };
        // Right rows are sorted once, blocks of the left side in each round.
        let one = || {
            let mut ordered = comparisons.iter();
            let right = ordered.clone().find(|it| it.side == JoinSide::Right);
            let one = right.or_else(|| ordered.next())?;
            let bound = Some(Arc::clone(&one.bound));
            let (low, high) = if one.is_low { (bound, None) } else { (None, bound) };
            Some(Self::new(one, low, high, None))
        };
        both.or_else(overlap).or_else(one)
    }

    fn new(
        key: &Comparison,
        low: Option<Expr>,
        high: Option<Expr>,
        reach: Option<(Expr, Expr)>,
    ) -> Self {
        Self { side: key.side, key: Arc::clone(&key.expr), low, high, reach }
    }

    /// Returns the keys or bounds of rows of a side; `None` if they cannot be computed, so that
    /// all pairs have to be formed.
    pub(super) fn terms(&self, side: JoinSide, rows: &RecordBatch) -> Option<Terms> {
        let words = |expr: &Expr| words_of(expr, rows);
        // Errors are those of the filter, if it evaluates the expression.
        let optional = |expr: Option<&Expr>| expr.map(words).transpose();
        if side == self.side {
            let reach = optional(self.reach.as_ref().map(|it| &it.0)).ok()?;
            return Some(Terms::Keys(Keys::new(&words(&self.key).ok()?, reach.as_ref())));
        }
        Some(Terms::Bounds(Box::new(Bounds {
            low: optional(self.low.as_ref()).ok()?,
            high: optional(self.high.as_ref()).ok()?,
            reach: optional(self.reach.as_ref().map(|it| &it.1)).ok()?,
        })))
    }

    /// Returns the bytes that the terms of a number of rows take, at most.
    pub(super) fn bytes(rows: usize) -> u64 {
        ROW_BYTES * to_u64(rows)
    }
}

/// Returns a condition as a bound of its left operand, and as one of its right operand; `None` if
/// it does not compare the two sides by order, or its values have no words.
fn comparisons(condition: &Expr, filter: &JoinFilter) -> Option<[Comparison; 2]> {
    let binary = condition.downcast_ref::<BinaryExpr>()?;
    let is_low = match binary.op() {
        Operator::Gt | Operator::GtEq => true,
        Operator::Lt | Operator::LtEq => false,
        _ => return None,
    };
    let (left, right) = (binary.left(), binary.right());
    let kind = left.data_type(filter.schema()).ok()?;
    if !has_words(&kind) || right.data_type(filter.schema()).ok()? != kind {
        return None;
    }
    let ((left_side, left), (right_side, right)) =
        (on_side(left, filter)?, on_side(right, filter)?);
    (left_side != right_side).then(|| {
        [
            Comparison {
                side: left_side,
                expr: Arc::clone(&left),
                bound: Arc::clone(&right),
                is_low,
            },
            Comparison { side: right_side, expr: right, bound: left, is_low: !is_low },
        ]
    })
}

/// Returns the only side whose columns an expression reads, and the expression over the columns of
/// that side.
fn on_side(expr: &Expr, filter: &JoinFilter) -> Option<(JoinSide, Expr)> {
    let indices = filter.column_indices();
    let columns = collect_columns(expr);
    let mut sides = columns.iter().map(|column| indices.get(column.index()).map(|it| it.side));
    let side = sides.next().flatten()?;
    if side == JoinSide::None || !sides.all(|it| it == Some(side)) || is_volatile(expr) {
        return None;
    }
    let own = Arc::clone(expr).transform(|node| {
        Ok(match node.downcast_ref::<Column>() {
            Some(column) => {
                let index = indices[column.index()].index;
                Transformed::yes(Arc::new(Column::new(column.name(), index)))
            }
            None => Transformed::no(node),
        })
    });
    Some((side, own.ok()?.data))
}

/// Keys or bounds of some rows.
#[derive(Debug)]
pub(super) enum Terms {
    /// Of the sorted side.
    Keys(Keys),
    /// Of the other side.
    Bounds(Box<Bounds>),
}

/// Rows sorted by their keys, without rows whose key is null.
#[derive(Debug)]
pub(super) struct Keys {
    words: Vec<i64>,
    rows: Vec<u32>,
    /// The maximum of the second expression up to each row.
    reach: Option<Vec<i64>>,
}

impl Keys {
    fn new(words: &Int64Array, reach: Option<&Int64Array>) -> Self {
        let is_null = |row: usize| words.is_null(row) || reach.is_some_and(|it| it.is_null(row));
        let rows = (0..words.len()).filter(|row| !is_null(*row));
        let mut sorted: Vec<(i64, u32)> = rows.map(|row| (words.value(row), index(row))).collect();
        sorted.sort_unstable();
        let mut most = i64::MIN;
        let reach = reach.map(|reach| {
            let up_to = sorted.iter().map(|(_, row)| {
                most = most.max(reach.value(*row as usize));
                most
            });
            up_to.collect()
        });
        let (words, rows) = sorted.into_iter().unzip();
        Self { words, rows, reach }
    }

    /// Returns the positions, in the order of keys, of rows within the bounds of a row.
    pub(super) fn within(&self, bounds: &Bounds, row: usize) -> Range<usize> {
        let bound = |words: &Option<Int64Array>| match words {
            Some(words) if words.is_null(row) => Err(()),
            Some(words) => Ok(Some(words.value(row))),
            None => Ok(None),
        };
        // A comparison with null is never true.
        let (Ok(low), Ok(high), Ok(reach)) =
            (bound(&bounds.low), bound(&bounds.high), bound(&bounds.reach))
        else {
            return 0..0;
        };
        let start = low.map_or(0, |low| self.words.partition_point(|word| *word < low));
        let end =
            high.map_or(self.words.len(), |high| self.words.partition_point(|word| *word <= high));
        let reached = self
            .reach
            .as_ref()
            .zip(reach)
            .map_or(0, |(most, reach)| most.partition_point(|most| *most < reach));
        start.max(reached)..end
    }

    /// Returns the row at a position in the order of keys.
    pub(super) fn row(&self, position: usize) -> u32 {
        self.rows[position]
    }
}

/// Bounds of the keys that rows can match.
#[derive(Debug)]
pub(super) struct Bounds {
    low: Option<Int64Array>,
    high: Option<Int64Array>,
    reach: Option<Int64Array>,
}

fn words_of(expr: &Expr, rows: &RecordBatch) -> Result<Int64Array> {
    words(&expr.evaluate(rows)?.into_array(rows.num_rows())?)
}

/// Returns true if values of a type are compared as words, integers of 64 bits.
fn has_words(kind: &DataType) -> bool {
    use DataType::{
        Date32, Date64, Decimal128, Duration, Float32, Float64, LargeUtf8, Time32, Time64,
        Timestamp, Utf8, Utf8View,
    };
    let others = matches!(
        kind,
        Date32
            | Date64
            | Time32(_)
            | Time64(_)
            | Timestamp(..)
            | Duration(_)
            | Decimal128(..)
            | Float32
            | Float64
            | Utf8
            | LargeUtf8
            | Utf8View
    );
    others || kind.is_integer()
}

/// Returns the words of values of a type for which [`has_words`] is true.
fn words(values: &ArrayRef) -> Result<Int64Array> {
    let text = |text: Option<&str>| text.map(word_of_text);
    Ok(match values.data_type() {
        DataType::UInt64 => values
            .as_primitive::<UInt64Type>()
            .unary(|value| i64::try_from(value).unwrap_or(i64::MAX)),
        DataType::Decimal128(..) => {
            let limit = |value| if value < 0 { i64::MIN } else { i64::MAX };
            values
                .as_primitive::<Decimal128Type>()
                .unary(|value: i128| i64::try_from(value).unwrap_or(limit(value)))
        }
        DataType::Float32 => values.as_primitive::<Float32Type>().unary(|it| word(it.into())),
        DataType::Float64 => values.as_primitive::<Float64Type>().unary(word),
        DataType::Utf8 => values.as_string::<i32>().iter().map(text).collect(),
        DataType::LargeUtf8 => values.as_string::<i64>().iter().map(text).collect(),
        DataType::Utf8View => values.as_string_view().iter().map(text).collect(),
        DataType::Date32 | DataType::Time32(_) => integers(&bits_as(values, DataType::Int32)?)?,
        kind if kind.is_integer() => integers(values)?,
        _ => bits_as(values, DataType::Int64)?.as_primitive::<Int64Type>().clone(),
    })
}

fn integers(values: &ArrayRef) -> Result<PrimitiveArray<Int64Type>> {
    Ok(cast(values, &DataType::Int64)?.as_primitive().clone())
}

/// Returns an array of the same bits with another type of the same width.
fn bits_as(values: &ArrayRef, kind: DataType) -> Result<ArrayRef> {
    Ok(make_array(values.to_data().into_builder().data_type(kind).build()?))
}

/// Returns a number as a word. The two zeros have the same word, and NaN has the largest one.
fn word(value: f64) -> i64 {
    let bits = value.canonical().to_bits().cast_signed();
    if bits < 0 { bits ^ i64::MAX } else { bits }
}

/// Returns the first eight bytes of a text as a word.
fn word_of_text(text: &str) -> i64 {
    let mut first = [0; 8];
    let len = text.len().min(first.len());
    first[..len].copy_from_slice(&text.as_bytes()[..len]);
    (u64::from_be_bytes(first) ^ (1 << 63)).cast_signed()
}

/// Converts a position in a batch. Batches have fewer than 2^32 rows.
pub(super) fn index(position: usize) -> u32 {
    u32::try_from(position).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::{Float64Array, StringArray};

    use super::*;

    #[test]
    fn words_are_in_the_order_of_values() {
        let numbers = [f64::NEG_INFINITY, -2.5, -0.0, 0.0, 1e-300, 7.0, f64::INFINITY, -f64::NAN];
        let words = |array: ArrayRef| words(&array).expect("words");
        let found = words(Arc::new(Float64Array::from(numbers.to_vec())));
        assert!(found.values().is_sorted() && found.value(2) == found.value(3));
        assert!(found.value(6) < found.value(7), "NaN is above infinity");
        let texts = vec!["", "\0", "a", "abcdefgh", "abcdefghi", "b", "\u{e4}", "\u{65e5}"];
        let found = words(Arc::new(StringArray::from(texts)));
        assert!(found.values().is_sorted() && found.value(3) == found.value(4));
    }

    #[test]
    fn a_range_is_inclusive_and_leaves_out_nulls_and_those_that_end_before() {
        let some = |values: &[i64]| Int64Array::from(values.to_vec());
        let keys = Int64Array::from(vec![Some(5), None, Some(1), Some(3), Some(3), Some(9)]);
        let keys = Keys::new(&keys, Some(&some(&[6, 0, 2, 4, 8, 9])));
        let bounds = |low, high, reach| Bounds { low, high, reach };
        let rows = |bounds: &Bounds| -> Vec<u32> {
            keys.within(bounds, 0).map(|position| keys.row(position)).collect()
        };
        assert_eq!(rows(&bounds(Some(some(&[3])), Some(some(&[5])), None)), [3, 4, 0]);
        assert_eq!(rows(&bounds(None, Some(some(&[5])), Some(some(&[5])))), [4, 0]);
        assert_eq!(rows(&bounds(Some(some(&[6])), Some(some(&[2])), None)), [0_u32; 0]);
        assert_eq!(rows(&bounds(Some(Int64Array::from(vec![None])), None, None)), [0_u32; 0]);
    }
}
