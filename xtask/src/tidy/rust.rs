//! Scanner of Rust source that separates code, comments and strings, line by line.
//!
//! The rules look for words in code; a word in a comment or in a string is no violation. This is
//! not a parser: it knows literals, comments and brackets, which suffices for the rules.

use std::iter;

use super::{line::Line, region};

/// A source file.
pub struct Rust {
    pub lines: Vec<Line>,
}

/// Lexical state at the cursor.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Code,
    LineComment,
    BlockComment(u32),
    Text,
    RawText(usize),
    Character,
}

struct Scanner {
    characters: Vec<char>,
    at: usize,
    state: State,
    lines: Vec<Line>,
}

impl Rust {
    /// Separates code, comments and strings, and marks test code.
    pub fn parse(text: &str) -> Self {
        let scanner = Scanner {
            characters: text.chars().collect(),
            at: 0,
            state: State::Code,
            lines: vec![Line::default()],
        };
        let mut rust = Self { lines: scanner.scan() };
        rust.mark_test_regions();
        rust
    }

    /// Returns the code of all lines with their numbers from 1.
    pub fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines.iter().enumerate().map(|(index, line)| (index + 1, line.code.as_str()))
    }

    /// Returns the names of modules in separate files that are declared under `#[cfg(test)]`.
    pub fn test_modules(&self) -> impl Iterator<Item = &str> {
        self.lines.iter().filter(|line| line.test).filter_map(|line| {
            let declaration = line.code.trim().strip_suffix(';')?;
            let (before, name) = declaration.split_once("mod ")?;
            matches!(before.trim(), "" | "pub" | "pub(crate)").then(|| name.trim())
        })
    }

    /// Marks all lines as test code.
    pub fn mark_all_test(&mut self) {
        for line in &mut self.lines {
            line.test = true;
        }
    }

    fn mark_test_regions(&mut self) {
        for start in 0..self.lines.len() {
            if is_test_attribute(self.lines[start].code.trim()) {
                let end = region::item_end(&self.lines, start);
                for line in &mut self.lines[start..=end] {
                    line.test = true;
                }
            }
        }
    }
}

/// Returns true if an attribute makes the item that follows test code.
fn is_test_attribute(code: &str) -> bool {
    let Some(attribute) = code.strip_prefix("#[") else { return false };
    let condition = attribute.strip_prefix("cfg(").map(|rest| rest.replace("not(test", "not("));
    match condition {
        Some(condition) => contains_word(&condition, "test"),
        None => attribute.starts_with("test]") || attribute.starts_with("tokio::test"),
    }
}

/// Returns true if `word` occurs in `code` with no letter, digit or underscore beside it.
pub fn contains_word(code: &str, word: &str) -> bool {
    word_at(code, word).is_some()
}

/// Returns the position of `word` in `code` with no letter, digit or underscore beside it.
pub fn word_at(code: &str, word: &str) -> Option<usize> {
    let part = |c: char| c.is_alphanumeric() || c == '_';
    let whole = |start: &usize| {
        !code[..*start].ends_with(part) && !code[*start + word.len()..].starts_with(part)
    };
    code.match_indices(word).map(|(start, _)| start).find(whole)
}

impl Scanner {
    fn scan(mut self) -> Vec<Line> {
        while self.at < self.characters.len() {
            let character = self.characters[self.at];
            if character == '\n' {
                self.end_line();
            } else {
                self.step(character);
            }
        }
        self.lines
    }

    fn end_line(&mut self) {
        if self.state == State::LineComment {
            self.state = State::Code;
        }
        self.lines.push(Line::default());
        self.at += 1;
    }

    fn step(&mut self, character: char) {
        match self.state {
            State::Code => self.code(character),
            State::LineComment => self.comment(1),
            State::BlockComment(depth) => self.block_comment(depth),
            State::Text => self.literal(character, '"'),
            State::Character => self.literal(character, '\''),
            State::RawText(hashes) => self.raw_text(character, hashes),
        }
    }

    fn code(&mut self, character: char) {
        if self.starts_with("//") {
            self.state = State::LineComment;
            self.comment(2);
        } else if self.starts_with("/*") {
            self.state = State::BlockComment(1);
            self.comment(2);
        } else if let Some(hashes) = self.raw_text_start() {
            self.state = State::RawText(hashes);
            self.keep(hashes + 2);
        } else {
            match character {
                '"' => self.state = State::Text,
                '\'' if self.is_character() => self.state = State::Character,
                _ => {}
            }
            self.keep(1);
        }
    }

    fn block_comment(&mut self, depth: u32) {
        if self.starts_with("/*") {
            self.state = State::BlockComment(depth + 1);
            self.comment(2);
        } else if self.starts_with("*/") {
            self.state = if depth == 1 { State::Code } else { State::BlockComment(depth - 1) };
            self.comment(2);
        } else {
            self.comment(1);
        }
    }

