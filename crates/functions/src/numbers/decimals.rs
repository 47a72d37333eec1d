//! Scales of decimals, and the factorial.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, exec_err, internal_err};

use crate::scalar::{Call, Decimal, Definition, Int, Int32, Kind, Overload, Returns};

const DECIMAL: &[Kind] = &[Kind::Decimal];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new("scale", &[Overload::returning(DECIMAL, Returns::Integer32, scale)]),
    Definition::new("min_scale", &[Overload::returning(DECIMAL, Returns::Integer32, min_scale)]),
    Definition::new("factorial", &[Overload::new(&[Kind::Integer], Kind::Decimal, factorial)]),
];

/// The digits behind the point of an argument's type.
pub(super) fn scale_of(call: &Call, argument: usize) -> Result<u32> {
    match call.array(argument)?.data_type() {
        DataType::Decimal128(_, scale) => Ok(u32::from(scale.unsigned_abs())),
        other => internal_err!("{} got {other} for a decimal", call.name()),
    }
}

/// A decimal with more digits behind the point; `None` if it is out of range.
pub(super) fn at_scale(value: i128, from: u32, to: u32) -> Option<i128> {
    value.checked_mul(10_i128.checked_pow(to.checked_sub(from)?)?)
}

fn scale(call: &Call) -> Result<ArrayRef> {
    let scale = i32::try_from(scale_of(call, 0)?).ok();
    call.map1::<Decimal, Int32>(|_| Ok(scale))
}

/// The digits behind the point of a value without zeros at its end.
fn min_scale(call: &Call) -> Result<ArrayRef> {
    let scale = scale_of(call, 0)?;
    call.map1::<Decimal, Int32>(|value| {
        let is_whole = |digits: &u32| {
            let unit = 10_i128.checked_pow(scale - digits);
            unit.is_some_and(|unit| value % unit == 0)
        };
        Ok((0..=scale).find(is_whole).and_then(|digits| i32::try_from(digits).ok()))
    })
}

fn factorial(call: &Call) -> Result<ArrayRef> {
    call.map1::<Int, Decimal>(|number| match number {
        ..0 => exec_err!("factorial of a negative number is undefined"),
        0..=33 => Ok(Some((1..=i128::from(number)).product())),
        _ => exec_err!("factorial({number}) has more than 38 digits; the last with less is 33"),
    })
}
