//! Dialect of delimited values: the special characters of a file, and the rows that they delimit.

use std::borrow::Cow;

use super::escapes;

/// The special characters of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// Separates values.
    pub(crate) delimiter: u8,
    /// Encloses values that contain special characters. Quotes inside of an unquoted value have no
    /// effect.
    pub(crate) quote: Option<u8>,
    /// Escapes a quote in quotes.
    pub(crate) escape: Option<u8>,
    /// Begins lines that are skipped.
    pub(crate) comment: Option<u8>,
    /// Ends rows: a line feed, or a carriage return in files of old systems.
    pub(crate) terminator: u8,
    /// True for PostgreSQL's format `text`: backslashes escape special characters, without quotes.
    pub(crate) is_text: bool,
}

/// A value in the bytes of rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Value {
    pub(crate) start: usize,
    pub(crate) end: usize,
    pub(crate) is_quoted: bool,
    /// True if the value contains escapes.
    pub(crate) is_escaped: bool,
    /// True for a value that the row does not have.
    pub(crate) is_absent: bool,
}

/// Result of reading a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// A row, or a blank line, which has one empty value; the next row begins here.
    Row(usize),
    /// A comment; the next row begins at this position.
    Comment(usize),
    /// The end of the rows before the end of the bytes.
    End,
    /// The bytes end before the row does.
    Incomplete,
    /// A malformed row: the position after it, and the reason.
    Malformed(usize, &'static str),
}

/// The end of a value.
enum Ended {
    Delimiter(usize),
    Row(usize),
    Incomplete,
    Malformed(usize, &'static str),
}

impl Dialect {
    /// Values separated by commas, enclosed in double quotes.
    pub(crate) const CSV: Self = Self {
        delimiter: b',',
        quote: Some(b'"'),
        escape: Some(b'"'),
        comment: None,
        terminator: b'\n',
        is_text: false,
    };

    /// Reads the row at `at`, and adds its values to `values`. `is_end` says that no bytes follow.
    pub(crate) fn row(
        &self,
        bytes: &[u8],
        at: usize,
        is_end: bool,
        values: &mut Vec<Value>,
    ) -> Step {
        if self.comment.is_some() && bytes.get(at).copied() == self.comment {
            return match self.line_end(bytes, at) {
                Some(end) => Step::Comment(end),
                None if is_end => Step::Comment(bytes.len()),
                None => Step::Incomplete,
            };
        }
        let first = values.len();
        let mut at = at;
        loop {
            let ended = if self.is_text {
                self.text_value(bytes, at, is_end, values)
            } else if let Some(start) = self.opening_quote(bytes, at) {
                self.quoted_value(bytes, start + 1, is_end, values)
            } else {
                self.plain_value(bytes, at, is_end, values)
            };
            match ended {
                Ended::Delimiter(next) => at = next,
                Ended::Row(_) if self.is_end_mark(bytes, &values[first..]) => {
                    values.truncate(first);
                    return Step::End;
                }
                Ended::Row(next) => return Step::Row(next),
                Ended::Incomplete | Ended::Malformed(..) => {
                    values.truncate(first);
                    return match ended {
                        Ended::Malformed(next, what) => Step::Malformed(next, what),
                        _ => Step::Incomplete,
                    };
                }
            }
        }
    }

    /// True for the line `\.`, which ends the rows of PostgreSQL's format `text`.
    fn is_end_mark(&self, bytes: &[u8], values: &[Value]) -> bool {
        let [value] = values else { return false };
        self.is_text && &bytes[value.start..value.end] == b"\\."
    }

    /// The beginning of the line after `at`.
    fn line_end(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let rest = bytes.get(at..)?;
        rest.iter().position(|byte| *byte == self.terminator).map(|length| at + length + 1)
    }

    /// The position of the quote that opens the value at `at`; blanks may precede it.
    fn opening_quote(&self, bytes: &[u8], at: usize) -> Option<usize> {
        let quote = self.quote?;
        let blanks = bytes[at..].iter().take_while(|byte| **byte == b' ').count();
        (bytes.get(at + blanks) == Some(&quote)).then_some(at + blanks)
    }

