//! `x SIMILAR TO pattern`, rewritten as a match of the whole value with a regular expression.
//!
//! DataFusion takes the pattern for a regular expression that may match any part of the value. In
//! the standard, `%` matches any text, `_` any character, and `|`, `*`, `+`, `?`, `{}`, `()` and
//! `[]` mean what they do in regular expressions.

use datafusion::sql::sqlparser::ast::{BinaryOperator, Expr, Value, ValueWithSpan};
use terrace_table::error::SqlError;

use super::refusal::refused;

/// Rewrites a SIMILAR TO as a match with `^(?s:...)$`; leaves any other expression unchanged.
///
/// # Errors
/// [`SqlError::Refused`] for a pattern or an escape that is not a constant.
pub(super) fn write_out(expr: &mut Expr) -> Result<(), SqlError> {
    let Expr::SimilarTo { negated, expr: value, pattern, escape_char } = expr else {
        return Ok(());
    };
    let text = match pattern.as_ref() {
        Expr::Value(ValueWithSpan { value: Value::Null, .. }) => None,
        Expr::Value(ValueWithSpan { value: Value::SingleQuotedString(text), .. }) => Some(text),
        _ => {
            return Err(refused(
                "SIMILAR TO with a pattern that is no constant",
                "compare with a regular expression by ~",
            ));
        }
    };
    let escape = match escape_char.as_ref().map(|escape| &escape.value) {
        None => Some('\\'),
        Some(Value::SingleQuotedString(text)) if text.chars().count() <= 1 => text.chars().next(),
        Some(other) => {
            return Err(refused(&format!("ESCAPE {other}"), "an escape is one character, or none"));
        }
    };
    let regex = match text {
        Some(text) => Value::SingleQuotedString(regex_of(text, escape)?),
        None => Value::Null,
    };
    let op = match negated {
        true => BinaryOperator::PGRegexNotMatch,
        false => BinaryOperator::PGRegexMatch,
    };
    let left = std::mem::replace(value, Box::new(Expr::Value(Value::Null.into())));
    let right = Box::new(Expr::Value(regex.into()));
    *expr = Expr::Nested(Box::new(Expr::BinaryOp { left, op, right }));
    Ok(())
}

fn regex_of(pattern: &str, escape: Option<char>) -> Result<String, SqlError> {
    let mut regex = String::from("^(?s:");
    let mut in_brackets = false;
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        if Some(character) == escape {
            let Some(literal) = characters.next() else {
                let what = format!("the pattern '{pattern}' of SIMILAR TO");
                return Err(refused(&what, "it ends with its escape character"));
            };
            put_literal(literal, &mut regex);
            continue;
        }
        match character {
            ']' if in_brackets => {
                in_brackets = false;
                regex.push(']');
            }
            // A class such as [:alpha:] is copied; the standard has no other set inside a set.
            '[' if in_brackets && characters.as_str().starts_with(':') => {
                regex.push('[');
                if let Some((class, rest)) = characters.as_str().split_once(":]") {
                    regex.push_str(class);
                    regex.push_str(":]");
                    characters = rest.chars();
                }
            }
            '[' | '&' | '~' | '\\' if in_brackets => put_literal(character, &mut regex),
            _ if in_brackets => regex.push(character),
            '[' => {
                in_brackets = true;
                regex.push('[');
            }
            '%' => regex.push_str(".*"),
            '_' => regex.push('.'),
            // A non-capturing group; the special groups of regular expressions are not available.
            '(' => regex.push_str("(?:"),
            '.' | '^' | '$' | '\\' => put_literal(character, &mut regex),
            _ => regex.push(character),
        }
    }
    regex.push_str(")$");
    Ok(regex)
}

fn put_literal(character: char, regex: &mut String) {
    if character.is_ascii_punctuation() {
        regex.push('\\');
    }
    regex.push(character);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_become_regular_expressions() {
        let cases = [
            ("a%", Some('\\'), "^(?s:a.*)$"),
            ("(a|b)_", Some('\\'), "^(?s:(?:a|b).)$"),
            ("a.c^$", Some('\\'), "^(?s:a\\.c\\^\\$)$"),
            ("[a-c%_]+", Some('\\'), "^(?s:[a-c%_]+)$"),
            ("[[:alpha:]&]_", Some('\\'), "^(?s:[[:alpha:]\\&].)$"),
            ("10\\%", Some('\\'), "^(?s:10\\%)$"),
            ("a\\%", None, "^(?s:a\\\\.*)$"),
        ];
        for (pattern, escape, regex) in cases {
            assert_eq!(regex_of(pattern, escape).ok().as_deref(), Some(regex), "{pattern}");
        }
        assert!(regex_of("a\\", Some('\\')).is_err());
    }
}
