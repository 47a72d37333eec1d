//! Compiled regular expressions.

use datafusion::common::{Result, exec_datafusion_err, exec_err};
use regex::{Regex, RegexBuilder};

/// Maximum bytes of one compiled expression, and of its cache.
const PROGRAM_BYTES_MAX: usize = 10 << 20;

/// Options of a regular expression.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Options {
    ignores_case: bool,
    is_literal: bool,
    /// True if a period matches a line break.
    crosses_lines: bool,
    /// True if `^` and `$` match at line breaks.
    has_lines: bool,
    is_expanded: bool,
    /// True if the expression must match the whole text.
    is_whole: bool,
}

impl Options {
    /// DuckDB's options: `c`, `i`, `l`, `s`, and `m`, `n` or `p`.
    ///
    /// # Errors
    /// If another letter is among them.
    pub(super) fn of_duckdb(letters: &str) -> Result<Self> {
        let mut options = Self::default();
        for letter in letters.chars() {
            match letter {
                'c' => options.ignores_case = false,
                'i' => options.ignores_case = true,
                'l' => options.is_literal = true,
                's' => options.crosses_lines = true,
                'm' | 'n' | 'p' => options.crosses_lines = false,
                other => {
                    return exec_err!("{other:?} is no option of this function; c, i, l, m, s are");
                }
            }
        }
        Ok(options)
    }

    /// PostgreSQL's options: `c`, `i`, `q`, `s`, `t`, `x`, and `m` or `n`. Without options a period
    /// matches a line break.
    ///
    /// # Errors
    /// If another letter is among them.
    pub(super) fn of_postgres(letters: &str) -> Result<Self> {
        let mut options = Self { crosses_lines: true, ..Self::default() };
        for letter in letters.chars() {
            match letter {
                'c' => options.ignores_case = false,
                'i' => options.ignores_case = true,
                'q' => options.is_literal = true,
                's' => (options.crosses_lines, options.has_lines) = (true, false),
                'm' | 'n' => (options.crosses_lines, options.has_lines) = (false, true),
                't' => options.is_expanded = false,
                'x' => options.is_expanded = true,
                other => {
                    return exec_err!("{other:?} is no option of this function; c, i, n, q, x are");
                }
            }
        }
        Ok(options)
    }

    /// The same options, for the whole text.
    pub(super) fn whole(self) -> Self {
        Self { is_whole: true, ..self }
    }

    fn compile(self, pattern: &str) -> Result<Regex> {
        let mut text = if self.is_literal { regex::escape(pattern) } else { pattern.to_owned() };
        if self.is_whole {
            text = format!("^(?:{text})$");
        }
        let compiled = RegexBuilder::new(&text)
            .case_insensitive(self.ignores_case)
            .dot_matches_new_line(self.crosses_lines)
            .multi_line(self.has_lines)
            .ignore_whitespace(self.is_expanded)
            .size_limit(PROGRAM_BYTES_MAX)
            .dfa_size_limit(PROGRAM_BYTES_MAX)
            .build();
        compiled
            .map_err(|error| exec_datafusion_err!("{pattern:?} is no regular expression: {error}"))
    }
}

/// Cache of the last compiled regular expression; mostly all rows have the same one.
#[derive(Debug, Default)]
pub(super) struct Patterns {
    known: Option<(String, Options, Regex)>,
}

impl Patterns {
    /// The compiled form of an expression.
    ///
    /// # Errors
    /// If it is no regular expression, or too large.
    pub(super) fn of(&mut self, pattern: &str, options: Options) -> Result<&Regex> {
        let is_known =
            |(known, with, _): &(String, Options, Regex)| known == pattern && *with == options;
        let known = match self.known.take() {
            Some(known) if is_known(&known) => known,
            _ => (pattern.to_owned(), options, options.compile(pattern)?),
        };
        Ok(&self.known.insert(known).2)
    }

    /// The compiled form of a pattern of LIKE.
    ///
    /// # Errors
    /// If `escape` has several characters, or stands at the end of the pattern.
    pub(super) fn of_like(
        &mut self,
        pattern: &str,
        escape: &str,
        ignores_case: bool,
    ) -> Result<&Regex> {
        let mut escapes = escape.chars();
        let (escape, None) = (escapes.next(), escapes.next()) else {
            return exec_err!("ESCAPE takes one character, not {escape:?}");
        };
        let mut text = String::from("^");
        let mut letters = pattern.chars();
        while let Some(letter) = letters.next() {
            match letter {
                _ if Some(letter) == escape => match letters.next() {
                    Some(escaped) => {
                        text.push_str(&regex::escape(escaped.encode_utf8(&mut [0; 4])))
                    }
                    None => return exec_err!("the pattern {pattern:?} ends in its escape"),
                },
                '%' => text.push_str(".*"),
                '_' => text.push('.'),
                _ => text.push_str(&regex::escape(letter.encode_utf8(&mut [0; 4]))),
            }
        }
        text.push('$');
        self.of(&text, Options { ignores_case, crosses_lines: true, ..Options::default() })
    }
}
