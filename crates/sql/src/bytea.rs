//! Parser for PostgreSQL's text form of `bytea`.

/// Parses bytes: either the hex form `\x00ff`, or the escape form, in which bytes beyond ASCII may
/// be written in octal, `\377`, and a backslash as two. Returns `None` for any other text.
#[must_use]
pub fn parse(text: &str) -> Option<Vec<u8>> {
    if let Some(digits) = text.strip_prefix("\\x") {
        let pairs = digits.as_bytes().chunks(2);
        return pairs.map(|pair| hex(pair).filter(|_| pair.len() == 2)).collect();
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, behind)) = rest.split_first() {
        rest = behind;
        if *byte != b'\\' {
            bytes.push(*byte);
        } else if let Some(behind) = rest.strip_prefix(b"\\") {
            bytes.push(b'\\');
            rest = behind;
        } else {
            let octal = rest.get(..3).filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(octal).ok()?, 8).ok()?);
            rest = rest.get(3..)?;
        }
    }
    Some(bytes)
}

fn hex(pair: &[u8]) -> Option<u8> {
    let digits = pair.iter().all(u8::is_ascii_hexdigit);
    u8::from_str_radix(std::str::from_utf8(pair).ok().filter(|_| digits)?, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_read_as_postgresql_reads_them() {
        let cases: [(&str, Option<&[u8]>); 9] = [
            ("\\x00ff", Some(&[0, 255])),
            ("\\x", Some(&[])),
            ("plain \u{fc}", Some("plain \u{fc}".as_bytes())),
            ("a\\\\\\377", Some(b"a\\\xff")),
            ("\\x0", None),
            ("\\x+f", None),
            ("\\+12", None),
            ("\\9", None),
            ("end\\", None),
        ];
        for (text, expected) in cases {
            assert_eq!(parse(text).as_deref(), expected, "{text}");
        }
    }
}
