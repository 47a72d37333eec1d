//! Identifiers as texts: quoted as in a statement, and split into their parts.

use super::keywords::is_reserved;

/// Returns a name as a statement must write it: quoted, unless it is a plain identifier.
pub(super) fn quote(name: &str) -> String {
    let is_plain = name.starts_with(|c: char| c.is_ascii_lowercase() || c == '_')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    match is_plain && !is_reserved(name) {
        true => name.to_owned(),
        false => format!("\"{}\"", name.replace('"', "\"\"")),
    }
}

/// Splits a name at its dots and removes quotes; `None` for a text that is no name.
pub(super) fn identifiers(name: &str) -> Option<Vec<String>> {
    let mut parts = Vec::new();
    let mut rest = name.trim();
    loop {
        let part;
        (part, rest) = match rest.strip_prefix('"') {
            Some(quoted) => quoted_part(quoted)?,
            None => {
                let end = rest.find('.').unwrap_or(rest.len());
                let (part, rest) = rest.split_at_checked(end)?;
                let part = part.trim();
                let is_name = |c: char| c.is_alphanumeric() || "_$".contains(c);
                if !part.chars().all(is_name) || part.starts_with(|c: char| c.is_ascii_digit()) {
                    return None;
                }
                (part.to_lowercase(), rest)
            }
        };
        if part.is_empty() {
            return None;
        }
        parts.push(part);
        match rest.trim_start() {
            "" => return Some(parts),
            behind => rest = behind.strip_prefix('.')?.trim_start(),
        }
    }
}

/// Returns the part up to its closing quote, and the text after the quote.
fn quoted_part(text: &str) -> Option<(String, &str)> {
    let mut part = String::new();
    let mut rest = text;
    loop {
        let (before, behind) = rest.split_once('"')?;
        part.push_str(before);
        match behind.strip_prefix('"') {
            Some(behind) => {
                part.push('"');
                rest = behind;
            }
            None => return Some((part, behind)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_have_parts() {
        let parts = |name: &str| identifiers(name).map(|parts| parts.join("|"));
        assert_eq!(parts("T"), Some("t".to_owned()));
        assert_eq!(parts("public . \"A.b\"\"c\""), Some("public|A.b\"c".to_owned()));
        assert_eq!(parts("a b"), None);
        assert_eq!(parts("\"a"), None);
        assert_eq!(parts("a."), None);
        assert_eq!(parts("1a"), None);
    }

    #[test]
    fn names_are_quoted_where_they_have_to_be() {
        assert_eq!(quote("plain_1"), "plain_1");
        assert_eq!(quote("Table"), "\"Table\"");
        assert_eq!(quote("select"), "\"select\"");
        assert_eq!(quote("a\"b"), "\"a\"\"b\"");
    }
}
