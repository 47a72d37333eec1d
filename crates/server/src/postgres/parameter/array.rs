//! Decodes arrays that clients send.

use std::fmt::Arguments;

use bytes::{Buf as _, Bytes};
use datafusion::arrow::datatypes::DataType;
use datafusion::common::ScalarValue;
use pgwire::api::Type;

use super::super::cell::Format;
use super::super::failure::{Failure, SqlState};
use super::super::types::arrow_type;

/// Decodes an array of one dimension.
///
/// # Errors
/// Bytes that are not an array of such items.
pub(super) fn value(
    bytes: &Bytes,
    format: Format,
    what: Arguments<'_>,
    item: &DataType,
) -> Result<ScalarValue, Failure> {
    let malformed = || {
        let text = format!("{what} is no array of one dimension");
        Failure::new(SqlState::INVALID_TEXT, text)
    };
    let values = match format {
        Format::Text => {
            let text = std::str::from_utf8(bytes).ok().and_then(array_items);
            let items = text.ok_or_else(malformed)?.into_iter();
            let items = items.map(|text| {
                let bytes = text.map(|text| Bytes::from(text.into_bytes()));
                super::value(bytes.as_ref(), format, what, item)
            });
            items.collect::<Result<Vec<_>, _>>()?
        }
        Format::Binary => {
            let (of, items) = binary(bytes.clone()).ok_or_else(malformed)?;
            let known = arrow_type(&of).ok_or_else(malformed)?;
            let items = items.into_iter().map(|bytes| match bytes {
                None => Ok(ScalarValue::try_from(item)?),
                Some(bytes) => {
                    let value = super::of_binary(&bytes, &of, &known).ok_or_else(malformed)?;
                    value.cast_to(item).map_err(Failure::from)
                }
            });
            items.collect::<Result<Vec<_>, _>>()?
        }
    };
    Ok(ScalarValue::List(ScalarValue::new_list(&values, item, true)))
}

/// Returns the type and the items of an array in the binary format: number of dimensions, a flag
/// for nulls, the type of items; length and first index of the dimension; items with their lengths.
fn binary(mut bytes: Bytes) -> Option<(Type, Vec<Option<Bytes>>)> {
    let dimensions = bytes.try_get_i32().ok()?;
    let _has_nulls = bytes.try_get_i32().ok()?;
    let of = Type::from_oid(bytes.try_get_u32().ok()?)?;
    if dimensions == 0 {
        return Some((of, vec![]));
    }
    let length = usize::try_from(bytes.try_get_i32().ok()?).ok()?;
    let _first = bytes.try_get_i32().ok()?;
    // Each item is preceded by its length of four bytes.
    if dimensions != 1 || length > bytes.len() / 4 {
        return None;
    }
    let mut items = Vec::with_capacity(length);
    for _ in 0..length {
        items.push(match usize::try_from(bytes.try_get_i32().ok()?) {
            Err(_) => None,
            Ok(length) if length <= bytes.len() => Some(bytes.split_to(length)),
            Ok(_) => return None,
        });
    }
    bytes.is_empty().then_some((of, items))
}

/// Parses the items of `{a,"b c",NULL}`; `None` for a text that is no array of one dimension.
pub(crate) fn array_items(text: &str) -> Option<Vec<Option<String>>> {
    let inside = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    let mut items = Vec::new();
    let mut chars = inside.chars().peekable();
    if inside.trim().is_empty() {
        return Some(items);
    }
    loop {
        let (mut item, mut is_quoted) = (String::new(), false);
        loop {
            match chars.next() {
                Some('"') if !is_quoted && item.trim().is_empty() => {
                    is_quoted = true;
                    item.clear();
                    loop {
                        match chars.next()? {
                            '"' => break,
                            '\\' => item.push(chars.next()?),
                            other => item.push(other),
                        }
                    }
                }
                Some(',') => break,
                Some('{' | '}' | '"') => return None,
                Some('\\') => item.push(chars.next()?),
                Some(other) if !is_quoted => item.push(other),
                Some(other) if other.is_whitespace() => {}
                Some(_) => return None,
                None => {
                    items.push(of(item, is_quoted));
                    return Some(items);
                }
            }
        }
        items.push(of(item, is_quoted));
    }
}

fn of(item: String, is_quoted: bool) -> Option<String> {
    match is_quoted {
        true => Some(item),
        false if item.trim().eq_ignore_ascii_case("null") => None,
        false => Some(item.trim().to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrays_are_read_as_in_postgresql() {
        let read = |text: &str| {
            let shown = |item: Option<String>| item.unwrap_or_else(|| "-".to_owned());
            array_items(text)
                .map(|items| items.into_iter().map(shown).collect::<Vec<_>>().join("|"))
        };
        assert_eq!(read("{r,p, f}"), Some("r|p|f".to_owned()));
        assert_eq!(read("{}"), Some(String::new()));
        assert_eq!(read(r#"{"a,b" , NULL,"c\"d"}"#), Some("a,b|-|c\"d".to_owned()));
        assert_eq!(read("{{1},{2}}"), None);
        assert_eq!(read("r"), None);
    }

    #[test]
    fn arrays_in_binary_have_items_of_their_type() {
        let of = |bytes: &'static [u8], item: &DataType| {
            value(&Bytes::from_static(bytes), Format::Binary, format_args!("$1"), item).ok()
        };
        let header = [0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 23, 0, 0, 0, 2, 0, 0, 0, 1];
        let items = [0, 0, 0, 4, 0, 0, 0, 7, 255, 255, 255, 255];
        let bytes: &'static [u8] = Box::leak([&header[..], &items[..]].concat().into_boxed_slice());
        let wanted = [ScalarValue::Int64(Some(7)), ScalarValue::Int64(None)];
        let wanted = ScalarValue::List(ScalarValue::new_list(&wanted, &DataType::Int64, true));
        assert_eq!(of(bytes, &DataType::Int64), Some(wanted));
        assert_eq!(of(bytes.get(..30).unwrap_or_default(), &DataType::Int64), None);
        assert_eq!(
            of(&[0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 23, 127, 255, 255, 255], &DataType::Int64),
            None
        );
    }
}
