//! Functions of lists.

mod aggregate;
mod array_text;
mod distinct;
mod elements;
mod function;
mod lambda;
mod limits;
mod operators;
mod order;
mod positions;
mod quantified;
mod reduce;
mod replace;
mod shape;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF};

use crate::adapter::function;
pub use array_text::{array_items, text_array, text_arrays, try_text_arrays};
pub(crate) use elements::lists_at;
pub use operators::ListOperators;
pub(crate) use positions::Positions;
pub use quantified::{ALL, ANY};

/// Returns the scalar functions, without aggregates.
pub(crate) fn scalars() -> Vec<Arc<ScalarUDF>> {
    let all = [distinct::functions(), order::functions(), replace::functions(), shape::functions()];
    let all = all.into_iter().flatten();
    let all = all.map(function).chain(limits::functions());
    all.chain(positions::functions()).chain(quantified::functions()).collect()
}

/// Returns the scalar functions that apply these aggregates to the elements of a list.
#[must_use]
pub fn aggregates(aggregates: &HashMap<String, Arc<AggregateUDF>>) -> Vec<Arc<ScalarUDF>> {
    aggregate::functions(aggregates)
}

/// Returns the functions that take lambdas.
pub(crate) fn higher_order() -> Vec<Arc<HigherOrderUDF>> {
    lambda::functions()
}