    fn literal(&mut self, character: char, end: char) {
        match character {
            '\\' => {
                // The escaped character is skipped too, unless it is the end of the line.
                let next = self.characters.get(self.at + 1);
                self.blank(if next == Some(&'\n') { 1 } else { 2 });
            }
            _ if character == end => {
                self.state = State::Code;
                self.keep(1);
            }
            _ => self.blank(1),
        }
    }

    fn raw_text(&mut self, character: char, hashes: usize) {
        let closing = |offset: &usize| self.characters.get(self.at + offset) == Some(&'#');
        if character == '"' && (1..=hashes).all(|offset| closing(&offset)) {
            self.state = State::Code;
            self.keep(hashes + 1);
        } else {
            self.blank(1);
        }
    }

    /// Returns the number of hashes if a raw string starts here.
    fn raw_text_start(&self) -> Option<usize> {
        if self.characters[self.at] != 'r' {
            return None;
        }
        let before = self.at.checked_sub(1).map(|at| self.characters[at]);
        if before.is_some_and(|c| c.is_alphanumeric() && !matches!(c, 'b' | 'c') || c == '_') {
            return None;
        }
        let rest = &self.characters[self.at + 1..];
        let hashes = rest.iter().take_while(|c| **c == '#').count();
        (rest.get(hashes) == Some(&'"')).then_some(hashes)
    }

    /// Returns true if the quote starts a character and not a lifetime.
    fn is_character(&self) -> bool {
        let next = self.characters.get(self.at + 1);
        next == Some(&'\\') || self.characters.get(self.at + 2) == Some(&'\'')
    }

    fn starts_with(&self, text: &str) -> bool {
        let rest = self.characters[self.at..].iter().copied();
        text.chars().zip(rest.chain(iter::repeat('\0'))).all(|(a, b)| a == b)
    }

    fn keep(&mut self, count: usize) {
        self.take(count, |line, character| line.code.push(character));
    }

    fn blank(&mut self, count: usize) {
        self.take(count, |line, _| line.code.push(' '));
    }

    fn comment(&mut self, count: usize) {
        self.take(count, |line, character| {
            line.code.push(' ');
            line.comment.push(character);
        });
    }

    fn take(&mut self, count: usize, put: impl Fn(&mut Line, char)) {
        let end = (self.at + count).min(self.characters.len());
        for at in self.at..end {
            if let Some(line) = self.lines.last_mut() {
                put(line, self.characters[at]);
            }
        }
        self.at = end;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(text: &str) -> String {
        let lines: Vec<_> = Rust::parse(text).lines.into_iter().map(|line| line.code).collect();
        lines.join("\n")
    }

    #[test]
    fn comments_and_strings_are_blank() {
        assert_eq!(code("a(\"x.unwrap()\") // y"), "a(\"          \")     ");
        assert_eq!(code("a /* b /* c */ d */ e"), "a                   e");
        assert_eq!(code("r#\"a\"b\"# c"), "r#\"   \"# c");
        assert_eq!(code("br\"\\\" d"), "br\" \" d");
        assert_eq!(code("\"a\\\"b\" c"), "\"    \" c");
    }

    #[test]
    fn quotes_of_lifetimes_and_characters_differ() {
        assert_eq!(code("f::<'a>('\"', '\\'', x)"), "f::<'a>(' ', '  ', x)");
        assert_eq!(code("fn f<'a>(x: &'a str) { \"{\" }"), "fn f<'a>(x: &'a str) { \" \" }");
    }

    #[test]
    fn a_string_may_span_lines() {
        assert_eq!(code("\"a \\\nb\" c\nd"), "\"   \n \" c\nd");
    }

    #[test]
    fn test_code_is_marked() {
        let rust = Rust::parse("fn a() {}\n#[cfg(test)]\nmod tests {\n fn b() {}\n}\nfn c() {}\n");
        let marks: Vec<_> = rust.lines.iter().map(|line| line.test).collect();
        assert_eq!(marks, [false, true, true, true, true, false, false]);
        let rust = Rust::parse("#[cfg(not(test))]\nfn a() {}\n#[cfg(all(test, unix))]\nuse b;\n");
        let marks: Vec<_> = rust.lines.iter().map(|line| line.test).collect();
        assert_eq!(marks, [false, false, true, true, false]);
    }

    #[test]
    fn words_are_whole() {
        assert!(contains_word("x as fn()", "fn"));
        assert!(!contains_word("a_fn fnx", "fn"));
        assert_eq!(word_at("fnx fn", "fn"), Some(4));
    }
}
