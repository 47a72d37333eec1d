//! `gcd` and `lcm`.
//!
//! DataFusion's `lcm` of decimals of two scales is that of their digits, and wraps around.

use datafusion::arrow::array::ArrayRef;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};

use super::decimals::{at_scale, scale_of};
use crate::scalar::{Call, Decimal, Definition, Int, Kind, Overload, Returns};

/// Maximum number of digits of a decimal.
const DIGITS_MAX: u8 = 38;

const INTEGERS: &[Kind] = &[Kind::Integer, Kind::Integer];
const DECIMALS: &[Kind] = &[Kind::Decimal, Kind::Decimal];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new(
        "gcd",
        &[
            Overload::new(INTEGERS, Kind::Integer, |call| integers(call, greatest_divisor)),
            Overload::returning(DECIMALS, Returns::By(common), |call| {
                decimals(call, greatest_divisor)
            }),
        ],
    )
    .alias(&["greatest_common_divisor"]),
    Definition::new(
        "lcm",
        &[
            Overload::new(INTEGERS, Kind::Integer, |call| integers(call, least_multiple)),
            Overload::returning(DECIMALS, Returns::By(common), |call| {
                decimals(call, least_multiple)
            }),
        ],
    )
    .alias(&["least_common_multiple"]),
];

/// The decimal of all digits with the larger scale.
fn common(arguments: &[DataType]) -> Result<DataType> {
    let scale = |of: &DataType| match of {
        DataType::Decimal128(_, scale) => *scale,
        _ => 0,
    };
    let scale = arguments.iter().map(scale).max().unwrap_or(0);
    Ok(DataType::Decimal128(DIGITS_MAX, scale.max(0)))
}

fn greatest_divisor(mut left: i128, mut right: i128) -> Option<i128> {
    while right != 0 {
        (left, right) = (right, left.checked_rem(right)?);
    }
    left.checked_abs()
}

fn least_multiple(left: i128, right: i128) -> Option<i128> {
    match greatest_divisor(left, right)? {
        0 => Some(0),
        divisor => (left / divisor).checked_mul(right)?.checked_abs(),
    }
}

fn out_of_range(call: &Call) -> DataFusionError {
    exec_datafusion_err!("the result of {} is out of range", call.name())
}

fn integers(call: &Call, of: fn(i128, i128) -> Option<i128>) -> Result<ArrayRef> {
    call.map2::<Int, Int, Int>(|left, right| {
        let result = of(left.into(), right.into()).and_then(|result| i64::try_from(result).ok());
        result.map(Some).ok_or_else(|| out_of_range(call))
    })
}

fn decimals(call: &Call, of: fn(i128, i128) -> Option<i128>) -> Result<ArrayRef> {
    let (left_scale, right_scale) = (scale_of(call, 0)?, scale_of(call, 1)?);
    let scale = left_scale.max(right_scale);
    let limit = 10_i128.pow(u32::from(DIGITS_MAX));
    call.map2::<Decimal, Decimal, Decimal>(|left, right| {
        let left = at_scale(left, left_scale, scale);
        let right = at_scale(right, right_scale, scale);
        let result = left.zip(right).and_then(|(left, right)| of(left, right));
        let result = result.filter(|result| *result < limit);
        result.map(Some).ok_or_else(|| out_of_range(call))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Values of PostgreSQL 15.
    #[test]
    fn multiples_do_not_wrap_around() {
        assert_eq!(least_multiple(725, 50), Some(1450));
        assert_eq!(least_multiple(0, 5), Some(0));
        assert_eq!(least_multiple(-4, 6), Some(12));
        assert_eq!(least_multiple(i128::MAX, 2), None);
        assert_eq!(greatest_divisor(-12, 18), Some(6));
        assert_eq!(greatest_divisor(0, 0), Some(0));
    }
}
