//! `CREATE TABLE ... AS query WITH [NO] DATA`.
//!
//! ```text
//! CREATE TABLE t AS q WITH DATA     ->  CREATE TABLE t AS q
//! CREATE TABLE t AS q WITH NO DATA  ->  CREATE TABLE t AS SELECT * FROM (q) AS "no data" LIMIT 0
//! ```

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{are_at, find, is, quoted, sign, words};

/// Name of the relation whose rows are left out.
const NO_DATA: &str = "no data";

/// Rewrites the clauses of all statements.
pub(super) fn write_out(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut written = Vec::with_capacity(tokens.len());
    let mut start = 0;
    while start < tokens.len() {
        let end = find(tokens, start, |_, _| false).max(start + 1);
        let statement = &tokens[start..end];
        match filled(statement) {
            Some(statement) => written.extend(statement),
            None => written.extend_from_slice(statement),
        }
        start = end;
    }
    written
}

/// The statement with WITH [NO] DATA rewritten; `None` if it does not have the clause.
fn filled(statement: &[TokenWithSpan]) -> Option<Vec<TokenWithSpan>> {
    let create = statement.iter().position(|token| is(token, "create"))?;
    let table = find(statement, create, |_, token| is(token, "table") || is(token, "as"));
    let query = find(statement, table, |_, token| is(token, "as")) + 1;
    if !statement.get(table).is_some_and(|token| is(token, "table")) || query > statement.len() {
        return None;
    }
    let clause = |words: &[&str]| {
        let begin = statement.len().checked_sub(words.len())?;
        (begin > query && are_at(statement, begin, words)).then_some(begin)
    };
    if let Some(end) = clause(&["with", "data"]) {
        return Some(statement[..end].to_vec());
    }
    let end = clause(&["with", "no", "data"])?;
    let mut written = statement[..query].to_vec();
    written.extend(words("SELECT * FROM"));
    written.push(sign(Token::LParen));
    written.extend_from_slice(&statement[query..end]);
    written.push(sign(Token::RParen));
    written.extend(words("AS"));
    written.push(quoted(NO_DATA));
    written.extend(words("LIMIT"));
    written.push(sign(Token::Number("0".to_owned(), false)));
    Some(written)
}
