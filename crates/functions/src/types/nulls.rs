//! `num_nulls`, `num_nonnulls`, `constant_or_null` and `error`.

use datafusion::arrow::array::{ArrayRef, UInt32Array, new_null_array};
use datafusion::arrow::compute::take;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err};

use crate::scalar::{Call, Definition, Int32, Kind, Overload, Returns, Text};

const ANY: &[Kind] = &[Kind::Any];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new(
        "num_nulls",
        &[Overload::returning(ANY, Returns::Integer32, nulls).followed_by(Kind::Any)],
    ),
    Definition::new(
        "num_nonnulls",
        &[Overload::returning(ANY, Returns::Integer32, values).followed_by(Kind::Any)],
    ),
    Definition::new(
        "constant_or_null",
        &[Overload::returning(&[Kind::Any, Kind::Any], Returns::By(first), constant_or_null)
            .followed_by(Kind::Any)],
    ),
    // Volatile, so that the planner does not evaluate it.
    Definition::new("error", &[Overload::returning(&[Kind::Text], Returns::By(null), error)])
        .volatile(),
];

fn first(types: &[DataType]) -> Result<DataType> {
    Ok(types.first().cloned().unwrap_or(DataType::Null))
}

fn null(_: &[DataType]) -> Result<DataType> {
    Ok(DataType::Null)
}

fn nulls(call: &Call) -> Result<ArrayRef> {
    counted(call, true)
}

fn values(call: &Call) -> Result<ArrayRef> {
    counted(call, false)
}

fn counted(call: &Call, is_null: bool) -> Result<ArrayRef> {
    call.rows_of::<Int32>(|row| {
        let mut count = 0;
        for argument in 0..call.len() {
            count += i32::from(call.is_null(argument, row)? == is_null);
        }
        Ok(Some(count))
    })
}

/// The first argument, or null where another is null.
fn constant_or_null(call: &Call) -> Result<ArrayRef> {
    let is_constant = call.is_constant(0)?;
    let place = |row: usize| -> Result<Option<u32>> {
        for argument in 0..call.len() {
            if call.is_null(argument, row)? {
                return Ok(None);
            }
        }
        // A batch has less than 2^32 rows.
        Ok(u32::try_from(if is_constant { 0 } else { row }).ok())
    };
    let places = (0..call.rows()).map(place).collect::<Result<UInt32Array>>()?;
    Ok(take(call.array(0)?, &places, None)?)
}

/// Fails with a text as its message, unless that is null.
fn error(call: &Call) -> Result<ArrayRef> {
    for row in 0..call.rows() {
        if let Some(message) = call.value::<Text>(0, row)? {
            return exec_err!("{message}");
        }
    }
    Ok(new_null_array(&DataType::Null, call.rows()))
}
