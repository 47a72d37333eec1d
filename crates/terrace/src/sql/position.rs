//! Excerpt for a syntax error: the line of the statement, and a mark below the position of the
//! error.

use terrace_sql::SqlError;

use crate::error::CliError;

/// Maximum number of characters of the line that are shown on either side of the position.
const CONTEXT: usize = 60;

/// Adds an excerpt of `statement` to its error, if the error's message has a position.
pub fn shown(error: SqlError, statement: &str) -> CliError {
    match place(&error.to_string()).and_then(|place| excerpt(statement, place)) {
        Some(excerpt) => CliError::Syntax { error: Box::new(error), excerpt },
        None => error.into(),
    }
}

/// Returns the line and column at the end of a parser's message, both counted from 1.
fn place(message: &str) -> Option<(usize, usize)> {
    let (_, place) = message.rsplit_once("at Line: ")?;
    let (line, column) = place.split_once(", Column: ")?;
    let digits = column.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(column.len());
    Some((line.parse().ok()?, column[..digits].parse().ok()?))
}

/// Returns the line with a mark below the column.
fn excerpt(statement: &str, (line, column): (usize, usize)) -> Option<String> {
    let text = statement.lines().nth(line.checked_sub(1)?)?;
    let at = column.checked_sub(1)?;
    let first = at.saturating_sub(CONTEXT);
    // A tab is shown as one blank, so that the mark is below the right character.
    let blank = |letter: char| if letter.is_control() { ' ' } else { letter };
    let shown: String = text.chars().skip(first).take(2 * CONTEXT).map(blank).collect();
    let label = format!("LINE {line}: ");
    let indent = label.len() + at - first;
    Some(format!("{label}{}\n{}^", shown.trim_end(), " ".repeat(indent)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_below_the_column() {
        let message = "Expected: an SQL statement, found: SELCT at Line: 2, Column: 3";
        assert_eq!(place(message), Some((2, 3)));
        let shown = excerpt("a\n\u{e4} SELCT 1", (2, 3)).expect("a line");
        assert_eq!(shown, "LINE 2: \u{e4} SELCT 1\n          ^");
        let long = excerpt(&"x".repeat(10_000), (1, 5_000)).expect("a line");
        assert_eq!(long.lines().next().map(str::len), Some("LINE 1: ".len() + 120));
        for (text, place) in [("a", (2, 1)), ("", (1, 1)), ("a", (0, 0))] {
            assert_eq!(excerpt(text, place), None, "{text} {place:?}");
        }
        for message in ["no place", "at Line: x, Column: 1", "at Line: 1"] {
            assert_eq!(place(message), None, "{message}");
        }
    }
}
