//! Tokens of Rust source: names, numbers, lifetimes, `::`, and all other characters one by one.

use crate::tidy::rust::Rust;

/// Returns the tokens of a source outside of comments, strings and test code.
///
/// The braces of test code are kept, so that all braces remain balanced even if test code begins or
/// ends within a line.
pub fn tokens(rust: &Rust) -> Vec<&str> {
    let mut tokens = Vec::new();
    for line in &rust.lines {
        let mut rest = line.code.trim_start();
        while !rest.is_empty() {
            let (token, after) = rest.split_at(length(rest));
            if !line.test || matches!(token, "{" | "}") {
                tokens.push(token);
            }
            rest = after.trim_start();
        }
    }
    tokens
}

/// Returns true if a token is a name or a keyword.
pub fn is_name(token: &str) -> bool {
    token.starts_with(|first: char| first.is_alphabetic() || first == '_')
}

/// Returns the length of the first token of a text in bytes.
fn length(text: &str) -> usize {
    if let Some(lifetime) = text.strip_prefix('\'') {
        return 1 + word_length(lifetime);
    }
    if text.starts_with("::") {
        return 2;
    }
    let character = text.chars().next().map_or(0, char::len_utf8);
    word_length(text).max(character)
}

fn word_length(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lifetimes_and_signs_are_told_apart() {
        let rust = Rust::parse("fn f<'a>(x: &'a T) { a::b(x) } // a comment\n");
        let expected = "fn f < 'a > ( x : & 'a T ) { a :: b ( x ) }";
        assert_eq!(tokens(&rust).join(" "), expected);
        assert!(is_name("_x") && !is_name("'a") && !is_name("::") && !is_name("0x1f"));
    }

    #[test]
    fn of_test_code_only_braces_are_kept() {
        let rust = Rust::parse("struct A {\n#[cfg(test)]\na: B,\nc: D,\n}\nstruct E;\n");
        assert_eq!(tokens(&rust).join(" "), "struct A { } struct E ;");
    }
}
