//! Rewrites of `AT TIME ZONE`, and of `date_trunc` in a time zone, as calls of `timezone`.
//!
//! ```text
//! x AT TIME ZONE z           timezone(z, x)
//! date_trunc('day', x, z)    timezone(z, date_trunc('day', timezone(z, x::timestamptz)))
//! ```

use std::mem;

use datafusion::sql::sqlparser::ast::{DataType, Expr, TimezoneInfo, Value};

use super::super::dialect::{arguments, call, cast, is_call_of};

/// Rewrites an expression; leaves any other one unchanged.
pub(super) fn write_out(expr: &mut Expr) {
    let null = || Expr::Value(Value::Null.into());
    let written = match expr {
        Expr::AtTimeZone { timestamp, time_zone } => {
            let zone = mem::replace(time_zone.as_mut(), null());
            Some(call("timezone", [zone, mem::replace(timestamp.as_mut(), null())]))
        }
        Expr::Function(function) if is_call_of(function, "date_trunc") => {
            match arguments(function).as_deref_mut() {
                Some([unit, moment, zone]) => {
                    let with_zone = DataType::Timestamp(None, TimezoneInfo::Tz);
                    let instant = cast(mem::replace(*moment, null()), with_zone);
                    let zone = mem::replace(*zone, null());
                    let local = call("timezone", [zone.clone(), instant]);
                    let begin = call("date_trunc", [mem::replace(*unit, null()), local]);
                    Some(call("timezone", [zone, begin]))
                }
                _ => None,
            }
        }
        _ => None,
    };
    if let Some(written) = written {
        *expr = written;
    }
}
