//! Arrays written as PostgreSQL's texts: `{a,"b c",NULL}`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, AsArray as _, ListBuilder, StringBuilder};
use datafusion::arrow::compute::cast;
use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::logical_expr::{Expr, ScalarFunctionArgs};

use crate::adapter::{Scalar, columns, function};

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
    Ok(ScalarValue::List(Arc::new(lists(std::iter::once(Some(text)), false)?.finish())))
}

/// Returns the arrays of texts that texts denote.
#[must_use]
pub fn text_arrays(expr: Expr) -> Expr {
    function(TextArrays { is_try: false }).call(vec![expr])
}

/// Returns the arrays of texts that texts denote, with null for any other text.
#[must_use]
pub fn try_text_arrays(expr: Expr) -> Expr {
    function(TextArrays { is_try: true }).call(vec![expr])
}

/// The arrays that texts denote. If `is_try`, a malformed text denotes null.
fn lists<'a>(
    texts: impl Iterator<Item = Option<&'a str>>,
    is_try: bool,
) -> Result<ListBuilder<StringBuilder>> {
    let mut lists = ListBuilder::new(StringBuilder::new());
    for text in texts {
        match (text, text.and_then(array_items)) {
            (_, Some(items)) => lists.append_value(items),
            (Some(text), None) if !is_try => {
                return exec_err!(
                    "malformed array literal: \"{text}\"; say the elements of one dimension as in \
                     {{a,\"b c\",NULL}}"
                );
            }
            (_, None) => lists.append_null(),
        }
    }
    Ok(lists)
}

/// The function of the arrays of texts that texts denote.
#[derive(Debug)]
struct TextArrays {
    is_try: bool,
}

impl Scalar for TextArrays {
    fn name(&self) -> &'static str {
        if self.is_try { "try_text_arrays" } else { "text_arrays" }
    }

    fn aliases(&self) -> &'static [&'static str] {
        &[]
    }

    fn coerce(&self, given: &[DataType]) -> Result<Vec<DataType>> {
        match given {
            [text] if text.is_string() || text.is_null() => Ok(vec![DataType::Utf8]),
            _ => plan_err!("{} takes a text", self.name()),
        }
    }

    fn field(&self, given: &[DataType], _: &[Option<&ScalarValue>]) -> Result<Field> {
        self.coerce(given)?;
        Ok(Field::new(self.name(), DataType::new_list(DataType::Utf8, true), true))
    }

    fn run(&self, args: &ScalarFunctionArgs, rows: usize) -> Result<ArrayRef> {
        let columns = columns(args, rows)?;
        let [texts] = columns.as_slice() else {
            return exec_err!("{} takes a text", self.name());
        };
        let texts = cast(texts, &DataType::Utf8)?;
        Ok(Arc::new(lists(texts.as_string::<i32>().iter(), self.is_try)?.finish()))
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
