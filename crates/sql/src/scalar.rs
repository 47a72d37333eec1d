//! Scalar functions that DataFusion lacks, or whose answers are not those of PostgreSQL.

mod canonical;
mod round;
mod timezone;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

pub(crate) use canonical::Canonical;
pub(crate) use round::RoundToInteger;
use timezone::TimeZoneConversion;

/// The functions that every session has beside DataFusion's.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![Arc::new(ScalarUDF::new_from_impl(TimeZoneConversion::new()))]
}
