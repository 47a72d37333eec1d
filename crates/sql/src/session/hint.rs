//! Suggestions for SQL spelled differently in other databases.

use datafusion::common::DataFusionError;
use terrace_table::error::SqlError;

/// The error for a text that cannot be parsed: the parser's `error`, or for COPY FROM without
/// quotes around the file one with a suggestion.
pub(super) fn of_parse_error(text: &str, error: DataFusionError) -> SqlError {
    let copies_from = text.split(';').any(|statement| {
        let words: Vec<String> =
            statement.split_whitespace().map(str::to_ascii_lowercase).collect();
        let [first, .., _] = words.as_slice() else { return false };
        first == "copy" && words.iter().any(|word| word == "from") && !words.contains(&"to".into())
    });
    if copies_from && error.to_string().contains("found: FROM") {
        return SqlError::Refused {
            what: "this COPY ... FROM".to_owned(),
            instead: "name a file in quotes, COPY table FROM 'file', or STDIN".to_owned(),
        };
    }
    error.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(text: &str, found: &str) -> String {
        of_parse_error(text, DataFusionError::Plan(format!("found: {found}"))).to_string()
    }

    #[test]
    fn copy_from_is_told_from_other_errors() {
        assert!(hint("SELECT 1; copy t FROM x.csv", "FROM").contains("in quotes"));
        assert!(!hint("COPY (SELECT 1 FROM t) TO 'x' FROM", "FROM").contains("in quotes"));
        assert!(!hint("SELECT FROM FROM t", "FROM").contains("in quotes"));
        assert!(!hint("COPY t FROM 'x'", "EOF").contains("in quotes"));
    }
}
