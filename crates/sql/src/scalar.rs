//! Scalar functions that DataFusion lacks, or whose results differ from PostgreSQL's.

mod bytes;
mod float_range;
mod identity;
mod moments;
mod nullable;
mod round;
mod round_to_unit;
mod single_row;
mod sleep;
mod templates;
mod timezone;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

pub(crate) use bytes::BytesOfText;
pub(crate) use float_range::InFloatRange;
pub(crate) use identity::Identity;
pub(crate) use moments::MomentOfText;
pub(crate) use nullable::Nullable;
pub(crate) use round::RoundToInteger;
pub(crate) use round_to_unit::RoundToUnit;
pub(crate) use single_row::SingleRow;
pub(crate) use templates::parsing;
use templates::{ToChar, ToNumber};
pub(crate) use terrace_table::canonical::Canonical;
pub(crate) use timezone::TimeZoneConversion;

/// The scalar functions of every session, in addition to DataFusion's or in place of them.
pub(crate) fn functions() -> Vec<Arc<ScalarUDF>> {
    vec![
        Arc::new(ScalarUDF::new_from_impl(TimeZoneConversion::new())),
        Arc::new(ScalarUDF::new_from_impl(ToChar::new())),
        Arc::new(ScalarUDF::new_from_impl(ToNumber::new())),
        sleep::function(),
    ]
}
