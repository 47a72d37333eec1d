//! Rounding before a cast of a timestamp to a coarser unit.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray, PrimitiveArray};
use datafusion::arrow::datatypes::{
    ArrowTimestampType, DataType, TimeUnit, TimestampMicrosecondType, TimestampMillisecondType,
    TimestampNanosecondType,
};
use datafusion::common::{Result, exec_datafusion_err, internal_err};
use datafusion::logical_expr::{
    ColumnarValue, Expr, ScalarFunctionArgs, ScalarUDF, ScalarUDFImpl, Signature, Volatility,
};
use terrace_table::unary::{apply_to_one, name_of_one, type_of_one};

/// Seconds from 1970 to 2000, PostgreSQL's origin: a half is rounded away from it.
const SECONDS_TO_2000: i64 = 946_684_800;

/// Rounds the operand of a cast to `TIMESTAMP(0)` or `(3)` to a whole second or millisecond, as
/// PostgreSQL does. Arrow's cast truncates.
///
/// In a plan it has the name of its argument, so that the cast has the same name as without it.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct RoundToUnit {
    to: TimeUnit,
    signature: Signature,
}

impl RoundToUnit {
    /// The function for casts to the unit of `to`.
    pub(crate) fn function(to: &DataType) -> ScalarUDF {
        let to = match to {
            DataType::Timestamp(unit, _) => *unit,
            _ => TimeUnit::Microsecond,
        };
        let signature = Signature::any(1, Volatility::Immutable);
        ScalarUDF::new_from_impl(Self { to, signature })
    }

    /// True if a cast between these types has to round first.
    pub(crate) fn is_needed(from: &DataType, to: &DataType) -> bool {
        use TimeUnit::{Millisecond, Second};
        match (from, to) {
            (DataType::Timestamp(from, _), DataType::Timestamp(to @ (Second | Millisecond), _)) => {
                units_per_second(*from) > units_per_second(*to)
            }
            _ => false,
        }
    }
}

impl ScalarUDFImpl for RoundToUnit {
    fn name(&self) -> &str {
        "round_to_unit"
    }

    fn schema_name(&self, args: &[Expr]) -> Result<String> {
        name_of_one(self.name(), args)
    }

    fn signature(&self) -> &Signature {
        &self.signature
    }

    fn return_type(&self, arg_types: &[DataType]) -> Result<DataType> {
        type_of_one(self.name(), arg_types)
    }

    fn is_strict(&self) -> bool {
        true
    }

    fn invoke_with_args(&self, args: ScalarFunctionArgs) -> Result<ColumnarValue> {
        apply_to_one(self.name(), &args.args, |array| match array.data_type() {
            DataType::Timestamp(TimeUnit::Millisecond, _) => {
                rounded::<TimestampMillisecondType>(array, self.to)
            }
            DataType::Timestamp(TimeUnit::Microsecond, _) => {
                rounded::<TimestampMicrosecondType>(array, self.to)
            }
            DataType::Timestamp(TimeUnit::Nanosecond, _) => {
                rounded::<TimestampNanosecondType>(array, self.to)
            }
            other => internal_err!("{other} is not rounded to a unit of time"),
        })
    }
}

/// The number of units in a second.
fn units_per_second(unit: TimeUnit) -> i64 {
    match unit {
        TimeUnit::Second => 1,
        TimeUnit::Millisecond => 1_000,
        TimeUnit::Microsecond => 1_000_000,
        TimeUnit::Nanosecond => 1_000_000_000,
    }
}

fn rounded<T: ArrowTimestampType>(array: &ArrayRef, to: TimeUnit) -> Result<ArrayRef> {
    let (step, origin) = (
        units_per_second(T::UNIT) / units_per_second(to),
        SECONDS_TO_2000 * units_per_second(T::UNIT),
    );
    let round = |moment: i64| {
        let rest = moment.rem_euclid(step);
        let is_up = if moment < origin { rest > step / 2 } else { rest >= step / 2 };
        moment.checked_add(if is_up { step - rest } else { -rest })
    };
    let overflow = || exec_datafusion_err!("timestamp out of range: it cannot be rounded");
    let moments = array.as_primitive::<T>();
    let moments: PrimitiveArray<T> = match step {
        0 | 1 => moments.clone(),
        _ => moments.try_unary(|moment| round(moment).ok_or_else(overflow))?,
    };
    Ok(Arc::new(moments.with_data_type(array.data_type().clone())))
}
