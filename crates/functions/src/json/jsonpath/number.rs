//! Arithmetic of JSON numbers, with the digits of PostgreSQL's `numeric`.

use std::cmp::Ordering;
use std::fmt;

use super::super::value::{amount, parts};
use super::syntax::Operator;

/// Minimum number of significant digits of a quotient in PostgreSQL.
const QUOTIENT_DIGITS: i64 = 16;
/// Number of decimal digits in one group of PostgreSQL's `numeric`, which has base 10,000.
const GROUP: i64 = 4;
/// Maximum number of digits behind the point.
const SCALE_MAX: u32 = 1_000;
/// Number of significant decimal digits that every double preserves.
const DOUBLE_DIGITS: usize = 15;

/// A decimal number of up to 38 digits: `units` divided by 10 to the power of `scale`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Number {
    units: i128,
    scale: u32,
}

impl Number {
    /// The number of a word of JSON; `None` if it has more than 38 digits.
    pub(super) fn of(word: &str) -> Option<Self> {
        let (is_negative, whole, fraction, exponent) = parts(word)?;
        let digits = format!("{whole}{fraction}");
        let units: i128 = match digits.trim_start_matches('0') {
            "" => 0,
            digits => digits.parse().ok()?,
        };
        let units = if is_negative { -units } else { units };
        let scale = i64::try_from(fraction.len()).ok()?.checked_sub(exponent)?;
        match u32::try_from(scale) {
            Ok(scale) if scale <= SCALE_MAX => Some(Self { units, scale }),
            Ok(_) => None,
            Err(_) => {
                let power = u32::try_from(scale.checked_neg()?).ok()?;
                Some(Self { units: units.checked_mul(ten(power)?)?, scale: 0 })
            }
        }
    }

    pub(super) fn of_integer(integer: i128) -> Self {
        Self { units: integer, scale: 0 }
    }

    /// The result of an operator; `None` if it has more than 38 digits, or for a division by zero.
    pub(super) fn apply(self, operator: Operator, other: Self) -> Option<Self> {
        match operator {
            Operator::Multiply => {
                let scale = self.scale + other.scale;
                let units = self.units.checked_mul(other.units)?;
                (scale <= SCALE_MAX).then_some(Self { units, scale })
            }
            Operator::Divide => self.quotient(other),
            Operator::Add | Operator::Subtract | Operator::Remainder => {
                let scale = self.scale.max(other.scale);
                let (left, right) = (self.at_scale(scale)?, other.at_scale(scale)?);
                let units = match operator {
                    Operator::Add => left.checked_add(right)?,
                    Operator::Subtract => left.checked_sub(right)?,
                    _ => left.checked_rem(right)?,
                };
                Some(Self { units, scale })
            }
        }
    }

    pub(super) fn is_zero(self) -> bool {
        self.units == 0
    }

    fn at_scale(self, scale: u32) -> Option<i128> {
        self.units.checked_mul(ten(scale.checked_sub(self.scale)?)?)
    }

    /// The quotient, with at least 16 significant digits.
    fn quotient(self, other: Self) -> Option<Self> {
        let ((weight, first), (divisor_weight, divisor_first)) = (self.first(), other.first());
        let weight = weight - divisor_weight - i64::from(first <= divisor_first);
        let scale = (QUOTIENT_DIGITS - weight * GROUP).max(0);
        let scale = u32::try_from(scale).ok()?.max(self.scale).max(other.scale).min(SCALE_MAX);
        let numerator = self.units.checked_mul(ten(scale + other.scale - self.scale)?)?;
        let (quotient, rest) =
            (numerator.checked_div(other.units)?, numerator.checked_rem(other.units)?);
        let is_up = rest.unsigned_abs() >= other.units.unsigned_abs().div_ceil(2);
        let sign = numerator.signum() * other.units.signum();
        let units = if is_up && rest != 0 { quotient.checked_add(sign)? } else { quotient };
        Some(Self { units, scale })
    }

    /// The first base-10,000 digit, as `numeric` stores numbers: its exponent and its value.
    fn first(self) -> (i64, u32) {
        if self.units == 0 {
            return (0, 0);
        }
        let digits = self.units.unsigned_abs().to_string();
        let power = i64::try_from(digits.len()).unwrap_or(0) - 1 - i64::from(self.scale);
        let weight = power.div_euclid(GROUP);
        let count = usize::try_from(power - weight * GROUP + 1).unwrap_or(1);
        let first: String = digits.chars().chain("0000".chars()).take(count).collect();
        (weight, first.parse().unwrap_or(0))
    }

    /// The next integer at or above the number, or at or below it.
    pub(super) fn rounded(self, is_up: bool) -> Option<Self> {
        let unit = ten(self.scale)?;
        let below = self.units.div_euclid(unit);
        let has_rest = self.units.rem_euclid(unit) != 0;
        Some(Self::of_integer(below + i128::from(is_up && has_rest)))
    }

