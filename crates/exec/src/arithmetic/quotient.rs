//! Quotients of decimals, with as many digits as PostgreSQL's.
//!
//! Arrow gives a quotient four digits more after the point than the dividend has, and cuts the rest
//! off: `2.0 / 3` is 0.66666. Here it has at least 16 digits after the point where 38 digits are
//! enough for that, and is rounded: 0.6666666666666667. PostgreSQL computes 16 significant digits
//! or more (`select_div_scale` of its `numeric.c`); the type of a column here has a fixed scale.

use datafusion::arrow::array::{Array, ArrayRef, AsArray, Datum, Decimal128Array, new_null_array};
use datafusion::arrow::compute::kernels::arity::try_binary;
use datafusion::arrow::datatypes::{
    DECIMAL128_MAX_PRECISION, DataType, Decimal128Type, DecimalType as _, i256,
};
use datafusion::arrow::error::ArrowError;

/// Digits after the point of a quotient, if its type has room for them.
const SCALE: i16 = 16;
/// Minimum number of digits after the point that a quotient has in addition to its dividend's.
const SCALE_ADDED: i16 = 4;

/// Returns the type of a quotient; none if the operands are not both decimals of 128 bits.
pub(super) fn quotient_type(dividend: &DataType, divisor: &DataType) -> Option<DataType> {
    let (DataType::Decimal128(precision, scale), DataType::Decimal128(_, divisor_scale)) =
        (dividend, divisor)
    else {
        return None;
    };
    let most = i16::from(DECIMAL128_MAX_PRECISION);
    let (own, other) = (i16::from(*scale), i16::from(*divisor_scale));
    // The digits before the point of the largest dividend over the smallest divisor.
    let whole = (i16::from(*precision) - own + other).clamp(0, most);
    let least = (own + SCALE_ADDED).clamp(0, most);
    let scale = own.max(other).max(SCALE).min(most - whole).max(least);
    let precision = (whole + scale).clamp(1, most);
    Some(DataType::Decimal128(u8::try_from(precision).ok()?, i8::try_from(scale).ok()?))
}

/// Divides decimals. The result has the type `result`, of [`quotient_type`].
///
/// # Errors
/// A divisor of zero; a quotient that does not fit the type.
pub(super) fn divide(
    dividend: &dyn Datum,
    divisor: &dyn Datum,
    result: &DataType,
) -> Result<ArrayRef, ArrowError> {
    let ((dividend, _), (divisor, is_constant)) = (dividend.get(), divisor.get());
    let (DataType::Decimal128(_, own), DataType::Decimal128(_, other)) =
        (dividend.data_type(), divisor.data_type())
    else {
        return Err(ArrowError::InvalidArgumentError("quotients of decimals take decimals".into()));
    };
    let &DataType::Decimal128(precision, scale) = result else {
        return Err(ArrowError::InvalidArgumentError("quotients of decimals are decimals".into()));
    };
    let shift = i16::from(scale) - i16::from(*own) + i16::from(*other);
    let division = Division { shift, precision, scale };
    let (left, right) =
        (dividend.as_primitive::<Decimal128Type>(), divisor.as_primitive::<Decimal128Type>());
    let quotients: Decimal128Array = match (left.len(), right.len()) {
        (_, 1) if is_constant => {
            if right.is_null(0) {
                return Ok(new_null_array(result, left.len()));
            }
            let right = right.value(0);
            left.try_unary(|left| division.of(left, right))?
        }
        (1, count) if count != 1 => {
            if left.is_null(0) {
                return Ok(new_null_array(result, count));
            }
            let left = left.value(0);
            right.try_unary(|right| division.of(left, right))?
        }
        _ => try_binary(left, right, |left, right| division.of(left, right))?,
    };
    Ok(std::sync::Arc::new(quotients.with_precision_and_scale(precision, scale)?))
}

/// A division of unscaled decimals, with the precision and scale of the quotient.
struct Division {
    /// Power of ten that the dividend is multiplied by; a negative one multiplies the divisor.
    shift: i16,
    precision: u8,
    scale: i8,
}

impl Division {
    fn of(&self, dividend: i128, divisor: i128) -> Result<i128, ArrowError> {
        if divisor == 0 {
            return Err(ArrowError::DivideByZero);
        }
        let shifted = match u32::try_from(self.shift) {
            Ok(shift) => 10_i128.checked_pow(shift).and_then(|ten| dividend.checked_mul(ten)),
            Err(_) => None,
        };
        let quotient = match shifted {
            Some(dividend) => rounded(dividend, divisor),
            None => self.wide(dividend, divisor).ok_or_else(|| self.overflow())?,
        };
        let fits = Decimal128Type::validate_decimal_precision(quotient, self.precision, self.scale);
        fits.map(|()| quotient).map_err(|_| self.overflow())
    }

