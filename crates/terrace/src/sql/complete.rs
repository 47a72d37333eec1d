//! Helper of the line editor: completes words, and decides when an input of several lines is
//! complete.

use std::sync::{Arc, PoisonError, RwLock};

use rustyline::completion::Completer;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::validate::{ValidationContext, ValidationResult, Validator};
use rustyline::{Context, Helper, Result};

use crate::sql::meta;
use crate::sql::split::is_complete;

/// Keywords of SQL that are completed.
const KEYWORDS: &[&str] = &[
    "ALTER",
    "ANALYZE",
    "AND",
    "AS",
    "ASC",
    "AVG",
    "BETWEEN",
    "BY",
    "CASE",
    "CAST",
    "COPY",
    "COUNT",
    "CREATE",
    "CROSS",
    "DATE",
    "DELETE",
    "DESC",
    "DESCRIBE",
    "DISTINCT",
    "DROP",
    "ELSE",
    "END",
    "EXCEPT",
    "EXISTS",
    "EXPLAIN",
    "EXTERNAL",
    "EXTRACT",
    "FALSE",
    "FROM",
    "FULL",
    "GROUP",
    "HAVING",
    "IN",
    "INNER",
    "INSERT",
    "INTERSECT",
    "INTERVAL",
    "INTO",
    "IS",
    "JOIN",
    "LEFT",
    "LIKE",
    "LIMIT",
    "LOCATION",
    "MAX",
    "MIN",
    "NOT",
    "NULL",
    "OFFSET",
    "ON",
    "OR",
    "ORDER",
    "OUTER",
    "OVER",
    "PARTITION",
    "REPLACE",
    "RESET",
    "RIGHT",
    "SELECT",
    "SET",
    "SHOW",
    "STORED",
    "SUM",
    "TABLE",
    "TABLES",
    "THEN",
    "TO",
    "TRUE",
    "TRUNCATE",
    "UNION",
    "USING",
    "VALUES",
    "VIEW",
    "WHEN",
    "WHERE",
    "WITH",
];

/// Names of tables and columns, refreshed before each prompt.
#[derive(Clone, Debug, Default)]
pub struct Names(Arc<RwLock<Vec<String>>>);

impl Names {
    /// Replaces the names.
    pub fn set(&self, mut names: Vec<String>) {
        names.sort();
        names.dedup();
        *self.0.write().unwrap_or_else(PoisonError::into_inner) = names;
    }

    /// Returns the completions of `word`: names first, then keywords in the case of the word.
    pub fn candidates(&self, word: &str) -> Vec<String> {
        let begins = |name: &str| {
            name.get(..word.len()).is_some_and(|start| start.eq_ignore_ascii_case(word))
        };
        let names = self.0.read().unwrap_or_else(PoisonError::into_inner);
        let names = names.iter().filter(|name| begins(name)).cloned();
        let lower = word.starts_with(|first: char| first.is_ascii_lowercase());
        let keywords = KEYWORDS.iter().filter(|keyword| !word.is_empty() && begins(keyword));
        let keyword = |word: &&str| if lower { word.to_lowercase() } else { (*word).to_string() };
        names.chain(keywords.map(keyword)).collect()
    }
}

/// Callbacks of the line editor.
#[derive(Debug, Default)]
pub struct SqlHelper {
    /// Names for completion.
    pub names: Names,
}

impl Completer for SqlHelper {
    type Candidate = String;

    fn complete(&self, line: &str, pos: usize, _: &Context<'_>) -> Result<(usize, Vec<String>)> {
        let start = word_start(&line[..pos]);
        let word = &line[start..pos];
        if word.starts_with(['\\', '.']) && start == 0 {
            return Ok((start, meta::completions(word)));
        }
        Ok((start, self.names.candidates(word)))
    }
}

/// Returns the start of the word that ends the text. A qualified name is one word.
fn word_start(text: &str) -> usize {
    text.char_indices()
        .rev()
        .find(|(_, letter)| !letter.is_alphanumeric() && !matches!(letter, '_' | '.' | '\\'))
        .map_or(0, |(at, letter)| at + letter.len_utf8())
}

impl Validator for SqlHelper {
    fn validate(&self, context: &mut ValidationContext<'_>) -> Result<ValidationResult> {
        let text = context.input();
        let whole = meta::is_command(text) || is_complete(text);
        Ok(if whole { ValidationResult::Valid(None) } else { ValidationResult::Incomplete })
    }
}

impl Hinter for SqlHelper {
    type Hint = String;
}

impl Highlighter for SqlHelper {}

impl Helper for SqlHelper {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_come_before_keywords_in_the_case_that_was_typed() {
        let names = Names::default();
        names.set(vec!["orders".into(), "o_orderkey".into(), "orders".into()]);
        assert_eq!(names.candidates("or"), ["orders", "or", "order"]);
        assert_eq!(names.candidates("ORD"), ["orders", "ORDER"]);
        assert_eq!(names.candidates("o_"), ["o_orderkey"]);
        assert!(names.candidates("xyz").is_empty());
    }

    #[test]
    fn an_empty_word_offers_names_only() {
        let names = Names::default();
        names.set(vec!["t".into()]);
        assert_eq!(names.candidates(""), ["t"]);
    }

    #[test]
    fn words_begin_after_blanks_and_punctuation() {
        assert_eq!(word_start("select ord"), 7);
        assert_eq!(word_start("select (a,terrace.ti"), 10);
        assert_eq!(word_start("\\d or"), 3);
        assert_eq!(word_start("\\tim"), 0);
        assert_eq!(word_start(""), 0);
        assert_eq!(word_start("'\u{e4}' x"), 5);
    }
}
