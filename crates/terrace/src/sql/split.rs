//! Splits text into statements at the semicolons that end them.

/// Returns the statements of a text, without their semicolons, and its commands, which are lines
/// that begin with a backslash or a dot at the start of a statement. Blank statements are skipped.
pub fn statements(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut rest = text;
    loop {
        rest = rest.trim_start_matches(|letter: char| letter.is_whitespace() || letter == ';');
        let end = match rest.starts_with(['\\', '.']) {
            true => rest.find('\n'),
            false => end_of_statement(rest),
        };
        let Some(end) = end else { break };
        found.push(&rest[..end]);
        rest = &rest[end + 1..];
    }
    found.push(rest);
    found.retain(|statement| !is_blank(statement));
    found
}

/// True if only blanks and comments follow the last semicolon of the text, so that no statement is
/// incomplete.
pub fn is_complete(text: &str) -> bool {
    let mut rest = text;
    while let Some(end) = end_of_statement(rest) {
        rest = &rest[end + 1..];
    }
    is_blank(rest)
}

/// Returns the position of the semicolon that ends the first statement; `None` if it is not ended.
fn end_of_statement(text: &str) -> Option<usize> {
    let mut at = 0;
    while at < text.len() {
        if text[at..].starts_with(';') {
            return Some(at);
        }
        at += token_length(&text[at..]);
    }
    None
}

/// True if the text has only blanks and comments. An unclosed comment does not count as one.
fn is_blank(text: &str) -> bool {
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        let comment = rest.starts_with("--") || (rest.starts_with("/*") && closed_comment(rest));
        if !comment && !rest.starts_with(char::is_whitespace) {
            return false;
        }
        at += token_length(rest);
    }
    true
}

/// Returns the length in bytes of the first token: a quoted text, a comment, a word, or one
/// character. An unclosed token extends to the end.
fn token_length(text: &str) -> usize {
    let first = text.chars().next();
    match first {
        Some(quote @ ('\'' | '"' | '`')) => quoted_length(text, quote),
        Some('e' | 'E') if text[1..].starts_with('\'') => escaped_length(text),
        Some('-') if text.starts_with("--") => text.find('\n').unwrap_or(text.len()),
        Some('/') if text.starts_with("/*") => comment_length(text).unwrap_or(text.len()),
        Some('$') => dollar_length(text).unwrap_or(1),
        Some(letter) if is_word(letter) => word_length(text),
        Some(other) => other.len_utf8(),
        None => 0,
    }
}

fn is_word(letter: char) -> bool {
    letter.is_alphanumeric() || letter == '_'
}

/// Returns the length of a name or number, which may contain dollar signs that begin no quotation.
fn word_length(text: &str) -> usize {
    text.find(|letter: char| !is_word(letter) && letter != '$').unwrap_or(text.len())
}

/// Returns the length of a quoted text. A doubled quote, as in `'it''s'`, reads as two adjacent
/// quoted texts, which does not change where statements end.
fn quoted_length(text: &str, quote: char) -> usize {
    text[1..].find(quote).map_or(text.len(), |at| at + 2)
}

/// Returns the length of a text with escapes, such as `E'it\'s'`: neither a quote after a backslash
/// nor a doubled quote ends it.
fn escaped_length(text: &str) -> usize {
    let mut letters = text.char_indices().skip(2).peekable();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => drop(letters.next()),
            '\'' if letters.next_if(|(_, next)| *next == '\'').is_none() => return at + 1,
            _ => {}
        }
    }
    text.len()
}

fn closed_comment(text: &str) -> bool {
    comment_length(text).is_some()
}

/// Returns the length of a comment, or `None` if it is not closed. Comments nest.
fn comment_length(text: &str) -> Option<usize> {
    let mut depth = 0_u32;
    let mut at = 0;
    while at < text.len() {
        let rest = &text[at..];
        if rest.starts_with("/*") {
            depth += 1;
            at += 2;
        } else if rest.starts_with("*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return Some(at);
            }
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    None
}

/// Returns the length of a dollar-quoted text, `$$text$$` or `$tag$text$tag$`; a single dollar
/// sign, as in `$1`, begins no quotation.
fn dollar_length(text: &str) -> Option<usize> {
    let tag_end = text[1..].find('$')? + 2;
    let tag = &text[..tag_end];
    let name = &tag[1..tag.len() - 1];
    let valid = name.chars().all(is_word) && !name.starts_with(|first: char| first.is_numeric());
    if !valid {
        return None;
    }
    Some(text[tag_end..].find(tag).map_or(text.len(), |at| tag_end + at + tag.len()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn semicolons_end_statements() {
        assert_eq!(statements("select 1; select 2"), ["select 1", "select 2"]);
        let mixed = "\\d\nselect '\n\\d';\n\\x\nselect 2 \\d\n; \\q";
        assert_eq!(statements(mixed), ["\\d", "select '\n\\d'", "\\x", "select 2 \\d\n", "\\q"]);
        assert_eq!(statements(".read a;b\nselect .5"), [".read a;b", "select .5"]);
        assert_eq!(statements(" ; ;\n"), [""; 0]);
        assert_eq!(statements(""), [""; 0]);
    }

    #[test]
    fn quoted_semicolons_do_not() {
        for text in [
            "select ';'",
            "select 'it''s;'",
            "select \"a;b\" from t",
            "select $$a;b$$",
            "select $x$a;$$b;$x$",
            "select 1 -- no; end\n + 2",
            "select /* a; /* b; */ c; */ 1",
            "select 'one\n;two'",
            "select E'it\\'s; x'",
            "select e'\\\\', 'a;b'",
            "select E'it''s \\'; x', 1",
            "select name'a\\', ';'",
            "select `a;b` from t",
        ] {
            assert_eq!(statements(text), [text], "{text}");
            assert_eq!(statements(&format!("{text};{text}")), [text, text], "{text}");
        }
    }

    #[test]
    fn a_dollar_sign_alone_quotes_nothing() {
        assert_eq!(statements("execute a($1); select $2"), ["execute a($1)", "select $2"]);
        assert_eq!(statements("select a$b; select c$d"), ["select a$b", "select c$d"]);
    }

    #[test]
    fn completeness() {
        for text in ["", " \n", "select 1;", "select 1; -- done", "select ';';", "a; /* b */"] {
            assert!(is_complete(text), "{text}");
        }
        for text in ["select 1", "select ';", "a; b", "a; /* b", "select \"x;", "$$;"] {
            assert!(!is_complete(text), "{text}");
        }
    }

    #[test]
    fn other_letters_are_no_trouble() {
        assert_eq!(
            statements("select '\u{e4};\u{20ac}'; select \u{fc}"),
            ["select '\u{e4};\u{20ac}'", "select \u{fc}"]
        );
    }
}
