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
        let mut text = match self.is_literal {
            true => regex::escape(pattern),
            false => Syntax::of(pattern).text,
        };
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

/// A regular expression of PostgreSQL in the syntax of the crate `regex`: `\m`, `\M`, `\y`, `\Y`
/// are the boundaries of words, and `\Z` is the end of the text.
struct Syntax {
    text: String,
    /// True if a period stands for any character.
    has_period: bool,
}

impl Syntax {
    fn of(pattern: &str) -> Self {
        let mut syntax = Self { text: String::with_capacity(pattern.len()), has_period: false };
        let mut is_class = false;
        let mut letters = pattern.chars();
        while let Some(letter) = letters.next() {
            match letter {
                '\\' => {
                    let escaped = letters.next();
                    match escaped.filter(|_| !is_class) {
                        Some('m') => syntax.text.push_str(r"\b{start}"),
                        Some('M') => syntax.text.push_str(r"\b{end}"),
                        Some('y') => syntax.text.push_str(r"\b"),
                        Some('Y') => syntax.text.push_str(r"\B"),
                        Some('Z') => syntax.text.push_str(r"\z"),
                        _ => syntax.text.extend(['\\'].into_iter().chain(escaped)),
                    }
                    continue;
                }
                // A bracket at the beginning of a class is a member of it.
                '[' if !is_class => {
                    is_class = true;
                    syntax.text.push('[');
                    for first in ['^', ']'] {
                        if letters.as_str().starts_with(first) {
                            syntax.text.extend(letters.next());
                        }
                    }
                    continue;
                }
                '[' if letters.as_str().starts_with(':') => {
                    let named = letters.as_str();
                    let end = named.find(":]").map_or(named.len(), |at| at + 2);
                    syntax.text.push('[');
                    syntax.text.push_str(&named[..end]);
                    letters = named[end..].chars();
                    continue;
                }
                ']' => is_class = false,
                '.' if !is_class => syntax.has_period = true,
                _ => {}
            }
            syntax.text.push(letter);
        }
        syntax
    }
}

/// Returns the pattern of PostgreSQL's operators `~`, `~*`, `!~` and `!~*` in the syntax of the
/// operators of DataFusion, where a period does not match a line break.
pub fn operator_pattern(pattern: &str) -> String {
    let Syntax { text, has_period } = Syntax::of(pattern);
    if has_period { format!("(?s){text}") } else { text }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_of_postgres_have_the_syntax_of_the_crate() {
        for (pattern, expected) in [
            ("abc", "abc"),
            (r"\mcat\M", r"\b{start}cat\b{end}"),
            (r"\ya\Yb\Z", r"\ba\Bb\z"),
            (r"\\m\d", r"\\m\d"),
            (r"a.c", r"(?s)a.c"),
            (r"a\.c[.]", r"a\.c[.]"),
            (r"[]\y[:alpha:].]x", r"[]\y[:alpha:].]x"),
            (r"[^]].", r"(?s)[^]]."),
            (r"\", r"\"),
            (r"[[:alpha", r"[[:alpha"),
        ] {
            assert_eq!(operator_pattern(pattern), expected, "{pattern}");
        }
    }
}
