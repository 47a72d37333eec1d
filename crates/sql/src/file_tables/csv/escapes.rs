//! Backslash escapes of PostgreSQL's format `text`.

/// Replaces the escapes in a value by the bytes that they stand for.
pub(super) fn decoded(raw: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw;
    while let Some((first, more)) = rest.split_first() {
        rest = more;
        if *first != b'\\' {
            bytes.push(*first);
            continue;
        }
        let (byte, length) = escape(more);
        bytes.push(byte);
        rest = &more[length..];
    }
    bytes
}

/// The byte of the escape that begins behind a backslash, and its length.
fn escape(rest: &[u8]) -> (u8, usize) {
    match rest {
        [] => (b'\\', 0),
        [b'b', ..] => (0x08, 1),
        [b'f', ..] => (0x0c, 1),
        [b'n', ..] => (b'\n', 1),
        [b'r', ..] => (b'\r', 1),
        [b't', ..] => (b'\t', 1),
        [b'v', ..] => (0x0b, 1),
        [b'x', digits @ ..] if digits.first().is_some_and(u8::is_ascii_hexdigit) => {
            let (byte, length) = number(digits, 16, 2);
            (byte, length + 1)
        }
        [b'0'..=b'7', ..] => number(rest, 8, 3),
        [other, ..] => (*other, 1),
    }
}

/// The number of at most `most` digits, modulo 256, and the number of its digits.
fn number(digits: &[u8], radix: u32, most: usize) -> (u8, usize) {
    let (mut value, mut length) = (0, 0);
    for digit in digits.iter().take(most).map_while(|byte| char::from(*byte).to_digit(radix)) {
        value = (value * radix + digit) % 256;
        length += 1;
    }
    (u8::try_from(value).unwrap_or_default(), length)
}

/// Appends a value with its special bytes escaped.
pub(crate) fn encode(value: &[u8], delimiter: u8, out: &mut Vec<u8>) {
    for byte in value {
        match byte {
            b'\\' => out.extend_from_slice(b"\\\\"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x0b => out.extend_from_slice(b"\\v"),
            byte if *byte == delimiter => out.extend_from_slice(&[b'\\', *byte]),
            byte => out.push(*byte),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_survive_encoding_and_decoding() {
        let value: Vec<u8> = (0..=255).collect();
        for delimiter in *b"\t|," {
            let mut out = vec![];
            encode(&value, delimiter, &mut out);
            assert_eq!(decoded(&out), value);
        }
        assert_eq!(decoded(b"\\x4\\x41\\7\\1012\\q\\"), b"\x04A\x07A2q\\");
    }
}
