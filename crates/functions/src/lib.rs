//! SQL functions of PostgreSQL and DuckDB that DataFusion lacks.
//!
//! Each function has the name, the arguments and the result of the database that it comes from;
//! where both databases have a function of one name with different results, PostgreSQL's decides.
//! The crate knows no engine: it returns functions that a session registers.

#![forbid(unsafe_code)]

mod adapter;
pub mod aggregates;
mod checked;
pub mod columns;
mod comparison;
mod dates;
pub mod json;
pub mod lists;
pub mod nested;
mod numbers;
mod scalar;
mod structs;
mod text;
mod types;

use std::collections::HashMap;
use std::sync::Arc;

use datafusion::logical_expr::expr_rewriter::FunctionRewrite;
use datafusion::logical_expr::{AggregateUDF, HigherOrderUDF, ScalarUDF};

pub use checked::{Instead, instead};
pub use dates::{
    DAYS, IntervalOperators, LiteralOperands, MONTHS, date_of, instant_of, moved_instant,
    session_zone,
};
pub use numbers::IntegerQuotients;
pub use text::operator_pattern;
pub use types::postgres_type;

/// Returns the scalar functions.
#[must_use]
pub fn scalars() -> Vec<Arc<ScalarUDF>> {
    let mut all = text::scalars();
    all.extend(dates::scalars());
    all.extend(numbers::scalars());
    all.extend(types::scalars());
    all.extend(json::functions());
    all.extend(lists::scalars());
    all.push(nested::function());
    all.extend(structs::scalars());
    all
}

/// Returns functions that replace those of `session` of the same name, with a check that refuses
/// numbers outside of the range of timestamps.
#[must_use]
pub fn checked(session: &HashMap<String, Arc<ScalarUDF>>) -> Vec<Arc<ScalarUDF>> {
    dates::since_1970(session)
}

/// Returns the rewrites of expressions that a session registers: date parts, comparisons of nested
/// values, positions in lists, and `LIKE` of bytes.
#[must_use]
pub fn rewrites() -> Vec<Arc<dyn FunctionRewrite + Send + Sync>> {
    vec![
        Arc::new(dates::DateParts::new(dates::scalars())),
        Arc::new(comparison::NestedComparisons),
        Arc::new(lists::Positions),
        Arc::new(text::BytesLike),
    ]
}

/// Returns the aggregate functions.
#[must_use]
pub fn aggregates() -> Vec<Arc<AggregateUDF>> {
    aggregates::aggregates()
}

/// Returns the functions that take lambdas.
#[must_use]
pub fn higher_order() -> Vec<Arc<HigherOrderUDF>> {
    lists::higher_order()
}
