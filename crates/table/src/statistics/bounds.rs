//! Bounds: minima and maxima of segments, shortened if the value is long.

use datafusion::common::ScalarValue;

/// Maximum length of a text or binary value that is kept whole; longer ones are rounded outwards.
pub const BOUND_BYTES: usize = 64;

/// The minimum or the maximum of a segment.
#[derive(Clone, Debug, PartialEq)]
pub struct Bound {
    /// The value, of the type of the column (for dictionaries, of their values).
    pub value: ScalarValue,
    /// True if the value occurs in the segment; false if it was rounded outwards.
    pub exact: bool,
}

impl Bound {
    /// Returns the lower bound for the minimum `value` of a segment.
    #[must_use]
    pub fn below(value: ScalarValue) -> Self {
        let short = match &value {
            ScalarValue::Utf8(Some(text)) => floor_text(text).map(ScalarValue::from),
            ScalarValue::LargeUtf8(Some(text)) => {
                floor_text(text).map(|text| ScalarValue::LargeUtf8(Some(text.to_owned())))
            }
            ScalarValue::Utf8View(Some(text)) => {
                floor_text(text).map(|text| ScalarValue::Utf8View(Some(text.to_owned())))
            }
            _ => binary(&value).and_then(|bytes| {
                let short = bytes.get(..BOUND_BYTES).filter(|_| bytes.len() > BOUND_BYTES)?;
                Some(with_binary(&value, short.to_vec()))
            }),
        };
        match short {
            Some(value) => Self { value, exact: false },
            None => Self { value, exact: true },
        }
    }

    /// Returns the upper bound for the maximum `value` of a segment, or `None` if no value of at
    /// most [`BOUND_BYTES`] is greater.
    #[must_use]
    pub fn above(value: ScalarValue) -> Option<Self> {
        let long = text(&value).map(str::len).or_else(|| binary(&value).map(<[u8]>::len));
        if long.is_none_or(|len| len <= BOUND_BYTES) {
            return Some(Self { value, exact: true });
        }
        let value = match &value {
            ScalarValue::Utf8(Some(text)) => ScalarValue::Utf8(Some(ceil_text(text)?)),
            ScalarValue::LargeUtf8(Some(text)) => ScalarValue::LargeUtf8(Some(ceil_text(text)?)),
            ScalarValue::Utf8View(Some(text)) => ScalarValue::Utf8View(Some(ceil_text(text)?)),
            _ => with_binary(&value, ceil_binary(binary(&value)?)?),
        };
        Some(Self { value, exact: false })
    }
}

fn text(value: &ScalarValue) -> Option<&str> {
    match value {
        ScalarValue::Utf8(Some(text))
        | ScalarValue::LargeUtf8(Some(text))
        | ScalarValue::Utf8View(Some(text)) => Some(text),
        _ => None,
    }
}

fn binary(value: &ScalarValue) -> Option<&[u8]> {
    match value {
        ScalarValue::Binary(Some(bytes))
        | ScalarValue::LargeBinary(Some(bytes))
        | ScalarValue::BinaryView(Some(bytes)) => Some(bytes),
        _ => None,
    }
}

fn with_binary(like: &ScalarValue, bytes: Vec<u8>) -> ScalarValue {
    match like {
        ScalarValue::LargeBinary(_) => ScalarValue::LargeBinary(Some(bytes)),
        ScalarValue::BinaryView(_) => ScalarValue::BinaryView(Some(bytes)),
        _ => ScalarValue::Binary(Some(bytes)),
    }
}

/// Returns the longest prefix of a long text that fits and ends at a character boundary.
fn floor_text(text: &str) -> Option<&str> {
    (text.len() > BOUND_BYTES).then(|| &text[..text.floor_char_boundary(BOUND_BYTES)])
}

/// Returns a short text greater than every text with the same prefix: the last character that has a
/// successor is replaced by it, and the rest is dropped.
fn ceil_text(text: &str) -> Option<String> {
    let mut short = floor_text(text)?.to_owned();
    while let Some(last) = short.pop() {
        if let Some(next) = successor(last) {
            short.push(next);
            return Some(short);
        }
    }
    None
}

fn successor(character: char) -> Option<char> {
    match character {
        char::MAX => None,
        // The code points between these two are surrogates, which are not characters.
        '\u{d7ff}' => Some('\u{e000}'),
        _ => char::from_u32(u32::from(character) + 1),
    }
}

fn ceil_binary(bytes: &[u8]) -> Option<Vec<u8>> {
    let short = bytes.get(..BOUND_BYTES)?;
    let last = short.iter().rposition(|&byte| byte < u8::MAX)?;
    let mut short = short[..=last].to_vec();
    short[last] += 1;
    Some(short)
}
