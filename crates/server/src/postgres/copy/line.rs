//! Splits lines of the text and CSV formats of COPY into values.

use terrace_sql::session::CopyFormat;

/// A value of a line.
pub(super) struct Value {
    pub(super) bytes: Vec<u8>,
    pub(super) is_null: bool,
}

/// Splits a line into values; the binary format has no lines.
pub(super) fn values_of(line: &[u8], format: &CopyFormat) -> Vec<Value> {
    match format {
        CopyFormat::Csv { delimiter, null, quote, escape, .. } => {
            Csv { delimiter: *delimiter, quote: *quote, escape: *escape, null }.values(line)
        }
        CopyFormat::Text { delimiter, null, .. } => text_values(line, *delimiter, null),
        CopyFormat::Binary => vec![],
    }
}

/// Splits a line of the text format into values.
fn text_values(line: &[u8], delimiter: u8, null: &str) -> Vec<Value> {
    let mut values = vec![];
    let (mut start, mut at) = (0, 0);
    loop {
        match line.get(at) {
            Some(b'\\') => at += 2,
            Some(byte) if *byte != delimiter => at += 1,
            end => {
                let raw = &line[start..at.min(line.len())];
                values.push(Value { bytes: unescaped(raw), is_null: raw == null.as_bytes() });
                if end.is_none() {
                    return values;
                }
                at += 1;
                start = at;
            }
        }
    }
}

fn unescaped(raw: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(raw.len());
    let mut rest = raw.iter().copied().peekable();
    while let Some(byte) = rest.next() {
        if byte != b'\\' {
            bytes.push(byte);
            continue;
        }
        let digits = |rest: &mut std::iter::Peekable<_>, first: u32, radix: u32, most: usize| {
            let mut value = first;
            for _ in 0..most {
                let digit = rest.peek().and_then(|byte: &u8| char::from(*byte).to_digit(radix));
                let Some(digit) = digit else { break };
                value = value * radix + digit;
                rest.next();
            }
            u8::try_from(value & 0xff).unwrap_or_default()
        };
        match rest.next() {
            None => bytes.push(b'\\'),
            Some(b'b') => bytes.push(0x08),
            Some(b'f') => bytes.push(0x0c),
            Some(b'n') => bytes.push(b'\n'),
            Some(b'r') => bytes.push(b'\r'),
            Some(b't') => bytes.push(b'\t'),
            Some(b'v') => bytes.push(0x0b),
            Some(b'x') if rest.peek().is_some_and(u8::is_ascii_hexdigit) => {
                bytes.push(digits(&mut rest, 0, 16, 2));
            }
            Some(byte @ b'0'..=b'7') => {
                bytes.push(digits(&mut rest, u32::from(byte - b'0'), 8, 2));
            }
            Some(other) => bytes.push(other),
        }
    }
    bytes
}

/// The special characters of comma-separated values.
struct Csv<'a> {
    delimiter: u8,
    quote: u8,
    escape: u8,
    null: &'a str,
}

impl Csv<'_> {
    /// Splits a line into values; the line may contain line ends in quotes.
    fn values(&self, line: &[u8]) -> Vec<Value> {
        let mut values = vec![];
        let value = |bytes: Vec<u8>, is_plain| {
            let is_null = is_plain && bytes == self.null.as_bytes();
            Value { bytes, is_null }
        };
        let (mut bytes, mut is_plain, mut is_quoted) = (Vec::new(), true, false);
        let mut rest = line.iter().copied().peekable();
        while let Some(byte) = rest.next() {
            if is_quoted {
                let next = rest.peek().copied();
                let is_special = |next: &u8| *next == self.quote || *next == self.escape;
                if byte == self.escape && next.as_ref().is_some_and(is_special) {
                    bytes.extend(rest.next());
                } else if byte == self.quote {
                    is_quoted = false;
                } else {
                    bytes.push(byte);
                }
            } else if byte == self.quote {
                (is_quoted, is_plain) = (true, false);
            } else if byte == self.delimiter {
                values.push(value(std::mem::take(&mut bytes), is_plain));
                is_plain = true;
            } else {
                bytes.push(byte);
            }
        }
        values.push(value(bytes, is_plain));
        values
    }
}
