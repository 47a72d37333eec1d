//! Functions of lists.

mod aggregate;
mod elements;
mod function;
mod lambda;
mod limits;
mod operators;
mod order;
mod reduce;
mod replace;
mod shape;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF};

use function::Definition;
pub use operators::ListOperators;

/// Returns the scalar functions, without aggregates.
pub(crate) fn scalars() -> Vec<Arc<ScalarUDF>> {
    let all = [order::functions(), replace::functions(), shape::functions()].into_iter().flatten();
    all.map(Definition::function).chain(limits::functions()).collect()
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
