//! Functions on transaction numbers, which clients compare to detect changes.
//!
//! Rows of the catalog do not record the transaction that has written them, so `age` is 0 for all
//! numbers: a client that requests the rows younger than a transaction receives all rows.

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, plan_err};
use datafusion::logical_expr::Volatility;

use super::super::value::Value;
use super::argument::integer;
use super::call::Call;
use super::function::{Definition, Returns, strict};

/// The transaction number of rows that all transactions see (`FrozenTransactionId`).
const FROZEN: i64 = 2;
/// The number returned as the current transaction: the first one that a transaction can get.
const CURRENT: i64 = 3;

pub(super) const FUNCTIONS: &[Definition] = &[
    // A function instead of a constant: PostgreSQL's `xmin` may be compared with a parameter.
    Definition {
        volatility: Volatility::Immutable,
        ..strict("frozen_xid", (0, 0), Returns::Xid, |_, _| Ok(FROZEN.into()))
    },
    strict("txid_current", (0, 0), Returns::Int8, |_, _| Ok(CURRENT.into())),
    strict("txid_current_if_assigned", (0, 0), Returns::Int8, |_, _| Ok(Value::Null)),
    strict("pg_current_xact_id", (0, 0), Returns::Int8, |_, _| Ok(CURRENT.into())),
    strict("age", (1, 1), Returns::Int4, age),
    strict("mxid_age", (1, 1), Returns::Int4, age),
    strict("pg_blocking_pids", (1, 1), Returns::Ints, |_, _| Ok(Value::Ints(vec![]))),
];

fn age(call: &Call<'_>, arguments: &[ScalarValue]) -> Result<Value> {
    let is_time = |of: &DataType| matches!(of, DataType::Timestamp(..) | DataType::Date32);
    if call.fields.iter().any(|field| is_time(field.data_type()))
        || arguments.first().and_then(integer).is_none()
    {
        return plan_err!("age is of a transaction; that of a time is now() - time");
    }
    Ok(0.into())
}
