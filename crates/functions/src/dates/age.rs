//! `age`, the difference of two timestamps in years, months, days and time, as in PostgreSQL.

use chrono::{Datelike as _, NaiveDateTime};
use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::IntervalMonthDayNano;
use datafusion::common::{Result, exec_datafusion_err};
use datafusion::logical_expr::Expr;
use datafusion::logical_expr::simplify::{ExprSimplifyResult, SimplifyContext};

use super::clock::{midnight, unplanned};
use super::moment::{DAY, local, micros, month_end, months};
use crate::scalar::{Call, Definition, Int, Interval, Kind, Overload, Timestamp, functions};

pub(super) const FUNCTIONS: &[Definition] = &[Definition::new(
    "age",
    &[
        Overload::new(&[Kind::Timestamp, Kind::Timestamp], Kind::Interval, age),
        Overload::new(&[Kind::Timestamp], Kind::Interval, unplanned),
        Overload::new(&[Kind::Integer], Kind::Integer, of_transaction),
    ],
)
.stable(with_today)];

/// Rewrites `age(x)` of a timestamp to `age(today, x)`, with midnight of the statement's day.
fn with_today(mut args: Vec<Expr>, info: &SimplifyContext) -> Result<ExprSimplifyResult> {
    let is_of_transaction = match args.as_slice() {
        [arg] => info.get_data_type(arg)?.is_integer(),
        _ => return Ok(ExprSimplifyResult::Original(args)),
    };
    if is_of_transaction {
        return Ok(ExprSimplifyResult::Original(args));
    }
    let Some(begun) = info.query_execution_start_time() else {
        return Ok(ExprSimplifyResult::Original(args));
    };
    let today = midnight(begun, info.config_options())?;
    let function = functions(FUNCTIONS).into_iter().find(|function| function.name() == "age");
    match (function, args.pop()) {
        (Some(function), Some(arg)) => {
            Ok(ExprSimplifyResult::Simplified(function.call(vec![today, arg])))
        }
        (_, arg) => Ok(ExprSimplifyResult::Original(arg.into_iter().collect())),
    }
}

/// `age(xid)`, the age of a transaction id, which PostgreSQL's clients query: always 0 here.
fn of_transaction(call: &Call) -> Result<ArrayRef> {
    call.map1::<Int, Int>(|_| Ok(Some(0)))
}

fn age(call: &Call) -> Result<ArrayRef> {
    call.map2::<Timestamp, Timestamp, Interval>(|end, begin| {
        Ok(Some(between(local(end)?, local(begin)?).interval()?))
    })
}

/// A difference of two local times, all of one sign.
#[derive(Clone, Copy, Debug)]
pub(super) struct Age {
    pub(super) months: i64,
    pub(super) days: i64,
    pub(super) micros: i64,
}

impl Age {
    fn interval(self) -> Result<IntervalMonthDayNano> {
        let out_of_range = || exec_datafusion_err!("an age is out of range");
        let months = i32::try_from(self.months).map_err(|_| out_of_range())?;
        let days = i32::try_from(self.days).map_err(|_| out_of_range())?;
        // Less than a day, whose nanoseconds fit.
        Ok(IntervalMonthDayNano::new(months, days, self.micros * 1_000))
    }
}

/// The time from `begin` to `end`: whole months, then days, then the rest. A month has the days of
/// the month in which the earlier of both lies.
pub(super) fn between(end: NaiveDateTime, begin: NaiveDateTime) -> Age {
    let is_back = end < begin;
    let (late, early) = if is_back { (begin, end) } else { (end, begin) };
    let time_of_day = |time: NaiveDateTime| micros(time).rem_euclid(DAY);
    let mut months = months(late.date()) - months(early.date());
    let mut days = i64::from(late.day()) - i64::from(early.day());
    let mut rest = time_of_day(late) - time_of_day(early);
    if rest < 0 {
        rest += DAY;
        days -= 1;
    }
    while days < 0 {
        days += i64::from(month_end(early.date()));
        months -= 1;
    }
    let sign = if is_back { -1 } else { 1 };
    Age { months: sign * months, days: sign * days, micros: sign * rest }
}
