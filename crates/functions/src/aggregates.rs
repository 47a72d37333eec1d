//! Aggregate functions of PostgreSQL and DuckDB.
//!
//! | function | state of a group |
//! |---|---|
//! | `mode`, `quantile_disc`, `mad`, `entropy`, `histogram`, any with DISTINCT | its values |
//! | `max(x, n)`, `min(x, n)`, `arg_max(x, y, n)`, `arg_min(x, y, n)` | `n` values |
//! | `arg_max(x, y)`, `arg_min(x, y)`, `any_value(x)` | one row |
//! | `product`, `fsum`, `skewness`, `kurtosis` | five numbers |
//!
//! A state that consists of all values is a list, and its field has the metadata key
//! [`KEEPS_VALUES`], so that an engine may spill it in pieces. Aliases of functions, and functions
//! composed of others, are planned by [`Spellings`].

mod constant;
mod definition;
mod deviation;
mod distinct;
mod factory;
mod floats;
mod formula;
mod frame;
mod frequency;
mod greatest;
mod intervals;
mod mode;
mod moments;
mod quantile;
mod row_choice;
mod single;
mod sorted;
mod spellings;
mod values;

use std::sync::Arc;

use datafusion::logical_expr::AggregateUDF;

use definition::Function;
use deviation::Deviation;
pub use factory::KEEPS_VALUES;
pub(crate) use floats::canonical;
use formula::{CompensatedSum, PopulationKurtosis, Product, SampleKurtosis, Skewness};
use frequency::{Entropy, Histogram};
use greatest::Greatest;
pub use intervals::INTERVAL_AVERAGE;
use intervals::IntervalAverage;
use mode::Mode;
use moments::Numeric;
use quantile::{Continuous, Discrete};
use row_choice::{AnyValue, RowChoice};
pub use spellings::Spellings;

/// Returns the aggregate functions of this crate, and the names that [`Spellings`] plans.
pub(crate) fn aggregates() -> Vec<Arc<AggregateUDF>> {
    let choice = |name, aliases, descending, takes_null_values| {
        Function::of(RowChoice { name, aliases, descending, takes_null_values })
    };
    let mut functions = vec![
        Function::of(Mode),
        Function::of(Discrete),
        Function::of(Continuous),
        Function::of(Deviation),
        Function::of(Entropy),
        Function::of(Histogram),
        Function::of(Greatest { name: "max_n", descending: true }),
        Function::of(Greatest { name: "min_n", descending: false }),
        choice("arg_max", &["max_by", "argmax"], true, false),
        choice("arg_min", &["min_by", "argmin"], false, false),
        choice("arg_max_null", &[], true, true),
        choice("arg_min_null", &[], false, true),
        Function::of(AnyValue),
        Function::of(IntervalAverage),
        Function::of(Numeric::<Product>::new("product", &[])),
        Function::of(Numeric::<CompensatedSum>::new("fsum", &["kahan_sum", "sumkahan"])),
        Function::of(Numeric::<Skewness>::new("skewness", &[])),
        Function::of(Numeric::<SampleKurtosis>::new("kurtosis", &[])),
        Function::of(Numeric::<PopulationKurtosis>::new("kurtosis_pop", &[])),
    ];
    functions.extend(spellings::names());
    functions
}
