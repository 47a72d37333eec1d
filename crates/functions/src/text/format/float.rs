//! Floating-point numbers as C's `printf` writes them.

use super::layout::Layout;

/// Digits behind the point without a precision.
const PRECISION: usize = 6;

/// A number by the conversion `e`, `f` or `g`, or as the shortest text that denotes it.
pub(super) fn float(value: f64, layout: &Layout, conversion: char) -> String {
    let magnitude = value.abs();
    let precision = layout.precision.unwrap_or(PRECISION);
    let mut digits = match conversion.to_ascii_lowercase() {
        _ if !value.is_finite() => if value.is_nan() { "nan" } else { "inf" }.to_owned(),
        'e' => exponent(&format!("{magnitude:.precision$e}")),
        'f' => format!("{magnitude:.precision$}"),
        'g' => general(magnitude, precision),
        _ => match layout.precision {
            Some(precision) => general(magnitude, precision),
            None => exponent(&format!("{magnitude:?}")),
        },
    };
    if conversion.is_ascii_uppercase() {
        digits.make_ascii_uppercase();
    }
    let is_finite = Layout { has_zeros: layout.has_zeros && value.is_finite(), ..layout.clone() };
    is_finite.number(value.is_sign_negative() && !value.is_nan(), "", &digits)
}

/// The exponent of a number with a sign and at least two digits.
fn exponent(text: &str) -> String {
    let Some((digits, exponent)) = text.split_once('e') else { return text.to_owned() };
    match exponent.strip_prefix('-') {
        Some(exponent) => format!("{digits}e-{exponent:0>2}"),
        None => format!("{digits}e+{exponent:0>2}"),
    }
}

/// A number with up to `precision` significant digits, without zeros at its end.
fn general(magnitude: f64, precision: usize) -> String {
    let precision = precision.max(1);
    let places = precision - 1;
    let scientific = format!("{magnitude:.places$e}");
    let power = scientific.split_once('e').and_then(|(_, power)| power.parse::<i64>().ok());
    let power = power.unwrap_or(0);
    let precision = i64::try_from(precision).unwrap_or(i64::MAX);
    if power < -4 || power >= precision {
        let (digits, power) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        return exponent(&format!("{}e{power}", trimmed(digits)));
    }
    let places = usize::try_from(precision - 1 - power).unwrap_or(0);
    trimmed(&format!("{magnitude:.places$}")).to_owned()
}

fn trimmed(digits: &str) -> &str {
    match digits.contains('.') {
        true => digits.trim_end_matches('0').trim_end_matches('.'),
        false => digits,
    }
}