    /// The integer without the digits behind the point.
    pub(super) fn truncated(self) -> i128 {
        ten(self.scale).map_or(0, |unit| self.units / unit)
    }
}

fn ten(power: u32) -> Option<i128> {
    10_i128.checked_pow(power)
}

impl fmt::Display for Number {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scale = usize::try_from(self.scale).unwrap_or(0);
        let digits = format!("{:0>width$}", self.units.unsigned_abs(), width = scale + 1);
        let (whole, fraction) = digits.split_at(digits.len() - scale);
        let sign = if self.units < 0 { "-" } else { "" };
        let point = if scale == 0 { "" } else { "." };
        write!(f, "{sign}{whole}{point}{fraction}")
    }
}

/// The order of two numbers of any length.
pub(super) fn order(left: &str, right: &str) -> Option<Ordering> {
    let (left, right) = (amount(left)?, amount(right)?);
    let sign =
        |(is_negative, digits, _): &(bool, String, i64)| match (digits.is_empty(), is_negative) {
            (true, _) => 0,
            (false, true) => -1,
            (false, false) => 1,
        };
    let (signs, is_negative) = (sign(&left).cmp(&sign(&right)), left.0);
    if signs.is_ne() || left.1.is_empty() {
        return Some(signs);
    }
    let order = left.2.cmp(&right.2).then_with(|| left.1.cmp(&right.1));
    Some(if is_negative { order.reverse() } else { order })
}

/// The absolute value of a number if `is_kept`, else the negated number.
pub(super) fn with_sign(word: &str, is_kept: bool) -> String {
    let is_zero = amount(word).is_some_and(|(_, digits, _)| digits.is_empty());
    match word.strip_prefix('-') {
        Some(digits) => digits.to_owned(),
        None if is_kept || is_zero => word.to_owned(),
        None => format!("-{word}"),
    }
}

/// Parses a text as a double, and returns it as a JSON number of 15 digits; `None` for any other
/// text.
pub(super) fn of_double(text: &str) -> Option<String> {
    let text = text.trim_matches(|c: char| c.is_ascii_whitespace());
    let value: f64 = text.parse().ok().filter(|value: &f64| value.is_finite())?;
    let scientific = format!("{value:.*e}", DOUBLE_DIGITS - 1);
    let (mantissa, exponent) = scientific.split_once('e')?;
    let mantissa = match mantissa.contains('.') {
        true => mantissa.trim_end_matches('0').trim_end_matches('.'),
        false => mantissa,
    };
    Some(if value == 0.0 { "0".to_owned() } else { format!("{mantissa}e{exponent}") })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(left: &str, operator: Operator, right: &str) -> String {
        let number = |word: &str| Number::of(word).expect(word);
        let result = number(left).apply(operator, number(right));
        result.map_or_else(|| "none".to_owned(), |number| number.to_string())
    }

    /// The results of PostgreSQL 15.
    #[test]
    fn arithmetic_is_that_of_numeric() {
        assert_eq!(of("10", Operator::Divide, "3"), "3.3333333333333333");
        assert_eq!(of("1", Operator::Divide, "3"), "0.33333333333333333333");
        assert_eq!(of("2", Operator::Divide, "3"), "0.66666666666666666667");
        assert_eq!(of("-7", Operator::Divide, "2"), "-3.5000000000000000");
        assert_eq!(of("10", Operator::Remainder, "3"), "1");
        assert_eq!(of("-7.5", Operator::Remainder, "2"), "-1.5");
        assert_eq!(of("1.50", Operator::Multiply, "2.0"), "3.000");
        assert_eq!(of("1e2", Operator::Subtract, "0.5"), "99.5");
        assert_eq!(of("1.5e-3", Operator::Add, "1"), "1.0015");
        assert_eq!(of("1", Operator::Divide, "0"), "none");
        assert_eq!(of(&"9".repeat(38), Operator::Multiply, "10"), "none");
    }

    #[test]
    fn numbers_of_any_length_have_an_order() {
        let long = "9".repeat(50);
        assert_eq!(order(&long, "1"), Some(Ordering::Greater));
        assert_eq!(order("-2", "-10"), Some(Ordering::Greater));
        assert_eq!(order("1.0", "1e0"), Some(Ordering::Equal));
        assert_eq!(order("0.5", "0.25"), Some(Ordering::Greater));
        assert_eq!(order("-1", "0"), Some(Ordering::Less));
    }

    #[test]
    fn texts_of_doubles_are_numbers() {
        assert_eq!(of_double(" 1.12345678901234567 ").as_deref(), Some("1.12345678901235e0"));
        assert_eq!(of_double("12").as_deref(), Some("1.2e1"));
        assert_eq!(of_double("-0").as_deref(), Some("0"));
        assert_eq!(of_double("inf"), None);
        assert_eq!(of_double("1x"), None);
        assert_eq!(Number::of("-1.5").and_then(|it| it.rounded(true)), Number::of("-1"));
        assert_eq!(Number::of("-1.5").and_then(|it| it.rounded(false)), Number::of("-2"));
    }
}
