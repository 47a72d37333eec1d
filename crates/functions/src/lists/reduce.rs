//! `list_reduce`: combines the elements of a list one after another.
//!
//! All rows take a step together, until the longest list ends.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, Int64Array, UInt64Array, new_null_array};
use datafusion::arrow::compute::{cast, interleave, take};
use datafusion::arrow::datatypes::{DataType, Field, FieldRef};
use datafusion::common::{DataFusionError, Result, exec_err};
use datafusion::logical_expr::LambdaParametersProgress;

use super::elements::{Flat, Lists, number};

/// Largest precision of a decimal of 128 bits.
const PRECISION_MAX: u8 = 38;

/// Arguments of the lambda for some rows.
pub(super) struct Step<'a> {
    pub(super) so_far: ArrayRef,
    pub(super) elements: ArrayRef,
    pub(super) positions: Int64Array,
    /// The rows.
    pub(super) rows: &'a UInt64Array,
}

/// The types of the lambda's parameters: the value so far has the type that the lambda returns. At
/// step 0 a known type is final.
pub(super) fn parameters(
    step: usize,
    begin: DataType,
    result: Option<DataType>,
    element: &FieldRef,
    position: &FieldRef,
) -> LambdaParametersProgress {
    let with = |of: DataType| {
        let so_far = Arc::new(Field::new("so_far", of, true));
        vec![so_far, Arc::clone(element), Arc::clone(position)]
    };
    let grows = |of: &DataType| scale(of) > scale(&begin).max(scale(element.data_type()));
    match result {
        // Products of decimals have more digits at each step.
        Some(result) if step > 1 && grows(&result) => {
            LambdaParametersProgress::Complete(vec![with(DataType::Float64)])
        }
        Some(result) if result == begin || step != 1 => {
            LambdaParametersProgress::Complete(vec![with(wide(result))])
        }
        Some(result) => LambdaParametersProgress::Partial(vec![Some(with(wide(result)))]),
        None => LambdaParametersProgress::Partial(vec![Some(with(begin))]),
    }
}

/// The number of digits behind the point of a decimal.
fn scale(of: &DataType) -> i8 {
    match of {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    }
}

/// The type for the result so far: a decimal gets the largest precision, so that sums have the same
/// type.
fn wide(of: DataType) -> DataType {
    match of {
        DataType::Decimal128(_, scale) => DataType::Decimal128(PRECISION_MAX, scale),
        other => other,
    }
}

/// Reduces each list; `call` is the lambda, and `of` its type.
///
/// # Errors
/// For an empty list without an initial value, and those of the lambda.
pub(super) fn reduce(
    lists: &Lists,
    flat: &Flat,
    initial: Option<&ArrayRef>,
    of: &DataType,
    call: impl Fn(Step<'_>) -> Result<ArrayRef>,
) -> Result<ArrayRef> {
    let begins = begins(&flat.lengths);
    let elements = |rows: &[usize], at: usize| {
        let place = |row: &usize| number(begins.get(*row).copied().unwrap_or(0) + at);
        let places = rows.iter().map(place).collect::<Result<Vec<_>>>()?;
        Ok::<_, DataFusionError>(take(&flat.values, &UInt64Array::from(places), None)?)
    };
    let length = |row: usize| flat.lengths.get(row).copied().unwrap_or(0);
    let mut rows: Vec<_> = (0..lists.rows()).filter(|&row| lists.range(row).is_some()).collect();
    let first = usize::from(initial.is_none());
    if rows.iter().any(|&row| length(row) < first) {
        return exec_err!("list_reduce of an empty list: give it an initial value");
    }
    let mut so_far = match initial {
        Some(initial) => cast(&take(initial, &places(&rows)?, None)?, of)?,
        None => cast(&elements(&rows, 0)?, of)?,
    };
    let mut ended = Ended::new(of, lists.rows());
    for at in first.. {
        let (go_on, end): (Vec<_>, Vec<_>) = (0..rows.len())
            .partition(|&place| rows.get(place).is_some_and(|&row| length(row) > at));
        if !end.is_empty() {
            ended.add(&end, &rows, &so_far)?;
            so_far = take(&so_far, &places(&go_on)?, None)?;
            rows = go_on.iter().filter_map(|&place| rows.get(place).copied()).collect();
        }
        if rows.is_empty() {
            return ended.result();
        }
        let position = i64::try_from(at + 1).unwrap_or(i64::MAX);
        let step = Step {
            so_far,
            elements: elements(&rows, at)?,
            positions: Int64Array::from_value(position, rows.len()),
            rows: &places(&rows)?,
        };
        so_far = cast(&call(step)?, of)?;
    }
    ended.result()
}

fn places(places: &[usize]) -> Result<UInt64Array> {
    Ok(places.iter().map(|&place| number(place)).collect::<Result<Vec<_>>>()?.into())
}

/// The results of lists that have ended.
struct Ended {
    /// Arrays of results; the first is a single null, for rows without a result.
    arrays: Vec<ArrayRef>,
    /// For each row, the index in `arrays` and the index in that array of its result.
    of_rows: Vec<(usize, usize)>,
}

impl Ended {
    fn new(of: &DataType, rows: usize) -> Self {
        Self { arrays: vec![new_null_array(of, 1)], of_rows: vec![(0, 0); rows] }
    }

    /// Adds the results `values[i]` of the rows `rows[i]` for all `i` in `end`.
    fn add(&mut self, end: &[usize], rows: &[usize], values: &ArrayRef) -> Result<()> {
        let array = self.arrays.len();
        self.arrays.push(take(values, &places(end)?, None)?);
        for (place, row) in end.iter().filter_map(|&place| rows.get(place)).enumerate() {
            if let Some(of_row) = self.of_rows.get_mut(*row) {
                *of_row = (array, place);
            }
        }
        Ok(())
    }

    fn result(&self) -> Result<ArrayRef> {
        let arrays: Vec<_> = self.arrays.iter().map(AsRef::as_ref).collect();
        Ok(interleave(&arrays, &self.of_rows)?)
    }
}

/// The place of the first element of each row.
fn begins(lengths: &[usize]) -> Vec<usize> {
    let mut next = 0;
    let begin = |&length: &usize| {
        let begin = next;
        next += length;
        begin
    };
    lengths.iter().map(begin).collect()
}
