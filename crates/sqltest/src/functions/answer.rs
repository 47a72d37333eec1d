//! Answers of databases to a call.

use std::fmt;

use crate::value::{Value, same};

/// Maximum number of characters of an answer that is printed.
const SHOWN_MAX: usize = 160;

/// The answer of a database.
#[derive(Clone, Debug)]
pub enum Answer {
    /// The values of its rows.
    Values(Vec<Value>),
    /// An error for these values.
    Refused(String),
    /// The database has no such function for these types, or was not asked.
    Unknown,
}

impl Answer {
    /// True if both databases gave the same values. The rows of a function that returns a set are
    /// the elements of a list.
    #[must_use]
    pub fn agrees(&self, other: &Self) -> bool {
        let (Self::Values(one), Self::Values(other)) = (self, other) else { return false };
        let equal = one.len() == other.len() && one.iter().zip(other).all(|(a, b)| same(a, b));
        let is_set = |one: &[Value], rows: &[Value]| match one {
            [Value::List(elements)] => {
                elements.len() == rows.len() && elements.iter().zip(rows).all(|(a, b)| same(a, b))
            }
            [Value::Null] => rows.is_empty(),
            _ => false,
        };
        equal || is_set(one, other) || is_set(other, one)
    }
}

impl fmt::Display for Answer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = match self {
            Self::Values(values) => {
                let values: Vec<_> = values.iter().map(ToString::to_string).collect();
                values.join("; ")
            }
            Self::Refused(message) => {
                format!("error: {}", message.lines().next().unwrap_or_default())
            }
            Self::Unknown => "-".to_owned(),
        };
        let short: String = text.chars().take(SHOWN_MAX).collect();
        let rest = if short.len() < text.len() { "..." } else { "" };
        write!(f, "{short}{rest}")
    }
}

/// The verdict on one call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// A database gives the same answer.
    Right,
    /// Terrace refuses, and so does each database that has the function.
    RefusedByAll,
    /// Terrace refuses, and a database answers.
    Refused,
    /// Terrace's answer differs from those of all other databases.
    Different,
    /// No database has the function for these types.
    Unjudged,
}

/// Compares Terrace's answer with those of the other databases.
#[must_use]
pub fn verdict(own: &Answer, judges: &[Answer]) -> Verdict {
    let answers = judges.iter().any(|judge| matches!(judge, Answer::Values(_)));
    let refuses = judges.iter().any(|judge| matches!(judge, Answer::Refused(_)));
    match own {
        Answer::Values(_) if judges.iter().any(|judge| own.agrees(judge)) => Verdict::Right,
        Answer::Values(_) if answers || refuses => Verdict::Different,
        Answer::Values(_) | Answer::Unknown => Verdict::Unjudged,
        Answer::Refused(_) if refuses => Verdict::RefusedByAll,
        Answer::Refused(_) if answers => Verdict::Refused,
        Answer::Refused(_) => Verdict::Unjudged,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn number(text: &str) -> Answer {
        Answer::Values(vec![Value::Number(text.to_owned())])
    }

    #[test]
    fn one_judge_is_enough() {
        let refused = Answer::Refused("out of range".to_owned());
        assert_eq!(verdict(&number("1"), &[number("2"), number("1")]), Verdict::Right);
        assert_eq!(verdict(&number("1"), &[number("2"), Answer::Unknown]), Verdict::Different);
        assert_eq!(verdict(&number("1"), &[refused.clone(), Answer::Unknown]), Verdict::Different);
        assert_eq!(verdict(&number("1"), &[Answer::Unknown]), Verdict::Unjudged);
        assert_eq!(verdict(&refused, &[number("1"), refused.clone()]), Verdict::RefusedByAll);
        assert_eq!(verdict(&refused, &[number("1")]), Verdict::Refused);
    }

    #[test]
    fn the_rows_of_a_set_are_the_elements_of_a_list() {
        let (one, two) = (Value::Number("1".to_owned()), Value::Number("2".to_owned()));
        let list = Answer::Values(vec![Value::List(vec![one.clone(), two.clone()])]);
        let rows = Answer::Values(vec![one, two.clone()]);
        assert!(list.agrees(&rows) && rows.agrees(&list));
        assert!(!list.agrees(&Answer::Values(vec![two])));
    }
}