    fn plain_value(
        &self,
        bytes: &[u8],
        start: usize,
        is_end: bool,
        values: &mut Vec<Value>,
    ) -> Ended {
        let rest = &bytes[start..];
        let is_special = |byte: &u8| *byte == self.delimiter || *byte == self.terminator;
        let end = match rest.iter().position(is_special) {
            Some(length) => start + length,
            None if is_end => bytes.len(),
            None => return Ended::Incomplete,
        };
        self.close(bytes, Value { start, end, ..Value::default() }, values)
    }

    /// Adds an unquoted value, and returns what ends it.
    fn close(&self, bytes: &[u8], mut value: Value, values: &mut Vec<Value>) -> Ended {
        let end = value.end;
        let ends_row = bytes.get(end).is_none_or(|byte| *byte != self.delimiter);
        if ends_row && self.terminator == b'\n' && bytes[value.start..end].ends_with(b"\r") {
            value.end -= 1;
        }
        values.push(value);
        match ends_row {
            true => Ended::Row((end + 1).min(bytes.len())),
            false => Ended::Delimiter(end + 1),
        }
    }

    /// Reads a value of the format `text`.
    fn text_value(
        &self,
        bytes: &[u8],
        start: usize,
        is_end: bool,
        values: &mut Vec<Value>,
    ) -> Ended {
        let (mut end, mut is_escaped) = (start, false);
        loop {
            match bytes.get(end) {
                Some(b'\\') => {
                    is_escaped = true;
                    end += 2;
                }
                Some(byte) if *byte != self.delimiter && *byte != self.terminator => end += 1,
                Some(_) => break,
                None if is_end => {
                    end = bytes.len();
                    break;
                }
                None => return Ended::Incomplete,
            }
        }
        self.close(bytes, Value { start, end, is_escaped, ..Value::default() }, values)
    }

    /// Reads a quoted value; `start` is the position behind its opening quote.
    fn quoted_value(
        &self,
        bytes: &[u8],
        start: usize,
        is_end: bool,
        values: &mut Vec<Value>,
    ) -> Ended {
        let (mut at, mut is_escaped) = (start, false);
        let end = loop {
            let rest = bytes.get(at..).unwrap_or_default();
            let found = rest
                .iter()
                .position(|byte| Some(*byte) == self.quote || Some(*byte) == self.escape);
            let Some(length) = found else {
                return match is_end {
                    true => Ended::Malformed(bytes.len(), "a quote in it is not closed"),
                    false => Ended::Incomplete,
                };
            };
            at += length;
            let (byte, next) = (Some(bytes[at]), bytes.get(at + 1).copied());
            if next.is_none() && !is_end {
                return Ended::Incomplete;
            }
            let escapes = next.is_some() && (next == self.quote || next == self.escape);
            if byte == self.escape && escapes {
                is_escaped = true;
                at += 2;
            } else if byte == self.quote {
                break at;
            } else {
                at += 1;
            }
        };
        values.push(Value { start, end, is_quoted: true, is_escaped, is_absent: false });
        self.after_quote(bytes, end + 1, is_end)
    }

    /// Returns what follows a closing quote.
    fn after_quote(&self, bytes: &[u8], at: usize, is_end: bool) -> Ended {
        let at = at + bytes[at..].iter().take_while(|byte| **byte == b' ').count();
        match bytes.get(at).copied() {
            None if is_end => Ended::Row(at),
            None => Ended::Incomplete,
            Some(byte) if byte == self.delimiter => Ended::Delimiter(at + 1),
            Some(byte) if byte == self.terminator => Ended::Row(at + 1),
            Some(b'\r') if bytes.get(at + 1) == Some(&self.terminator) => Ended::Row(at + 2),
            Some(b'\r') if at + 1 == bytes.len() => match is_end {
                true => Ended::Row(at + 1),
                false => Ended::Incomplete,
            },
            Some(_) => match self.line_end(bytes, at) {
                None if !is_end => Ended::Incomplete,
                next => {
                    let what = "a closing quote in it is followed by neither a delimiter nor the \
                                end of the line";
                    Ended::Malformed(next.unwrap_or(bytes.len()), what)
                }
            },
        }
    }

