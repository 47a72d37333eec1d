//! Aggregate functions that replace those of DataFusion that return wrong results or refuse a use.
//!
//! | function | DataFusion 55 | here |
//! |---|---|---|
//! | `sum` of integers, decimals, durations | wraps around | an error if it does not fit |
//! | `sum`, `avg` of truth values | refused | 1 for each that is true, else 0 |
//! | `avg` of integers | adds doubles, in the order of rows | exact, rounded once |
//! | `avg` of decimals | few digits, the rest is cut off; wraps around | 16 digits, rounded |
//! | `min`, `max` of floats | depend on the order of rows if one is NaN | NaN is above infinity |
//! | `DISTINCT` over floats | by bits | zeros are equal, NaNs are equal |
//! | floats over sliding frames | subtracts rows that leave | never subtracts |
//! | `bit_and`, `bool_or` over sliding frames | refused | rows aggregated again |
//! | `DISTINCT` lists in opposite orders | one is returned backwards | each in its own order |
//! | `string_agg` in several orders side by side | refused | each in its own order |
//!
//! A [`SqlAggregate`] is DataFusion's function with other accumulators. Everything else (names,
//! types, answers to optimizer rules) is unchanged. [`aggregates`] returns those that a session
//! registers; `stock` returns the DataFusion function behind one.

mod adapter;
mod canonical;
mod difference;
mod extreme;
mod sliding;
mod sum;
mod text_limit;
mod wide;

use std::sync::Arc;

use datafusion::functions_aggregate as functions;
use datafusion::logical_expr::AggregateUDF;

pub use adapter::SqlAggregate;
pub(crate) use difference::{Kind, is_list};
pub(crate) use wide::{Wide, array, natives, out_of_range, state_type};

/// Returns the functions; each has the name of the DataFusion function that it replaces.
#[must_use]
pub fn aggregates() -> Vec<Arc<AggregateUDF>> {
    let pairs = [
        (functions::sum::sum_udaf(), Kind::Sum),
        (functions::average::avg_udaf(), Kind::Average),
        (functions::min_max::min_udaf(), Kind::Min),
        (functions::min_max::max_udaf(), Kind::Max),
        (functions::count::count_udaf(), Kind::Distinct),
        (functions::array_agg::array_agg_udaf(), Kind::Distinct),
        (functions::string_agg::string_agg_udaf(), Kind::Distinct),
        (functions::median::median_udaf(), Kind::Distinct),
        (functions::percentile_cont::percentile_cont_udaf(), Kind::Distinct),
    ];
    let moments = [
        functions::variance::var_samp_udaf(),
        functions::variance::var_pop_udaf(),
        functions::stddev::stddev_udaf(),
        functions::stddev::stddev_pop_udaf(),
        functions::covariance::covar_samp_udaf(),
        functions::covariance::covar_pop_udaf(),
        functions::correlation::corr_udaf(),
        functions::regr::regr_slope_udaf(),
        functions::regr::regr_intercept_udaf(),
        functions::regr::regr_r2_udaf(),
        functions::regr::regr_avgx_udaf(),
        functions::regr::regr_avgy_udaf(),
        functions::regr::regr_sxx_udaf(),
        functions::regr::regr_syy_udaf(),
        functions::regr::regr_sxy_udaf(),
    ];
    let moments = moments.into_iter().map(|stock| (stock, Kind::Moving));
    let logical = [
        functions::bit_and_or_xor::bit_and_udaf(),
        functions::bit_and_or_xor::bit_or_udaf(),
        functions::bool_and_or::bool_and_udaf(),
        functions::bool_and_or::bool_or_udaf(),
    ];
    let logical = logical.into_iter().map(|stock| (stock, Kind::Logical));
    let of = |(stock, kind): (Arc<AggregateUDF>, _)| Arc::new(SqlAggregate::over(&stock, kind));
    pairs.into_iter().chain(moments).chain(logical).map(of).collect()
}

/// Returns the DataFusion function that `function` replaces, or `function` itself if it is none of
/// [`aggregates`].
pub(crate) fn stock(function: &AggregateUDF) -> &AggregateUDF {
    match function.inner().downcast_ref::<SqlAggregate>() {
        Some(own) => own.stock(),
        None => function,
    }
}

/// Returns the difference of `function` from DataFusion's; `None` if it is none of [`aggregates`].
pub(crate) fn kind(function: &AggregateUDF) -> Option<Kind> {
    function.inner().downcast_ref::<SqlAggregate>().map(SqlAggregate::kind)
}
