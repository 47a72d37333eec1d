//! Functions of numbers.

mod bits;
mod buckets;
mod decimals;
mod division;
mod special;

use std::sync::Arc;

use datafusion::functions::math::{ceil, gcd, lcm};
use datafusion::logical_expr::ScalarUDF;

use crate::scalar::functions;

/// Returns the functions of numbers, and DataFusion's with the names of other databases.
pub(crate) fn scalars() -> Vec<Arc<ScalarUDF>> {
    let all = [
        bits::FUNCTIONS,
        buckets::FUNCTIONS,
        decimals::FUNCTIONS,
        division::FUNCTIONS,
        special::FUNCTIONS,
    ];
    let named = |function: &ScalarUDF, alias| Arc::new(function.clone().with_aliases([alias]));
    let renamed = [
        named(&ceil(), "ceiling"),
        named(&gcd(), "greatest_common_divisor"),
        named(&lcm(), "least_common_multiple"),
    ];
    all.into_iter().flat_map(functions).chain(renamed).collect()
}
