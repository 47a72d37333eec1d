//! Functions of numbers.

mod bits;
mod buckets;
mod decimals;
mod degrees;
mod division;
mod divisors;
mod domain;
mod places;
mod rounding;
mod special;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

use crate::scalar::functions;
pub use division::IntegerQuotients;

/// Returns the functions of numbers.
pub(crate) fn scalars() -> Vec<Arc<ScalarUDF>> {
    let all = [
        bits::FUNCTIONS,
        buckets::FUNCTIONS,
        decimals::FUNCTIONS,
        degrees::FUNCTIONS,
        division::FUNCTIONS,
        divisors::FUNCTIONS,
        rounding::FUNCTIONS,
        special::FUNCTIONS,
    ];
    let all = all.into_iter().flat_map(functions);
    all.chain(places::functions()).chain(domain::functions()).collect()
}
