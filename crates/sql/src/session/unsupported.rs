//! Statements of PostgreSQL that are not supported: refused with an alternative, in place of a
//! syntax error.

use datafusion::sql::sqlparser::parser::Parser;
use terrace_table::error::SqlError;

use super::refusal::refused;
use super::words::is_word;

/// The first words of the statements, and the alternative that the error names.
const STATEMENTS: [(&[&str], &str); 8] = [
    (&["do"], "there is no procedural language; send its statements by themselves"),
    (&["listen"], "sessions do not send messages to each other; read a table from time to time"),
    (&["notify"], "sessions do not send messages to each other; write a row into a table"),
    (&["prepare", "transaction"], TWO_PHASES),
    (&["commit", "prepared"], TWO_PHASES),
    (&["rollback", "prepared"], TWO_PHASES),
    (&["reindex"], "there are no indexes"),
    (&["cluster"], "there are no indexes; INSERT the rows in the order that they are to have"),
];

const TWO_PHASES: &str = "a transaction has one COMMIT, which is on the device before it returns";

/// Refuses the statement that follows if it is one of these.
///
/// # Errors
/// [`SqlError::Refused`].
pub(super) fn refuse(parser: &Parser<'_>) -> Result<(), SqlError> {
    let is_next = |words: &[&str]| {
        (0..).zip(words).all(|(n, word)| is_word(&parser.peek_nth_token_ref(n).token, word))
    };
    match STATEMENTS.iter().find(|(words, _)| is_next(words)) {
        Some((words, instead)) => Err(refused(&words.join(" ").to_uppercase(), instead)),
        None => Ok(()),
    }
}
