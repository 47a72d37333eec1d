//! Positions in lists: `l[i]` and `l[a:b:s]` with numbers beyond the length of any list.
//!
//! DataFusion computes with the numbers in the width of the list's offsets, and fails or overflows
//! for larger ones. Here numbers are clamped first: all positions beyond the longest possible list
//! have the same meaning.
//!
//! A slice with a negative step begins at the last element if its begin is behind it, and ends at
//! the first if its end is before it, as in DuckDB; DataFusion's is empty then.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{Array as _, AsArray as _, Int64Array};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions_nested::extract::{array_element_udf, array_slice_udf};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF};

use super::elements::Lists;
use crate::checked::{Checked, rows};

/// A number beyond the length of any list; the sum of two of them has 32 bits.
const BEYOND: i64 = (1 << 30) - 1;

static FUNCTIONS: LazyLock<[Arc<ScalarUDF>; 2]> = LazyLock::new(|| {
    [array_element_udf(), array_slice_udf()].map(|function| Checked::changing(function, within))
});

/// Returns the functions.
pub(super) fn functions() -> Vec<Arc<ScalarUDF>> {
    FUNCTIONS.to_vec()
}

/// Brings the numbers among the arguments within the range of positions.
fn within(mut args: ScalarFunctionArgs) -> Result<ScalarFunctionArgs> {
    for arg in args.args.iter_mut().skip(1) {
        match arg {
            ColumnarValue::Scalar(ScalarValue::Int64(Some(number))) => {
                *number = (*number).clamp(-BEYOND, BEYOND);
            }
            ColumnarValue::Array(numbers) => {
                let Some(given) = numbers.as_primitive_opt::<Int64Type>() else { continue };
                if given.values().iter().any(|number| !(-BEYOND..=BEYOND).contains(number)) {
                    let clamped: Int64Array = given.unary(|number| number.clamp(-BEYOND, BEYOND));
                    *numbers = Arc::new(clamped);
                }
            }
            ColumnarValue::Scalar(_) => {}
        }
    }
    with_descending_bounds(args)
}

/// Replaces the bounds of slices with a negative step by those of elements that the lists have.
fn with_descending_bounds(mut args: ScalarFunctionArgs) -> Result<ScalarFunctionArgs> {
    let count = rows(&args);
    let [lists, from, to, step] = args.args.as_slice() else { return Ok(args) };
    let columns = [from, to, step].map(|it| it.to_array(count));
    let [from, to, step] = columns;
    let (from, to, step) = (from?, to?, step?);
    let numbers = [&from, &to, &step].map(|it| it.as_primitive_opt::<Int64Type>());
    let [Some(from), Some(to), Some(step)] = numbers else { return Ok(args) };
    if !step.iter().flatten().any(|step| step < 0) {
        return Ok(args);
    }
    let lists = Lists::new(&lists.to_array(count)?)?;
    let bounds = |row: usize| {
        let (from, to) = (from.is_valid(row).then(|| from.value(row))?, to.value(row));
        if step.value(row) >= 0 {
            return Some((from, to));
        }
        let length = lists.range(row).map_or(0, |range| range.len());
        Some(descending(from, to, i64::try_from(length).unwrap_or(BEYOND)))
    };
    let bounds: Vec<_> = (0..count).map(bounds).collect();
    let from: Int64Array = bounds.iter().map(|bounds| Some(bounds.as_ref()?.0)).collect();
    let ends = bounds.iter().enumerate();
    let to: Int64Array = ends.map(|(row, it)| Some(it.filter(|_| to.is_valid(row))?.1)).collect();
    args.args[1] = ColumnarValue::Array(Arc::new(from));
    args.args[2] = ColumnarValue::Array(Arc::new(to));
    Ok(args)
}

/// The bounds of a slice that descends, of elements that a list of this length has; the first is
/// beyond it for a slice without elements.
fn descending(from: i64, to: i64, length: i64) -> (i64, i64) {
    let of_front = |position: i64| if position < 0 { position + length + 1 } else { position };
    match (of_front(from).min(length), of_front(to).max(1)) {
        (from, to) if from >= to => (from, to),
        (_, to) => (BEYOND, to),
    }
}

/// Rewrites calls of DataFusion's functions, which its planner creates for `l[i]` and `l[a:b]`, to
/// calls of these.
#[derive(Debug)]
pub(crate) struct Positions;

impl FunctionRewrite for Positions {
    fn name(&self) -> &str {
        "positions"
    }

    fn rewrite(&self, expr: Expr, _: &DFSchema, _: &ConfigOptions) -> Result<Transformed<Expr>> {
        let Expr::ScalarFunction(mut call) = expr else { return Ok(Transformed::no(expr)) };
        let own = FUNCTIONS.iter().find(|own| own.name() == call.func.name());
        let Some(own) = own.filter(|_| !call.func.inner().is::<Checked>()) else {
            return Ok(Transformed::no(Expr::ScalarFunction(call)));
        };
        call.func = Arc::clone(own);
        Ok(Transformed::yes(Expr::ScalarFunction(call)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The elements of DuckDB 2.0 of `[3, 1, 2][from:to:-1]`.
    #[test]
    fn descending_slices_have_the_bounds_of_the_list() {
        let of = |from, to| descending(from, to, 3);
        assert_eq!(of(7, 1), (3, 1));
        assert_eq!(of(3, 0), (3, 1));
        assert_eq!(of(3, -9), (3, 1));
        assert_eq!(of(-1, 2), (3, 2));
        assert_eq!(of(2, -2), (2, 2));
        for (from, to) in [(3, 7), (7, 7), (1, 9), (0, 1), (-9, 1), (0, -1)] {
            assert_eq!(of(from, to).0, BEYOND, "{from} {to}");
        }
        assert_eq!(descending(1, 1, 0).0, BEYOND);
    }
}
