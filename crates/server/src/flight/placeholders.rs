//! `?` as a parameter, as in JDBC and ADBC: the first one is `$1`.

/// Replaces each `?` by `$1`, `$2` and so on, except in literals, quoted names and comments.
pub(super) fn numbered(text: &str) -> String {
    if !text.contains('?') {
        return text.to_owned();
    }
    let mut out = String::with_capacity(text.len() + 8);
    let mut number = 0_usize;
    let mut rest = text;
    while let Some(first) = rest.chars().next() {
        let bytes = match first {
            '?' => {
                number += 1;
                out.push_str(&format!("${number}"));
                rest = &rest[1..];
                continue;
            }
            '\'' => quoted(rest, '\'', escapes(&out)),
            '"' => quoted(rest, '"', false),
            '-' if rest.starts_with("--") => rest.find('\n').unwrap_or(rest.len()),
            '/' if rest.starts_with("/*") => comment(rest),
            '$' => dollar_quoted(rest, &out),
            other => other.len_utf8(),
        };
        out.push_str(&rest[..bytes]);
        rest = &rest[bytes..];
    }
    out
}

/// True if the literal that begins after `before` has backslash escapes: `E'...'`.
fn escapes(before: &str) -> bool {
    let mut last = before.chars().rev();
    let is_e = matches!(last.next(), Some('e' | 'E'));
    is_e && !last.next().is_some_and(is_of_name)
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_' || letter == '$'
}

/// Returns the length in bytes of the quoted text that `text` begins with, including its quotes
/// `mark`. A doubled quote does not end it.
fn quoted(text: &str, mark: char, has_backslashes: bool) -> usize {
    let mut letters = text.char_indices().skip(1);
    while let Some((_, letter)) = letters.next() {
        if letter == '\\' && has_backslashes {
            letters.next();
        } else if letter == mark {
            match letters.clone().next() {
                Some((_, next)) if next == mark => drop(letters.next()),
                Some((end, _)) => return end,
                None => return text.len(),
            }
        }
    }
    text.len()
}

/// Returns the length in bytes of the `/* */` comment that `text` begins with; comments may be
/// nested.
fn comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while let Some(found) = text[at..].find(['*', '/']) {
        at += found;
        if text[at..].starts_with("/*") {
            depth += 1;
            at += 2;
        } else if text[at..].starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// Returns the length in bytes of the literal `$tag$...$tag$` that `text` begins with; 1 if its `$`
/// begins none. `before` is the text before it.
fn dollar_quoted(text: &str, before: &str) -> usize {
    if before.chars().next_back().is_some_and(is_of_name) {
        return 1;
    }
    let Some(end) = text[1..].find('$') else { return 1 };
    let tag = &text[..end + 2];
    let name = &tag[1..tag.len() - 1];
    let is_tag = name.chars().all(|letter| letter.is_alphanumeric() || letter == '_')
        && !name.starts_with(|letter: char| letter.is_ascii_digit());
    if !is_tag {
        return 1;
    }
    let body = &text[tag.len()..];
    body.find(tag).map_or(text.len(), |end| 2 * tag.len() + end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn question_marks_are_numbered() {
        let cases = [
            ("SELECT ?, ? + 1", "SELECT $1, $2 + 1"),
            ("SELECT 1", "SELECT 1"),
            ("SELECT '?', 'it''s ?', \"?\", ?", "SELECT '?', 'it''s ?', \"?\", $1"),
            ("SELECT E'\\'?', ?", "SELECT E'\\'?', $1"),
            ("SELECT 'a\\', ?", "SELECT 'a\\', $1"),
            ("SELECT ? -- ?\n, ?", "SELECT $1 -- ?\n, $2"),
            ("SELECT ? /* ? /* ? */ ? */, ?", "SELECT $1 /* ? /* ? */ ? */, $2"),
            ("SELECT $$?$$, $a$ ? $a$, ?", "SELECT $$?$$, $a$ ? $a$, $1"),
            ("SELECT $1, ?", "SELECT $1, $1"),
            ("SELECT '?", "SELECT '?"),
            ("SELECT /* ?", "SELECT /* ?"),
            ("?\u{e4}'\u{e4}?'?", "$1\u{e4}'\u{e4}?'$2"),
            ("*/ ?", "*/ $1"),
        ];
        for (text, expected) in cases {
            assert_eq!(numbered(text), expected, "{text}");
        }
    }
}
