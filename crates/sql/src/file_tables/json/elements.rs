//! Splitter of JSON text into elements: the values of an array, or newline-delimited values.

/// Layout of the elements of a file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Layout {
    /// An array if the file begins with one, and nothing follows it in the first block.
    #[default]
    Auto,
    /// One array.
    Array,
    /// Values with white space between them, usually one in each line.
    Lines,
}

/// Splitter of bytes into elements.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Splitter {
    layout: Layout,
    /// True behind the bracket of an array.
    is_open: bool,
    /// True after an element of an array: a comma or the end of the array must follow.
    is_behind: bool,
    has_ended: bool,
}

/// Result of a step of the splitter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Bytes between elements; the next step begins here.
    Skip(usize),
    /// An element from `start` to before `end`; the next step begins at `end`.
    Element { start: usize, end: usize },
    /// The end of the elements.
    End,
    /// The bytes end before the element does.
    Incomplete,
    /// Bytes that are no JSON, and why.
    Malformed(usize, &'static str),
}

impl Splitter {
    pub(super) fn new(layout: Layout) -> Self {
        Self { layout, ..Self::default() }
    }

    /// Makes a step from `at`. `is_end` says that no bytes follow.
    pub(super) fn step(&mut self, bytes: &[u8], at: usize, is_end: bool) -> Step {
        let rest = &bytes[at..];
        let blanks = rest.iter().take_while(|byte| byte.is_ascii_whitespace()).count();
        if blanks > 0 {
            return Step::Skip(at + blanks);
        }
        if rest.is_empty() {
            return self.end(at, is_end);
        }
        if self.has_ended {
            return Step::Malformed(at, "there are bytes behind the end of the array");
        }
        match self.layout {
            Layout::Auto => {
                self.layout = layout_of(rest, is_end);
                self.step(bytes, at, is_end)
            }
            Layout::Lines => element(bytes, at, is_end),
            Layout::Array => self.array_step(bytes, at, is_end),
        }
    }

    fn end(&self, at: usize, is_end: bool) -> Step {
        match (is_end, self.layout, self.has_ended) {
            (false, ..) => Step::Incomplete,
            (true, Layout::Array, false) => Step::Malformed(at, "the array does not end"),
            (true, ..) => Step::End,
        }
    }

    fn array_step(&mut self, bytes: &[u8], at: usize, is_end: bool) -> Step {
        let first = bytes[at];
        if !self.is_open {
            if first != b'[' {
                return Step::Malformed(at, "it is no array; say format = 'newline_delimited'");
            }
            self.is_open = true;
            return Step::Skip(at + 1);
        }
        if first == b']' {
            self.has_ended = true;
            return Step::Skip(at + 1);
        }
        if self.is_behind {
            if first != b',' {
                return Step::Malformed(at, "a comma is missing between elements of the array");
            }
            self.is_behind = false;
            return Step::Skip(at + 1);
        }
        let step = element(bytes, at, is_end);
        self.is_behind = matches!(step, Step::Element { .. });
        step
    }
}

/// The layout of a file that begins with these bytes. An array that other bytes follow is itself an
/// element of a newline-delimited file. `is_end` says that no bytes follow.
fn layout_of(bytes: &[u8], is_end: bool) -> Layout {
    if bytes.first() != Some(&b'[') {
        return Layout::Lines;
    }
    match element(bytes, 0, is_end) {
        Step::Element { end, .. }
            if bytes[end..].iter().any(|byte| !byte.is_ascii_whitespace()) =>
        {
            Layout::Lines
        }
        _ => Layout::Array,
    }
}