    /// The bytes of a value without its quotes and escapes.
    pub(crate) fn content<'a>(&self, bytes: &'a [u8], value: &Value) -> Cow<'a, [u8]> {
        let raw = &bytes[value.start..value.end];
        if !value.is_escaped {
            return Cow::Borrowed(raw);
        }
        if self.is_text {
            return Cow::Owned(escapes::decoded(raw));
        }
        let mut content = Vec::with_capacity(raw.len());
        let mut rest = raw.iter().copied().peekable();
        while let Some(byte) = rest.next() {
            let next = rest.peek().copied();
            let escapes = next.is_some() && (next == self.quote || next == self.escape);
            match (Some(byte) == self.escape && escapes, next) {
                (true, Some(next)) => {
                    content.push(next);
                    rest.next();
                }
                _ => content.push(byte),
            }
        }
        Cow::Owned(content)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Reads all rows of a text; a malformed row is its error.
    fn rows(dialect: &Dialect, text: &str) -> Vec<Vec<String>> {
        let (bytes, mut at, mut rows) = (text.as_bytes(), 0, vec![]);
        while at < bytes.len() {
            let mut values = vec![];
            match dialect.row(bytes, at, true, &mut values) {
                Step::Row(next) => {
                    let value =
                        |value| String::from_utf8_lossy(&dialect.content(bytes, value)).into();
                    rows.push(values.iter().map(value).collect());
                    at = next;
                }
                Step::Comment(next) => at = next,
                Step::Malformed(next, what) => {
                    rows.push(vec![what.to_owned()]);
                    at = next;
                }
                Step::End => break,
                Step::Incomplete => panic!("{text:?} is complete"),
            }
        }
        rows
    }

    #[test]
    fn quotes_enclose_delimiters_line_ends_and_quotes() {
        let text = "a,b\r\n \"x,\"\"1\"\"\" ,\"two\nlines\"\n,\"\"\n3\" pipe,\n#c\n1,2";
        let dialect = Dialect { comment: Some(b'#'), ..Dialect::CSV };
        let expected =
            [["a", "b"], ["x,\"1\"", "two\nlines"], ["", ""], ["3\" pipe", ""], ["1", "2"]];
        assert_eq!(rows(&dialect, text), expected);
        let dialect = Dialect { escape: Some(b'\\'), ..Dialect::CSV };
        assert_eq!(rows(&dialect, "\"a\\\"b\\n\\\\\",c"), [["a\"b\\n\\", "c"]]);
    }

    #[test]
    fn malformed_rows_end_at_the_next_line() {
        assert_eq!(rows(&Dialect::CSV, "\"a\"b,c\nd,e").len(), 2);
        assert!(rows(&Dialect::CSV, "\"a\"b,c")[0][0].contains("closing quote"));
        assert!(rows(&Dialect::CSV, "x,\"a")[0][0].contains("not closed"));
    }

    #[test]
    fn text_has_escapes_and_an_end_mark() {
        let dialect =
            Dialect { delimiter: b'\t', quote: None, escape: None, is_text: true, ..Dialect::CSV };
        let text = "a\\tb\t\"\\\\\"\n\\x41\\101\\\n!\t\\N\n\\.\nmore";
        assert_eq!(rows(&dialect, text), [["a\tb", "\"\\\""], ["AA\n!", "N"]]);
    }

    #[test]
    fn a_prefix_of_a_row_is_incomplete() {
        let text = b"\"a \"\" b\",\"c\"\r\n";
        for length in 0..text.len() {
            let mut values = vec![];
            let step = Dialect::CSV.row(&text[..length], 0, false, &mut values);
            assert_eq!((step, values.len()), (Step::Incomplete, 0), "{length}");
        }
        assert_eq!(Dialect::CSV.row(text, 0, false, &mut vec![]), Step::Row(text.len()));
    }
}
