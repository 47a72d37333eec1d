//! Positions in lists: `l[i]` and `l[a:b:s]` with numbers beyond the length of any list.
//!
//! DataFusion computes with the numbers in the width of the list's offsets, and fails or overflows
//! for larger ones. A number beyond the length of every list means the same as any other one.

use std::sync::{Arc, LazyLock};

use datafusion::arrow::array::{AsArray as _, Int64Array};
use datafusion::arrow::datatypes::Int64Type;
use datafusion::common::config::ConfigOptions;
use datafusion::common::tree_node::Transformed;
use datafusion::common::{DFSchema, Result, ScalarValue};
use datafusion::functions_nested::extract::{array_element_udf, array_slice_udf};
use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF};

use crate::checked::Checked;

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
    Ok(args)
}

/// Makes calls of these functions of DataFusion's, which its planner makes of `l[i]`.
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
