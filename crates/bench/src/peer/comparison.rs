//! Comparison of the answers of several engines to the same queries.

use std::collections::BTreeMap;

use crate::error::{BenchError, Result};
use crate::peer::Reply;
use crate::suite::answer::Answer;
use crate::suite::reference::Reference;
use crate::tpcds::check::check as check_rows;
use crate::tpcds::shape::Shape;
use crate::tpch::check::{Precision, check};
use crate::tpch::official::{OFFICIAL_SCALE, official_answer};
use crate::tpch::query::Query;

/// A query that several engines answer.
#[derive(Clone, Debug)]
pub struct Question {
    /// Name in reports and errors.
    pub name: String,
    /// Text of the query.
    pub text: String,
    /// The TPC-H query, if it is one.
    query: Option<Query>,
}

impl Question {
    /// Creates a TPC-H query at a scale.
    pub fn of(query: Query, scale: f64) -> Question {
        let name = format!("query {}", query.number);
        Question { name, text: query.text(scale), query: Some(query) }
    }

    /// Creates a query that is not of TPC-H.
    pub fn named(name: &str, text: &str) -> Question {
        Question { name: name.to_owned(), text: text.to_owned(), query: None }
    }

    /// Compares an answer with another engine's.
    fn compare(&self, expected: &Answer, found: &Answer) -> std::result::Result<(), String> {
        match &self.query {
            Some(query) => check(query, Precision::Digits, expected, found),
            None => {
                let width = expected.rows.first().map_or(0, Vec::len);
                let columns = vec![String::new(); width];
                let expected = Reference { columns, answer: expected.clone() };
                check_rows(&Shape::of(&self.text), &expected, found)
            }
        }
    }
}

/// Compares every answer with the specification's, if it has one at this scale, and with the first
/// answer of any engine.
#[derive(Debug)]
pub struct Comparison {
    scale: f64,
    first: BTreeMap<String, (&'static str, Answer)>,
}

impl Comparison {
    /// Creates a comparison for queries at a scale.
    #[must_use]
    pub fn new(scale: f64) -> Comparison {
        Comparison { scale, first: BTreeMap::new() }
    }

    /// Checks an engine's reply to a query: its rows if it has them, and their count in any case. A
    /// reply with an error is accepted.
    ///
    /// # Errors
    /// [`BenchError::Engine`] that names the query and the first difference.
    pub fn judge(&mut self, question: &Question, by: &'static str, reply: &Reply) -> Result<()> {
        if reply.error.is_some() {
            return Ok(());
        }
        let wrong = |difference: String| {
            Err(BenchError::Engine(format!("{}, {}: {difference}", question.name, by)))
        };
        if let Some(answer) = &reply.answer
            && let Err(difference) = self.listed(question, answer)
        {
            return wrong(format!("not the specification's answer: {difference}"));
        }
        match (self.first.get(&question.name), &reply.answer) {
            (Some((other, expected)), answer) => {
                let same = match answer {
                    Some(answer) => question.compare(expected, answer),
                    None if reply.rows == expected.rows.len() => Ok(()),
                    None => Err(format!("{} rows instead of {}", reply.rows, expected.rows.len())),
                };
                same.or_else(|difference| wrong(format!("not the answer of {other}: {difference}")))
            }
            (None, Some(answer)) => {
                self.first.insert(question.name.clone(), (by, answer.clone()));
                Ok(())
            }
            (None, None) => Ok(()),
        }
    }

    fn listed(&self, question: &Question, answer: &Answer) -> std::result::Result<(), String> {
        let query = question.query.filter(|_| self.scale.total_cmp(&OFFICIAL_SCALE).is_eq());
        let Some(query) = query else { return Ok(()) };
        let Some(listed) = official_answer(query.number) else { return Ok(()) };
        check(&query, Precision::Hundredths, &listed, &answer.trimmed())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(rows: &[&[&str]]) -> Reply {
        let rows: Vec<Vec<String>> =
            rows.iter().map(|row| row.iter().map(ToString::to_string).collect()).collect();
        Reply { rows: rows.len(), answer: Some(Answer { rows }), ..Reply::default() }
    }

    fn question(number: u32, scale: f64) -> Result<Question> {
        Ok(Question::of(Query::of(number)?, scale))
    }

    /// Returns the message of a mismatch; empty if there is none.
    fn said(judged: Result<()>) -> String {
        judged.err().map(|error| error.to_string()).unwrap_or_default()
    }

    #[test]
    fn another_answer_with_the_same_count_of_rows_is_refused_by_name() -> Result<()> {
        let mut comparison = Comparison::new(0.01);
        let query = question(4, 0.01)?;
        let right = reply(&[&["1-URGENT", "93"], &["2-HIGH", "103"]]);
        comparison.judge(&query, "terrace", &right)?;
        comparison.judge(&query, "DuckDB", &right)?;
        let wrong = reply(&[&["1-URGENT", "93"], &["2-HIGH", "104"]]);
        let message = said(comparison.judge(&query, "DuckDB", &wrong));
        for word in ["query 4", "DuckDB", "terrace", "104"] {
            assert!(message.contains(word), "{word}: {message}");
        }
        // There is no expected answer to any other query.
        comparison.judge(&question(6, 0.01)?, "DuckDB", &reply(&[&["1.5"]]))
    }

    #[test]
    fn replies_without_rows_are_counted_and_errors_are_no_answers() -> Result<()> {
        let mut comparison = Comparison::new(0.01);
        let query = question(4, 0.01)?;
        comparison.judge(&query, "terrace", &reply(&[&["a", "1"]]))?;
        let counted = |rows| Reply { rows, ..Reply::default() };
        comparison.judge(&query, "DuckDB", &counted(1))?;
        assert!(comparison.judge(&query, "DuckDB", &counted(2)).is_err());
        let failed = Reply { error: Some("no memory".into()), ..counted(2) };
        comparison.judge(&query, "DuckDB", &failed)
    }

    #[test]
    fn at_the_scale_of_the_specification_its_answers_are_right() -> Result<()> {
        let mut comparison = Comparison::new(1.0);
        let query = question(6, 1.0)?;
        let found = |value: &str| reply(&[&[value]]);
        comparison.judge(&query, "terrace", &found("123141078.2283"))?;
        let refused = comparison.judge(&query, "terrace", &found("123141079.23"));
        assert!(said(refused).contains("specification"));
        Ok(())
    }

    #[test]
    fn other_queries_are_compared_row_by_row() -> Result<()> {
        let mut comparison = Comparison::new(1.0);
        let sort = Question::named("the sort", "SELECT max(place), count(*) FROM sorted");
        comparison.judge(&sort, "terrace", &reply(&[&["7", "7"]]))?;
        let refused = comparison.judge(&sort, "DuckDB", &reply(&[&["6", "7"]]));
        assert!(said(refused).contains("the sort, DuckDB"));
        Ok(())
    }
}