    /// The quotient of a dividend whose shifted value does not fit 128 bits; none if the quotient
    /// does not fit either.
    fn wide(&self, dividend: i128, divisor: i128) -> Option<i128> {
        let ten = i256::from_i128(10);
        let (mut dividend, mut divisor) = (i256::from_i128(dividend), i256::from_i128(divisor));
        let power = ten.checked_pow(u32::from(self.shift.unsigned_abs()))?;
        match self.shift < 0 {
            true => divisor = divisor.checked_mul(power)?,
            false => dividend = dividend.checked_mul(power)?,
        }
        let (quotient, rest) = (dividend.checked_div(divisor)?, dividend.checked_rem(divisor)?);
        let twice = rest.checked_abs()?.checked_mul(i256::from_i128(2))?;
        let quotient = quotient.to_i128()?;
        let is_negative = dividend.is_negative() != divisor.is_negative();
        match (twice >= divisor.checked_abs()?, is_negative) {
            (false, _) => Some(quotient),
            (true, false) => quotient.checked_add(1),
            (true, true) => quotient.checked_sub(1),
        }
    }

    fn overflow(&self) -> ArrowError {
        let (precision, scale) = (self.precision, self.scale);
        ArrowError::ArithmeticOverflow(format!(
            "the quotient has more digits than DECIMAL({precision}, {scale})"
        ))
    }
}

/// A quotient, rounded to the nearest integer, halves away from zero. The divisor is not zero.
fn rounded(dividend: i128, divisor: i128) -> i128 {
    let quotient = dividend.wrapping_div(divisor);
    let rest = dividend.wrapping_sub(quotient.wrapping_mul(divisor)).unsigned_abs();
    match (rest >= divisor.unsigned_abs() - rest, (dividend < 0) != (divisor < 0)) {
        (false, _) => quotient,
        (true, false) => quotient.wrapping_add(1),
        (true, true) => quotient.wrapping_sub(1),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::array::Scalar;

    use super::*;

    fn decimals(values: &[Option<i128>], precision: u8, scale: i8) -> Decimal128Array {
        let array = Decimal128Array::from(values.to_vec());
        array.with_precision_and_scale(precision, scale).expect("a decimal")
    }

    fn quotients(left: &dyn Datum, right: &dyn Datum) -> Result<Vec<Option<String>>, ArrowError> {
        let (of, over) = (left.get().0.data_type(), right.get().0.data_type());
        let result = quotient_type(of, over).expect("decimals");
        let array = divide(left, right, &result)?;
        let array = array.as_primitive::<Decimal128Type>();
        let text = |row| array.is_valid(row).then(|| array.value_as_string(row));
        Ok((0..array.len()).map(text).collect())
    }

    fn some(text: &str) -> Option<String> {
        Some(text.to_owned())
    }

    #[test]
    fn quotients_have_sixteen_digits_and_are_rounded() {
        let left = decimals(&[Some(20), Some(-20), Some(100), None, Some(0)], 15, 1);
        let right = Scalar::new(decimals(&[Some(3)], 20, 0));
        assert_eq!(
            quotients(&left, &right).expect("divided"),
            [
                some("0.6666666666666667"),
                some("-0.6666666666666667"),
                some("3.3333333333333333"),
                None,
                some("0.0000000000000000")
            ]
        );
        let one = Scalar::new(decimals(&[Some(1)], 1, 0));
        let over = decimals(&[Some(8), None, Some(-3)], 5, 0);
        assert_eq!(
            quotients(&one, &over).expect("divided"),
            [some("0.1250000000000000"), None, some("-0.3333333333333333")]
        );
        let nothing = Scalar::new(decimals(&[None], 1, 0));
        assert_eq!(quotients(&over, &nothing).expect("nulls"), [None, None, None]);
        assert_eq!(quotients(&nothing, &over).expect("nulls"), [None, None, None]);
    }

    #[test]
    fn quotients_fit_their_types_or_are_errors() {
        let largest = 10_i128.pow(38) - 1;
        let types =
            [((38, 2), (38, 2)), ((38, 0), (1, 0)), ((25, 2), (25, 2)), ((38, 37), (38, 0))];
        for ((precision, scale), (over_precision, over_scale)) in types {
            let left =
                decimals(&[Some(largest.min(10_i128.pow(precision.into()) - 1))], precision, scale);
            let right = decimals(&[Some(1)], over_precision, over_scale);
            // Any answer is one without a panic; the largest dividend over the smallest divisor
            // has as many digits as there can be.
            match quotients(&left, &right) {
                Ok(rows) => assert_eq!(rows.len(), 1),
                Err(error) => {
                    assert!(matches!(error, ArrowError::ArithmeticOverflow(_)), "{error}")
                }
            }
        }
        // The shifted dividend does not fit 128 bits, the quotient does.
        let left = decimals(&[Some(largest), Some(-largest)], 38, 2);
        let right = decimals(&[Some(largest), Some(largest / 2)], 38, 2);
        assert_eq!(
            quotients(&left, &right).expect("divided"),
            [some("1.000000"), some("-2.000000")]
        );
        let zero = decimals(&[Some(0), Some(1)], 5, 2);
        let divided = quotients(&zero.slice(1, 1), &zero.slice(0, 1));
        assert!(matches!(divided, Err(ArrowError::DivideByZero)));
    }
}
