//! Arrays written as PostgreSQL's texts: `{a,"b c",NULL}`.
//!
//! Those of several dimensions are read by `array_levels`.

use std::sync::Arc;

use datafusion::arrow::array::{ListBuilder, StringBuilder};
use datafusion::common::{Result, ScalarValue, exec_err};

/// Parses the items of `{a,"b c",NULL}`; `None` for a text that is no array of one dimension.
#[must_use]
pub fn array_items(text: &str) -> Option<Vec<Option<String>>> {
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

/// Returns the array of texts that a text denotes.
///
/// # Errors
/// For a text that is no array of one dimension.
pub fn text_array(text: &str) -> Result<ScalarValue> {
    let Some(items) = array_items(text) else { return malformed(text, 1) };
    let mut lists = ListBuilder::new(StringBuilder::new());
    lists.append_value(items);
    Ok(ScalarValue::List(Arc::new(lists.finish())))
}

/// The error for a text that is no array of a number of dimensions.
pub(super) fn malformed<T>(text: &str, depth: usize) -> Result<T> {
    match depth {
        1 => exec_err!(
            "malformed array literal: \"{text}\"; say the elements of one dimension as in \
             {{a,\"b c\",NULL}}"
        ),
        _ => exec_err!(
            "malformed array literal: \"{text}\"; say the elements of {depth} dimensions as in \
             {{{{1,2}},{{3,4}}}}, of the same number in each"
        ),
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
}
