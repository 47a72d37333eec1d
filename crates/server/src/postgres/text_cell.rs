//! Binary formats of `uuid` and `jsonb`, whose values are stored as text.

use bytes::{BufMut as _, BytesMut};
use datafusion::arrow::array::{ArrayRef, AsArray as _};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::DataType;
use datafusion::arrow::error::ArrowError;

/// The first byte of the binary form of `jsonb`: its version.
const JSONB_VERSION: u8 = 1;

/// A function that appends the encoded value of a row, which must not be null.
type Append = Box<dyn Fn(usize, &mut BytesMut) + Send + Sync>;

/// Encodes UUIDs in 16 bytes.
///
/// # Errors
/// If the array has no texts.
pub(super) fn uuid(array: &ArrayRef) -> Result<Append, ArrowError> {
    let texts = cast(array, &DataType::Utf8View)?.as_string_view().clone();
    Ok(Box::new(move |row, out| out.put_u128(number(texts.value(row)))))
}

/// Encodes `jsonb`: its version and its text.
///
/// # Errors
/// If the array has no texts.
pub(super) fn jsonb(array: &ArrayRef) -> Result<Append, ArrowError> {
    let texts = cast(array, &DataType::Utf8View)?.as_string_view().clone();
    Ok(Box::new(move |row, out| {
        out.put_u8(JSONB_VERSION);
        out.extend_from_slice(texts.value(row).as_bytes());
    }))
}

/// Converts the canonical text of a UUID to its 128 bits.
fn number(text: &str) -> u128 {
    let digits = text.chars().filter_map(|digit| digit.to_digit(16));
    digits.fold(0, |number, digit| number << 4 | u128::from(digit))
}

/// Returns the text of the 16 bytes of a UUID; `None` for another number of bytes.
pub(super) fn uuid_of_bytes(bytes: &[u8]) -> Option<String> {
    let number = u128::from_be_bytes(bytes.try_into().ok()?);
    let digits = format!("{number:032x}");
    let parts = [0..8, 8..12, 12..16, 16..20, 20..32].map(|part| digits.get(part));
    Some(parts.into_iter().flatten().collect::<Vec<_>>().join("-"))
}

/// Returns the text of the binary form of `jsonb`; `None` for another version.
pub(super) fn jsonb_of_bytes(bytes: &[u8]) -> Option<String> {
    let text = bytes.strip_prefix(&[JSONB_VERSION])?;
    std::str::from_utf8(text).ok().map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use datafusion::arrow::array::StringViewArray;

    use super::*;

    #[test]
    fn uuids_are_read_as_they_are_written() {
        let text = "00eebc99-9c0b-4ef8-bb6d-6bb9bd380a11";
        let array: ArrayRef = Arc::new(StringViewArray::from(vec![text]));
        let mut out = BytesMut::new();
        uuid(&array).expect("texts")(0, &mut out);
        assert_eq!(out.len(), 16);
        assert_eq!(uuid_of_bytes(&out).as_deref(), Some(text));
        assert_eq!(uuid_of_bytes(b"too short"), None);
        let mut out = BytesMut::new();
        jsonb(&array).expect("texts")(0, &mut out);
        assert_eq!(jsonb_of_bytes(&out).as_deref(), Some(text));
        assert_eq!(jsonb_of_bytes(b"2{}"), None);
    }
}
