//! Encodes numbers in PostgreSQL's text and binary formats.

use std::fmt::{Display, LowerExp};

use bytes::{BufMut, BytesMut};

/// Number of decimal digits of a group in the binary format of `numeric`.
const GROUP_DIGITS: usize = 4;
/// Sign words of `numeric`: PostgreSQL's `NUMERIC_POS` and `NUMERIC_NEG`.
const SIGNS: [u16; 2] = [0x0000, 0x4000];

/// Appends the shortest digits that parse to the same number: from 1e-4 to below 10^`fixed_digits`
/// as `0.0001`, outside of that as `1e-05`, as PostgreSQL does.
pub(super) fn put_float(value: impl LowerExp, fixed_digits: i32, out: &mut BytesMut) {
    let text = format!("{value:e}");
    let Some((digits, exponent)) = text.split_once('e') else {
        let name = match text.as_str() {
            "inf" => "Infinity",
            "-inf" => "-Infinity",
            name => name,
        };
        return out.extend_from_slice(name.as_bytes());
    };
    let exponent: i32 = exponent.parse().unwrap_or(0);
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits), |digits| ("-", digits));
    out.extend_from_slice(sign.as_bytes());
    if (-4..fixed_digits).contains(&exponent) {
        put_fixed(&digits.replace('.', ""), exponent, out);
    } else {
        let sign = if exponent < 0 { '-' } else { '+' };
        let exponent = exponent.unsigned_abs();
        out.extend_from_slice(format!("{digits}e{sign}{exponent:02}").as_bytes());
    }
}

/// Appends digits, the first of which stands for `10^exponent`.
fn put_fixed(digits: &str, exponent: i32, out: &mut BytesMut) {
    let Ok(whole) = usize::try_from(exponent + 1) else {
        out.extend_from_slice(b"0.");
        out.put_bytes(b'0', usize::try_from(-1 - exponent).unwrap_or(0));
        return out.extend_from_slice(digits.as_bytes());
    };
    match digits.len() <= whole {
        _ if whole == 0 => {
            out.extend_from_slice(b"0.");
            out.extend_from_slice(digits.as_bytes());
        }
        true => {
            out.extend_from_slice(digits.as_bytes());
            out.put_bytes(b'0', whole - digits.len());
        }
        false => {
            out.extend_from_slice(&digits.as_bytes()[..whole]);
            out.put_u8(b'.');
            out.extend_from_slice(&digits.as_bytes()[whole..]);
        }
    }
}

/// Appends the number `unscaled * 10^-scale`, with `scale` digits after the point.
pub(super) fn put_decimal(unscaled: impl Display, scale: i8, out: &mut BytesMut) {
    let text = unscaled.to_string();
    let (sign, digits) = split_sign(&text);
    out.extend_from_slice(sign.as_bytes());
    match usize::try_from(scale) {
        Ok(0) => out.extend_from_slice(digits.as_bytes()),
        Ok(scale) => {
            let digits = format!("{digits:0>width$}", width = scale + 1);
            let (whole, fraction) = digits.split_at(digits.len() - scale);
            out.extend_from_slice(whole.as_bytes());
            out.put_u8(b'.');
            out.extend_from_slice(fraction.as_bytes());
        }
        Err(_) => {
            out.extend_from_slice(digits.as_bytes());
            if digits != "0" {
                out.put_bytes(b'0', usize::from(scale.unsigned_abs()));
            }
        }
    }
}

fn split_sign(text: &str) -> (&str, &str) {
    text.strip_prefix('-').map_or(("", text), |digits| ("-", digits))
}

