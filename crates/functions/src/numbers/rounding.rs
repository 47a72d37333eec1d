//! `ceil` and `floor`.
//!
//! DataFusion's decimal results have the type of the argument, in which the next whole number may
//! not fit.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray as _};
use datafusion::arrow::datatypes::{DataType, Float64Type};
use datafusion::common::{Result, internal_datafusion_err};

use super::decimals::scale_of;
use crate::scalar::{Call, Decimal, Definition, Kind, Overload, Returns};

/// Maximum number of digits of a decimal.
const DIGITS_MAX: u8 = 38;

pub(super) const FUNCTIONS: &[Definition] =
    &[Definition::new("ceil", CEIL).alias(&["ceiling"]), Definition::new("floor", FLOOR)];

const CEIL: &[Overload] = &[
    Overload::new(&[Kind::Double], Kind::Double, |call| double(call, f64::ceil)),
    Overload::returning(&[Kind::Decimal], Returns::By(whole_type), |call| decimal(call, true)),
];

const FLOOR: &[Overload] = &[
    Overload::new(&[Kind::Double], Kind::Double, |call| double(call, f64::floor)),
    Overload::returning(&[Kind::Decimal], Returns::By(whole_type), |call| decimal(call, false)),
];

/// The result type: for a decimal a decimal without fraction and with one more digit before the
/// point, since `ceil(9.5)` is 10.
fn whole_type(arguments: &[DataType]) -> Result<DataType> {
    Ok(match arguments {
        [DataType::Decimal128(precision, scale)] if *scale > 0 => {
            let whole = precision.saturating_sub(scale.unsigned_abs()).saturating_add(1);
            DataType::Decimal128(whole.min(DIGITS_MAX), 0)
        }
        [other, ..] => other.clone(),
        [] => DataType::Float64,
    })
}

fn double(call: &Call, round: fn(f64) -> f64) -> Result<ArrayRef> {
    let numbers = call.array(0)?.as_primitive_opt::<Float64Type>();
    let numbers = numbers
        .ok_or_else(|| internal_datafusion_err!("{} got no column of numbers", call.name()))?;
    Ok(Arc::new(numbers.unary::<_, Float64Type>(round)))
}

fn decimal(call: &Call, up: bool) -> Result<ArrayRef> {
    let numbers = call.array(0)?;
    if !matches!(numbers.data_type(), DataType::Decimal128(_, 1..)) {
        return Ok(Arc::clone(numbers));
    }
    let unit = 10_i128.checked_pow(scale_of(call, 0)?).unwrap_or(i128::MAX);
    call.map1::<Decimal, Decimal>(|value| {
        let below = value.div_euclid(unit);
        Ok(Some(if up && value % unit != 0 { below + 1 } else { below }))
    })
}
