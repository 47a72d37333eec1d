//! Quotients and remainders.

use datafusion::arrow::array::{ArrayRef, Datum, Scalar};
use datafusion::arrow::compute::kernels::numeric::rem;
use datafusion::arrow::datatypes::DataType;
use datafusion::common::{DataFusionError, Result, exec_datafusion_err};
use datafusion::logical_expr::Operator;
use datafusion::logical_expr::type_coercion::binary::BinaryTypeCoercer;

use super::decimals::{at_scale, scale_of};
use crate::scalar::{Call, Decimal, Definition, Double, Int, Kind, Overload, Returns};

const INTEGERS: &[Kind] = &[Kind::Integer, Kind::Integer];
const DECIMALS: &[Kind] = &[Kind::Decimal, Kind::Decimal];
const DOUBLES: &[Kind] = &[Kind::Double, Kind::Double];

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new(
        "mod",
        &[
            Overload::new(INTEGERS, Kind::Integer, mod_integers),
            Overload::returning(DECIMALS, Returns::By(remainder_type), mod_decimals),
            Overload::new(DOUBLES, Kind::Double, mod_doubles),
        ],
    ),
    Definition::new(
        "div",
        &[
            Overload::new(INTEGERS, Kind::Integer, div_integers),
            Overload::new(DECIMALS, Kind::Decimal, div_decimals),
            Overload::new(DOUBLES, Kind::Double, div_doubles),
        ],
    ),
    Definition::new(
        "divide",
        &[
            Overload::new(INTEGERS, Kind::Integer, div_integers),
            Overload::new(DOUBLES, Kind::Double, divide_doubles),
        ],
    ),
    Definition::new("fdiv", &[Overload::new(DOUBLES, Kind::Double, floor_quotient)]),
    Definition::new("fmod", &[Overload::new(DOUBLES, Kind::Double, floor_remainder)]),
];

fn zero() -> DataFusionError {
    exec_datafusion_err!("division by zero")
}

fn out_of_range() -> DataFusionError {
    exec_datafusion_err!("numeric value out of range")
}

fn mod_integers(call: &Call) -> Result<ArrayRef> {
    call.map2::<Int, Int, Int>(|left, right| match right {
        0 => Err(zero()),
        _ => Ok(Some(left.wrapping_rem(right))),
    })
}

fn mod_doubles(call: &Call) -> Result<ArrayRef> {
    call.map2::<Double, Double, Double>(|left, right| match right {
        0.0 => Err(zero()),
        _ => Ok(Some(left % right)),
    })
}

fn remainder_type(types: &[DataType]) -> Result<DataType> {
    match types {
        [left, right] => BinaryTypeCoercer::new(left, &Operator::Modulo, right).get_result_type(),
        _ => Ok(DataType::Null),
    }
}

fn mod_decimals(call: &Call) -> Result<ArrayRef> {
    let side = |argument: usize| -> Result<Box<dyn Datum>> {
        let array = ArrayRef::clone(call.array(argument)?);
        Ok(match call.is_constant(argument)? && call.rows() != 1 {
            true => Box::new(Scalar::new(array)),
            false => Box::new(array),
        })
    };
    Ok(rem(&*side(0)?, &*side(1)?)?)
}

fn div_integers(call: &Call) -> Result<ArrayRef> {
    call.map2::<Int, Int, Int>(|left, right| match right {
        0 => Err(zero()),
        _ => left.checked_div(right).map(Some).ok_or_else(out_of_range),
    })
}

fn div_doubles(call: &Call) -> Result<ArrayRef> {
    call.map2::<Double, Double, Double>(|left, right| match right {
        0.0 => Err(zero()),
        _ => Ok(Some((left / right).trunc())),
    })
}

/// Quotients without their fractions.
fn div_decimals(call: &Call) -> Result<ArrayRef> {
    let (left_scale, right_scale) = (scale_of(call, 0)?, scale_of(call, 1)?);
    let scale = left_scale.max(right_scale);
    call.map2::<Decimal, Decimal, Decimal>(|left, right| {
        if right == 0 {
            return Err(zero());
        }
        let left = at_scale(left, left_scale, scale).ok_or_else(out_of_range)?;
        let right = at_scale(right, right_scale, scale).ok_or_else(out_of_range)?;
        left.checked_div(right).map(Some).ok_or_else(out_of_range)
    })
}

fn divide_doubles(call: &Call) -> Result<ArrayRef> {
    call.map2::<Double, Double, Double>(|left, right| match right {
        0.0 => Err(zero()),
        _ => Ok(Some(left / right)),
    })
}

fn floor_quotient(call: &Call) -> Result<ArrayRef> {
    call.map2::<Double, Double, Double>(|left, right| match right {
        0.0 => Err(zero()),
        _ => Ok(Some((left / right).floor())),
    })
}

fn floor_remainder(call: &Call) -> Result<ArrayRef> {
    call.map2::<Double, Double, Double>(|left, right| match right {
        0.0 => Err(zero()),
        _ => Ok(Some(left - right * (left / right).floor())),
    })
}