/// Appends the number `unscaled * 10^-scale` in the binary format of `numeric`: number of groups,
/// weight of the first one, sign, digits after the point, and groups of four digits.
pub(super) fn put_numeric(unscaled: impl Display, scale: i8, out: &mut BytesMut) {
    let text = unscaled.to_string();
    let (sign, digits) = split_sign(&text);
    let mut digits = digits.to_owned();
    let fraction = usize::try_from(scale).unwrap_or(0);
    digits.extend(std::iter::repeat_n('0', usize::from((-scale.min(0)).unsigned_abs())));
    // Groups are aligned at the decimal point.
    let padding = (GROUP_DIGITS - fraction % GROUP_DIGITS) % GROUP_DIGITS;
    digits.extend(std::iter::repeat_n('0', padding));
    let behind = (fraction + padding) / GROUP_DIGITS;
    let width = digits.len().div_ceil(GROUP_DIGITS) * GROUP_DIGITS;
    let digits = format!("{digits:0>width$}");
    let groups: Vec<u16> =
        (0..width).step_by(GROUP_DIGITS).map(|at| group(&digits[at..at + GROUP_DIGITS])).collect();
    let first = groups.iter().position(|group| *group != 0).unwrap_or(groups.len());
    let end = groups.iter().rposition(|group| *group != 0).map_or(first, |last| last + 1);
    let count = |value: usize| i16::try_from(value).unwrap_or(i16::MAX);
    let kept = &groups[first..end];
    let weight = count(groups.len()) - count(behind) - 1 - count(first);
    out.put_i16(count(kept.len()));
    out.put_i16(if kept.is_empty() { 0 } else { weight });
    out.put_u16(SIGNS[usize::from(!sign.is_empty())]);
    out.put_i16(count(fraction));
    kept.iter().for_each(|group| out.put_u16(*group));
}

fn group(digits: &str) -> u16 {
    digits.bytes().fold(0, |value, digit| value * 10 + u16::from(digit - b'0'))
}

#[cfg(test)]
mod tests {
    use super::super::written as text;
    use super::*;

    #[test]
    fn floats_are_written_as_postgres_writes_them() {
        // Expected texts are the output of `SELECT x::float8::text` in PostgreSQL 15.
        let cases = [
            (0.0, "0"),
            (-0.0, "-0"),
            (1.0, "1"),
            (0.1, "0.1"),
            (-1.5, "-1.5"),
            (100.0, "100"),
            (0.0001, "0.0001"),
            (0.00001, "1e-05"),
            (123_456.789, "123456.789"),
            (1e14, "100000000000000"),
            (1e15, "1e+15"),
            (1.5e300, "1.5e+300"),
            (123_456_789_012_345_680.0, "1.2345678901234568e+17"),
            (f64::NAN, "NaN"),
            (f64::NEG_INFINITY, "-Infinity"),
        ];
        for (value, expected) in cases {
            assert_eq!(text(|out| put_float(value, 15, out)), expected);
        }
        for (value, expected) in [(100_000.0_f32, "100000"), (1e6, "1e+06"), (0.1, "0.1")] {
            assert_eq!(text(|out| put_float(value, 6, out)), expected);
        }
    }

    #[test]
    fn decimals_keep_their_scale() {
        let cases: [(i128, i8, &str); 6] = [
            (0, 2, "0.00"),
            (5, 2, "0.05"),
            (-12_345, 2, "-123.45"),
            (7, 0, "7"),
            (7, -3, "7000"),
            (0, -3, "0"),
        ];
        for (value, scale, expected) in cases {
            assert_eq!(text(|out| put_decimal(value, scale, out)), expected);
        }
    }

    #[test]
    fn numerics_are_groups_of_four_digits() {
        // Expected bytes are the output of `numeric_send` in PostgreSQL 15.
        let cases: [(i128, i8, &[i16]); 7] = [
            (0, 2, &[0, 0, 0, 2]),
            (1, 0, &[1, 0, 0, 0, 1]),
            (-12_345, 2, &[2, 0, 0x4000, 2, 123, 4500]),
            (100_000_000, 0, &[1, 2, 0, 0, 1]),
            (5, 5, &[1, -2, 0, 5, 5000]),
            (123_456_789, 4, &[3, 1, 0, 4, 1, 2345, 6789]),
            (7, -5, &[1, 1, 0, 0, 70]),
        ];
        for (value, scale, expected) in cases {
            let (mut found, mut wanted) = (BytesMut::new(), BytesMut::new());
            put_numeric(value, scale, &mut found);
            expected.iter().for_each(|word| wanted.put_i16(*word));
            assert_eq!(found, wanted, "{value} of scale {scale}");
        }
    }
}
