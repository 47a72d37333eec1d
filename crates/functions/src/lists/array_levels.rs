//! Arrays of several dimensions written as PostgreSQL's texts: `{{1,2},{3,4}}`.

use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, ListArray, StringBuilder};
use datafusion::arrow::buffer::{NullBuffer, OffsetBuffer};
use datafusion::arrow::datatypes::Field;
use datafusion::common::Result;

use super::array_text::array_items;

/// Returns the number of dimensions of the array that a text denotes, judged by its beginning; 0 if
/// it has no elements.
#[must_use]
pub fn depth_of(text: &str) -> usize {
    let mut depth = 0;
    for letter in text.trim_start().chars() {
        match letter {
            '{' => depth += 1,
            '}' => return 0,
            letter if letter.is_whitespace() => {}
            _ => break,
        }
    }
    depth
}

/// The lengths of all dimensions and the items of an array of a number of dimensions.
struct Items {
    lengths: Vec<usize>,
    items: Vec<Option<String>>,
}

/// Parses an array of a number of dimensions; `None` for any other text.
fn parsed(text: &str, depth: usize) -> Option<Items> {
    if depth == 1 {
        let items = array_items(text)?;
        return Some(Items { lengths: vec![items.len()], items });
    }
    let inside = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    if inside.trim().is_empty() {
        return Some(Items { lengths: vec![0; depth], items: Vec::new() });
    }
    let mut all = Items { lengths: Vec::new(), items: Vec::new() };
    let mut count = 0;
    for part in parts(inside)? {
        let part = parsed(part, depth - 1)?;
        // All parts have the same lengths, none of which is zero.
        let fits = all.lengths.is_empty() || all.lengths == part.lengths;
        if !fits || part.items.is_empty() {
            return None;
        }
        all.lengths = part.lengths;
        all.items.extend(part.items);
        count += 1;
    }
    all.lengths.insert(0, count);
    Some(all)
}

/// The texts between commas that are in no braces and quotes.
fn parts(inside: &str) -> Option<Vec<&str>> {
    let (mut parts, mut begin, mut level, mut is_quoted) = (Vec::new(), 0, 0_usize, false);
    let mut letters = inside.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => {
                letters.next()?;
            }
            '"' => is_quoted = !is_quoted,
            _ if is_quoted => {}
            '{' => level += 1,
            '}' => level = level.checked_sub(1)?,
            ',' if level == 0 => {
                parts.push(inside.get(begin..at)?);
                begin = at + 1;
            }
            _ => {}
        }
    }
    parts.push(inside.get(begin..)?);
    Some(parts)
}

/// Builds the arrays of texts of a number of dimensions that texts denote; null for no text, and
/// what `malformed` returns for a text that is no such array.
///
/// # Errors
/// Those of `malformed`.
pub(super) fn levels<'a>(
    texts: impl Iterator<Item = Option<&'a str>>,
    depth: usize,
    malformed: impl Fn(&str) -> Result<()>,
) -> Result<ArrayRef> {
    let mut items = StringBuilder::new();
    let mut lengths: Vec<Vec<usize>> = vec![Vec::new(); depth];
    let mut are_valid = Vec::new();
    for text in texts {
        let array = text.and_then(|text| parsed(text, depth));
        if let (Some(text), None) = (text, &array) {
            malformed(text)?;
        }
        are_valid.push(array.is_some());
        let array = array.unwrap_or_else(|| Items { lengths: vec![0; depth], items: Vec::new() });
        let mut lists = 1;
        for (level, length) in lengths.iter_mut().zip(&array.lengths) {
            level.extend(std::iter::repeat_n(*length, lists));
            lists *= length;
        }
        array.items.iter().for_each(|item| items.append_option(item.as_deref()));
    }
    let mut array: ArrayRef = Arc::new(items.finish());
    for (level, lengths) in lengths.into_iter().enumerate().rev() {
        let field = Arc::new(Field::new_list_field(array.data_type().clone(), true));
        let nulls = (level == 0).then(|| NullBuffer::from(std::mem::take(&mut are_valid)));
        let offsets = OffsetBuffer::from_lengths(lengths);
        array = Arc::new(ListArray::try_new(field, offsets, array, nulls)?);
    }
    Ok(array)
}

#[cfg(test)]
mod tests {
    use datafusion::arrow::util::display::array_value_to_string;
    use datafusion::common::exec_err;

    use super::*;

    fn of(text: &str, depth: usize) -> String {
        let malformed = |text: &str| exec_err!("malformed: {text}");
        match levels([None, Some(text)].into_iter(), depth, malformed) {
            Ok(array) => array_value_to_string(&array, 1).expect("a text"),
            Err(_) => "malformed".to_owned(),
        }
    }

    #[test]
    fn arrays_of_several_dimensions_are_read_as_in_postgresql() {
        assert_eq!(of("{{1,2},{3,4}}", 2), "[[1, 2], [3, 4]]");
        assert_eq!(of(" { { 1 , 2 } , { 3 , 4 } } ", 2), "[[1, 2], [3, 4]]");
        assert_eq!(of("{{{1}},{{2}}}", 3), "[[[1]], [[2]]]");
        assert_eq!(of(r#"{{a,"b,}c"},{"d\"",x}}"#, 2), r#"[[a, b,}c], [d", x]]"#);
        assert_eq!(of("{}", 2), "[]");
        for text in ["{{1},{2,3}}", "{{1,2},3}", "{{}}", "{{1,2},NULL}", "{1,2}", "{{1}", "x"] {
            assert_eq!(of(text, 2), "malformed", "{text}");
        }
    }

    #[test]
    fn depths_are_those_of_the_first_elements() {
        assert_eq!(depth_of("{1,2}"), 1);
        assert_eq!(depth_of(" { {1,2},{3,4}}"), 2);
        assert_eq!(depth_of("{}"), 0);
        assert_eq!(depth_of("{{}}"), 0);
        assert_eq!(depth_of("x"), 0);
    }
}
