//! Numbers and bytes written in a base, and read again.

use datafusion::arrow::array::ArrayRef;
use datafusion::common::{Result, exec_err};

use crate::scalar::{Bytes, Call, Definition, Int, Kind, Overload, Text, UInt};

pub(super) const FUNCTIONS: &[Definition] = &[
    Definition::new(
        "hex",
        &[
            Overload::new(&[Kind::Integer], Kind::Text, hex_number),
            Overload::new(&[Kind::Unsigned], Kind::Text, hex_unsigned),
            Overload::new(&[Kind::Bytes], Kind::Text, hex_bytes),
        ],
    ),
    Definition::new("unhex", &[Overload::new(&[Kind::Text], Kind::Bytes, unhex)])
        .alias(&["from_hex"]),
    Definition::new(
        "bin",
        &[
            Overload::new(&[Kind::Integer], Kind::Text, binary_number),
            Overload::new(&[Kind::Unsigned], Kind::Text, binary_unsigned),
            Overload::new(&[Kind::Bytes], Kind::Text, binary_bytes),
        ],
    )
    .alias(&["to_binary"]),
    Definition::new("unbin", &[Overload::new(&[Kind::Text], Kind::Bytes, unbin)])
        .alias(&["from_binary"]),
    Definition::new(
        "to_base",
        &[
            Overload::new(&[Kind::Integer, Kind::Integer], Kind::Text, to_base),
            Overload::new(&[Kind::Integer, Kind::Integer, Kind::Integer], Kind::Text, to_base),
        ],
    ),
];

fn hex_number(call: &Call) -> Result<ArrayRef> {
    call.map1::<Int, Text>(|number| Ok(Some(format!("{number:X}").into())))
}

fn hex_unsigned(call: &Call) -> Result<ArrayRef> {
    call.map1::<UInt, Text>(|number| Ok(Some(format!("{number:X}").into())))
}

fn hex_bytes(call: &Call) -> Result<ArrayRef> {
    call.map1::<Bytes, Text>(|bytes| {
        Ok(Some(bytes.iter().map(|byte| format!("{byte:02X}")).collect::<String>().into()))
    })
}

fn binary_number(call: &Call) -> Result<ArrayRef> {
    call.map1::<Int, Text>(|number| Ok(Some(format!("{number:b}").into())))
}

fn binary_unsigned(call: &Call) -> Result<ArrayRef> {
    call.map1::<UInt, Text>(|number| Ok(Some(format!("{number:b}").into())))
}

fn binary_bytes(call: &Call) -> Result<ArrayRef> {
    call.map1::<Bytes, Text>(|bytes| {
        Ok(Some(bytes.iter().map(|byte| format!("{byte:08b}")).collect::<String>().into()))
    })
}

fn unhex(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Bytes>(|text| read(text, 16, 2).map(Some))
}

fn unbin(call: &Call) -> Result<ArrayRef> {
    call.map1::<Text, Bytes>(|text| read(text, 2, 8).map(Some))
}

/// Reads bytes of `width` digits each; the first may have less.
fn read(text: &str, radix: u32, width: usize) -> Result<Vec<u8>> {
    let digits = text.as_bytes();
    let (first, rest) = digits.split_at(digits.len() % width);
    let groups = std::iter::once(first).filter(|first| !first.is_empty());
    let byte = |group: &[u8]| {
        let value = group
            .iter()
            .try_fold(0, |value, &digit| Some(value * radix + char::from(digit).to_digit(radix)?));
        match value.and_then(|value| u8::try_from(value).ok()) {
            Some(byte) => Ok(byte),
            None => exec_err!("{text:?} has other characters than digits of base {radix}"),
        }
    };
    groups.chain(rest.chunks(width)).map(byte).collect()
}

/// `to_base(number, radix, width)`: the digits of a number, at least `width`.
fn to_base(call: &Call) -> Result<ArrayRef> {
    match call.len() {
        2 => {
            call.map2::<Int, Int, Text>(|number, radix| Ok(Some(in_base(number, radix, 0)?.into())))
        }
        _ => call.map3::<Int, Int, Int, Text>(|number, radix, width| {
            Ok(Some(in_base(number, radix, width)?.into()))
        }),
    }
}

fn in_base(number: i64, radix: i64, width: i64) -> Result<String> {
    let Ok(mut rest) = u64::try_from(number) else {
        return exec_err!("to_base takes numbers from zero, not {number}");
    };
    let Some(radix) = u32::try_from(radix).ok().filter(|radix| (2..=36).contains(radix)) else {
        return exec_err!("to_base takes a radix from 2 to 36, not {radix}");
    };
    let Some(width) = usize::try_from(width).ok().filter(|width| *width <= 64) else {
        return exec_err!("to_base takes a width from 0 to 64, not {width}");
    };
    let mut digits = Vec::new();
    while rest > 0 || digits.len() < width.max(1) {
        // The remainder is a digit.
        let digit = u32::try_from(rest % u64::from(radix)).unwrap_or(0);
        digits.extend(char::from_digit(digit, radix));
        rest /= u64::from(radix);
    }
    Ok(digits.iter().rev().map(char::to_ascii_uppercase).collect())
}
