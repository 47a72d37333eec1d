//! Functions of lists.

mod aggregate;
mod array_levels;
mod array_text;
mod distinct;
mod elements;
mod function;
mod joined;
mod lambda;
mod limits;
mod operators;
mod order;
mod positions;
mod quantified;
mod reduce;
mod replace;
mod series;
mod shape;
mod signed;
mod text_arrays;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF};

use crate::adapter::function;
pub use array_levels::depth_of;
pub use array_text::{array_items, text_array};
pub(crate) use elements::{Lists, list_type, lists_at};
pub use operators::ListOperators;
pub(crate) use positions::Positions;
pub use quantified::{ALL, ANY};
pub use series::{Series, series_types};
pub use text_arrays::{text_arrays, try_text_arrays};

/// Returns the scalar functions, without aggregates.
pub(crate) fn scalars() -> Vec<Arc<ScalarUDF>> {
    let all = [distinct::functions(), order::functions(), replace::functions(), shape::functions()];
    let all = all.into_iter().flatten();
    let all = all.map(function).chain(limits::functions()).chain(series::functions());
    let all = all.chain(positions::functions()).chain(quantified::functions());
    all.chain(joined::functions()).chain(signed::functions()).collect()
}

/// Returns the function `list_length(l)`, the number of elements of a list.
pub(crate) fn length() -> Arc<ScalarUDF> {
    function(shape::length_of_list())
}

/// Returns scalar functions such as `list_sum(l)`, which apply `aggregates`, by their names, to the
/// elements of a list.
#[must_use]
pub fn aggregates(aggregates: &HashMap<String, Arc<AggregateUDF>>) -> Vec<Arc<ScalarUDF>> {
    aggregate::functions(aggregates)
}

/// Returns the functions that take lambdas.
pub(crate) fn higher_order() -> Vec<Arc<HigherOrderUDF>> {
    lambda::functions()
}