/// Reads the element at `start`.
fn element(bytes: &[u8], start: usize, is_end: bool) -> Step {
    let incomplete = match is_end {
        true => Step::Malformed(start, "a value does not end"),
        false => Step::Incomplete,
    };
    let (mut depth, mut is_quoted, mut is_escaped) = (0_usize, false, false);
    for (length, byte) in bytes[start..].iter().enumerate() {
        let end = start + length;
        if is_quoted {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' => is_escaped = true,
                b'"' => {
                    is_quoted = false;
                    if depth == 0 {
                        return Step::Element { start, end: end + 1 };
                    }
                }
                _ => {}
            }
            continue;
        }
        match byte {
            b'"' => is_quoted = true,
            b'{' | b'[' => depth += 1,
            b'}' | b']' if depth == 1 => return Step::Element { start, end: end + 1 },
            b'}' | b']' if depth == 0 && length == 0 => {
                return Step::Malformed(start, "a bracket closes that was not opened");
            }
            b'}' | b']' if depth > 0 => depth -= 1,
            b',' if depth == 0 && length == 0 => {
                return Step::Malformed(start, "a comma stands where a value is expected");
            }
            b',' | b'}' | b']' if depth == 0 => return Step::Element { start, end },
            byte if depth == 0 && byte.is_ascii_whitespace() => {
                return Step::Element { start, end };
            }
            _ => {}
        }
    }
    match is_end && depth == 0 && !is_quoted {
        true => Step::Element { start, end: bytes.len() },
        false => incomplete,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The elements of a text that arrives in pieces of `size`, or the reason why it is malformed.
    fn split(text: &str, layout: Layout, size: usize) -> Result<Vec<String>, &'static str> {
        let (mut splitter, mut at, mut length) = (Splitter::new(layout), 0, 0);
        let mut found = vec![];
        loop {
            let is_end = length == text.len();
            match splitter.step(&text.as_bytes()[..length], at, is_end) {
                Step::Skip(next) => at = next,
                Step::Element { start, end } => {
                    found.push(text[start..end].to_owned());
                    at = end;
                }
                Step::End => return Ok(found),
                Step::Incomplete => length = (length + size).min(text.len()),
                Step::Malformed(_, what) => return Err(what),
            }
        }
    }

    #[test]
    fn commas_between_lines_are_refused() {
        for (text, layout) in [
            ("{\"a\":1},{\"a\":2}", Layout::Lines),
            (",", Layout::Lines),
            ("[1,,2]", Layout::Array),
        ] {
            let refused = split(text, layout, 3).expect_err(text);
            assert!(refused.contains("comma"), "{text}: {refused}");
        }
    }

    #[test]
    fn elements_are_found_in_pieces_of_any_size() {
        let objects = ["{\"a\": \"}]\\\"\", \"b\": [1, {\"c\": 2}]}", "{}", "[1]"];
        let lines = format!(" {}\n{}\r\n\n{}", objects[0], objects[1], objects[2]);
        let array = format!("\n[{} , {},{}\n] \n", objects[0], objects[1], objects[2]);
        for size in [1, 2, 5, 1000] {
            assert_eq!(split(&lines, Layout::Auto, size), Ok(objects.map(str::to_owned).to_vec()));
            assert_eq!(split(&lines, Layout::Lines, size).map(|found| found.len()), Ok(3));
            assert_eq!(split(&array, Layout::Auto, size), Ok(objects.map(str::to_owned).to_vec()));
            assert_eq!(split(&array, Layout::Lines, size).map(|found| found.len()), Ok(1));
            assert_eq!(split("1 \"a b\" null", Layout::Auto, size).map(|it| it.len()), Ok(3));
            assert_eq!(split("[]", Layout::Auto, size), Ok(vec![]));
            assert_eq!(split(" ", Layout::Auto, size), Ok(vec![]));
        }
    }

    #[test]
    fn arrays_may_be_elements() {
        for (text, layout) in [
            ("[1, [2]]\n", Layout::Array),
            ("[1]\n[2]", Layout::Lines),
            ("{}", Layout::Lines),
            ("", Layout::Lines),
            ("[1, 2", Layout::Array),
        ] {
            assert_eq!(layout_of(text.as_bytes(), true), layout, "{text}");
        }
    }

    #[test]
    fn malformed_elements_are_refused() {
        for (text, layout) in [
            ("[1", Layout::Auto),
            ("[1 2]", Layout::Auto),
            ("[1] 2", Layout::Auto),
            ("{\"a\"", Layout::Auto),
            ("\"a", Layout::Auto),
            ("}", Layout::Auto),
            ("{}", Layout::Array),
        ] {
            assert!(split(text, layout, 1).is_err(), "{text}");
        }
    }
}
