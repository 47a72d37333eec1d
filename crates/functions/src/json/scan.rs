//! The syntax of JSON.

use std::fmt;

/// Maximum number of objects and arrays within each other; functions recurse over them.
pub(crate) const DEPTH_MAX: usize = 512;

/// Maximum number of characters of a text in an error message.
const EXCERPT_MAX: usize = 60;

/// A text that is not JSON.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Malformed {
    /// The text, or its beginning.
    excerpt: String,
    /// The number of the character at which the error was found, from 1.
    position: usize,
    expected: &'static str,
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { excerpt, position, expected } = self;
        write!(f, "invalid JSON at character {position} of {excerpt:?}: expected {expected}")
    }
}

/// Checks the syntax of a text.
///
/// # Errors
/// The first syntax error, or too deep nesting.
pub(super) fn check(text: &str) -> Result<(), Malformed> {
    Scanner { text, at: 0, open: Vec::new() }.document()
}

/// A position in a text.
struct Scanner<'a> {
    text: &'a str,
    at: usize,
    /// The closing brackets that are still missing.
    open: Vec<u8>,
}

impl Scanner<'_> {
    fn document(mut self) -> Result<(), Malformed> {
        loop {
            self.blanks();
            let is_open = match self.peek() {
                Some(b'{') => self.open(b'}')?,
                Some(b'[') => self.open(b']')?,
                _ => {
                    self.scalar()?;
                    false
                }
            };
            if !is_open && self.after_value()? {
                return Ok(());
            }
        }
    }

    /// Opens an object or array; true if a value comes next, false if the brackets are empty.
    fn open(&mut self, close: u8) -> Result<bool, Malformed> {
        if self.open.len() == DEPTH_MAX {
            return Err(self.expected("at most 512 levels of nesting"));
        }
        self.at += 1;
        self.blanks();
        if self.take(close) {
            return Ok(false);
        }
        self.open.push(close);
        if close == b'}' {
            self.key()?;
        }
        Ok(true)
    }

    /// Continues behind a value; true at the end of the text, false if another value comes next.
    fn after_value(&mut self) -> Result<bool, Malformed> {
        loop {
            self.blanks();
            let Some(&close) = self.open.last() else {
                return match self.at == self.text.len() {
                    true => Ok(true),
                    false => Err(self.expected("the end of the text")),
                };
            };
            if self.take(close) {
                self.open.pop();
            } else if self.take(b',') {
                if close == b'}' {
                    self.blanks();
                    self.key()?;
                }
                return Ok(false);
            } else {
                return Err(self.expected(if close == b'}' { "',' or '}'" } else { "',' or ']'" }));
            }
        }
    }

    fn key(&mut self) -> Result<(), Malformed> {
        if self.peek() != Some(b'"') {
            return Err(self.expected("a name in double quotes"));
        }
        self.string()?;
        self.blanks();
        if self.take(b':') { Ok(()) } else { Err(self.expected("':'")) }
    }

    fn scalar(&mut self) -> Result<(), Malformed> {
        match self.peek() {
            Some(b'"') => self.string(),
            Some(b'-' | b'0'..=b'9') => self.number(),
            _ => {
                let rest = self.text.get(self.at..).unwrap_or("");
                let word =
                    ["true", "false", "null"].into_iter().find(|word| rest.starts_with(word));
                let word = word.ok_or_else(|| self.expected("a value"))?;
                self.at += word.len();
                Ok(())
            }
        }
    }

    fn string(&mut self) -> Result<(), Malformed> {
        self.at += 1;
        loop {
            match self.peek() {
                Some(b'"') => {
                    self.at += 1;
                    return Ok(());
                }
                Some(b'\\') => self.escape()?,
                None => return Err(self.expected("'\"' at the end of a string")),
                Some(0..0x20) => return Err(self.expected("an escape such as \\n")),
                Some(_) => self.at += 1,
            }
        }
    }

    fn escape(&mut self) -> Result<(), Malformed> {
        self.at += 1;
        match self.peek() {
            Some(b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't') => self.at += 1,
            Some(b'u') => {
                let code = self.code()?;
                let second = match code {
                    0xd800..0xdc00 if self.take(b'\\') && self.peek() == Some(b'u') => {
                        self.code()?
                    }
                    0xd800..0xdc00 => 0,
                    0xdc00..0xe000 => {
                        return Err(self.expected("a high surrogate before a low one"));
                    }
                    _ => return Ok(()),
                };
                if !(0xdc00..0xe000).contains(&second) {
                    return Err(self.expected("a low surrogate behind a high one"));
                }
            }
            _ => return Err(self.expected("an escape such as \\n")),
        }
        Ok(())
    }

    /// Reads the four hexadecimal digits behind `u`.
    fn code(&mut self) -> Result<u32, Malformed> {
        let digits = self.text.get(self.at + 1..self.at + 5);
        let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_hexdigit()));
        let code = digits.and_then(|digits| u32::from_str_radix(digits, 16).ok());
        let code = code.ok_or_else(|| self.expected("four hexadecimal digits behind \\u"))?;
        self.at += 5;
        Ok(code)
    }

    fn number(&mut self) -> Result<(), Malformed> {
        self.take(b'-');
        if !self.take(b'0') {
            self.digits()?;
        }
        if self.take(b'.') {
            self.digits()?;
        }
        if self.take(b'e') || self.take(b'E') {
            let _sign = self.take(b'+') || self.take(b'-');
            self.digits()?;
        }
        match self.peek() {
            Some(byte) if byte.is_ascii_alphanumeric() || byte == b'.' => {
                Err(self.expected("the end of a number"))
            }
            _ => Ok(()),
        }
    }

    fn digits(&mut self) -> Result<(), Malformed> {
        let begin = self.at;
        while self.peek().is_some_and(|byte| byte.is_ascii_digit()) {
            self.at += 1;
        }
        if self.at > begin { Ok(()) } else { Err(self.expected("a digit")) }
    }

    fn blanks(&mut self) {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\n' | b'\r')) {
            self.at += 1;
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    fn take(&mut self, byte: u8) -> bool {
        let is_next = self.peek() == Some(byte);
        self.at += usize::from(is_next);
        is_next
    }

    fn expected(&self, expected: &'static str) -> Malformed {
        let before = self.text.as_bytes().iter().take(self.at);
        // Every character has one byte that does not continue another.
        let position = before.filter(|&&byte| byte & 0xc0 != 0x80).count() + 1;
        let excerpt = self.text.chars().take(EXCERPT_MAX).collect();
        Malformed { excerpt, position, expected }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> String {
        check(text).expect_err(text).to_string()
    }

    #[test]
    fn malformed_texts_are_refused_at_their_position() {
        let cases = [
            ("", 1, "a value"),
            ("{", 2, "a name in double quotes"),
            ("{\"a\":1", 7, "',' or '}'"),
            ("[1,]", 4, "a value"),
            ("{\"a\":01}", 7, "the end of a number"),
            ("[1 2]", 4, "',' or ']'"),
            ("1x", 2, "the end of a number"),
            ("tru", 1, "a value"),
            ("true1", 5, "the end of the text"),
            ("\"a", 3, "'\"' at the end of a string"),
            ("\"\\x\"", 3, "an escape such as \\n"),
            ("\"\\u12\"", 3, "four hexadecimal digits behind \\u"),
            ("\"\\ud800\"", 8, "a low surrogate behind a high one"),
            ("\"\u{1}\"", 2, "an escape such as \\n"),
            ("-", 2, "a digit"),
            ("\"\u{e9}\" x", 5, "the end of the text"),
            ("{\"a\" 1}", 6, "':'"),
            ("NaN", 1, "a value"),
        ];
        for (text, position, expected) in cases {
            let said = error(text);
            assert!(said.contains(&format!("character {position} of")), "{text}: {said}");
            assert!(said.ends_with(&format!("expected {expected}")), "{text}: {said}");
        }
    }

    #[test]
    fn deep_nesting_is_an_error() {
        let text = "[".repeat(1_000_000);
        assert!(error(&text).contains("512 levels"));
        let text = format!("{}{}", "[".repeat(DEPTH_MAX), "]".repeat(DEPTH_MAX));
        assert!(check(&text).is_ok());
    }
}
