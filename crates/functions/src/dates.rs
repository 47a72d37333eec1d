//! Functions of dates, times, timestamps and intervals.

mod age;
mod arithmetic;
mod bin;
mod bucket;
mod calendar;
mod clock;
mod difference;
mod elapsed;
mod epoch;
mod fields;
mod format;
mod intervals;
mod justify;
mod literal_operands;
mod make;
mod moment;
mod names;
mod operators;
mod parse;
mod part;
mod rewrite;
mod since_1970;
mod specifier;
mod truncate;

use std::sync::Arc;

use datafusion::logical_expr::ScalarUDF;

pub(crate) use self::arithmetic::{sum, sum_in_zone};
pub use self::clock::session_zone;
pub use self::literal_operands::LiteralOperands;
pub use self::moment::instant_of;
pub(crate) use self::moment::{DAY, local, micros};
pub use self::names::{DAYS, MONTHS};
pub(crate) use self::operators::quotient;
pub use self::operators::{IntervalOperators, date_of, moved_instant};
pub(crate) use self::rewrite::DateParts;
pub(crate) use self::since_1970::functions as since_1970;

use crate::scalar::functions;

/// Returns the functions of dates, times, timestamps and intervals.
pub(crate) fn scalars() -> Vec<Arc<ScalarUDF>> {
    let all = [
        age::FUNCTIONS,
        arithmetic::FUNCTIONS,
        bucket::FUNCTIONS,
        calendar::FUNCTIONS,
        clock::FUNCTIONS,
        difference::FUNCTIONS,
        epoch::FUNCTIONS,
        fields::FUNCTIONS,
        format::FUNCTIONS,
        intervals::FUNCTIONS,
        justify::FUNCTIONS,
        make::FUNCTIONS,
        parse::FUNCTIONS,
    ];
    all.into_iter().flat_map(functions).chain([bin::date_bin(), truncate::function()]).collect()
}
