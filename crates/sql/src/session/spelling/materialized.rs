//! AS MATERIALIZED and AS NOT MATERIALIZED in WITH.
//!
//! ```text
//! WITH c AS MATERIALIZED (SELECT 1)    ->  WITH c ("as materialized") AS (SELECT 1)
//! WITH c (n) AS MATERIALIZED (TABLE t) ->  WITH c ("as materialized", n) AS (TABLE t)
//! WITH c AS NOT MATERIALIZED (TABLE t) ->  WITH c AS (TABLE t)
//! ```
//! The first column marks the query (`with_queries.rs`). A query that is NOT MATERIALIZED may be
//! evaluated once anyway, where its copies would return other rows, as in PostgreSQL.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{QUERY_WORDS, are_at, is, quoted, sign};

/// Name of the column that marks a query.
pub(in crate::session) const MATERIALIZED: &str = "as materialized";

/// Rewrites the WITH queries of all statements.
pub(super) fn write_out(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut place = 0;
    while let Some(token) = tokens.get(place) {
        let words = words_behind(tokens, place);
        if words > 0 && begins_query(tokens, place + 1 + words) {
            if words == 1 {
                mark(&mut written);
            }
            written.push(token.clone());
            place += 1 + words;
        } else {
            written.push(token.clone());
            place += 1;
        }
    }
    written
}

/// The number of words behind AS: 1 for MATERIALIZED, 2 for NOT MATERIALIZED, else 0.
fn words_behind(tokens: &[TokenWithSpan], place: usize) -> usize {
    if are_at(tokens, place, &["as", "materialized"]) {
        1
    } else if are_at(tokens, place, &["as", "not", "materialized"]) {
        2
    } else {
        0
    }
}

/// True if a query in parentheses begins at a place; columns do in `FROM t AS materialized (a)`.
fn begins_query(tokens: &[TokenWithSpan], place: usize) -> bool {
    let is_open = |token: &TokenWithSpan| token.token == Token::LParen;
    let first = tokens.get(place + 1);
    let begins = |first: &TokenWithSpan| {
        is_open(first) || is(first, "table") || QUERY_WORDS.iter().any(|word| is(first, word))
    };
    tokens.get(place).is_some_and(is_open) && first.is_some_and(begins)
}

/// Adds the column that marks a query to those behind its name.
fn mark(written: &mut Vec<TokenWithSpan>) {
    let has_columns = written.last().is_some_and(|last| last.token == Token::RParen);
    let open = written.iter().rposition(|token| token.token == Token::LParen);
    match open.filter(|_| has_columns) {
        Some(open) => {
            let column = [quoted(MATERIALIZED), sign(Token::Comma)];
            written.splice(open + 1..open + 1, column);
        }
        None => written.extend([sign(Token::LParen), quoted(MATERIALIZED), sign(Token::RParen)]),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::written;

    #[test]
    fn materialized_queries_are_marked() {
        let cases = [
            (
                "WITH c AS MATERIALIZED (SELECT 1) SELECT 1",
                "WITH c ( \"as materialized\" ) AS ( SELECT 1 ) SELECT 1",
            ),
            (
                "WITH a AS (SELECT 1), c(n, m) AS MATERIALIZED (TABLE t) FROM c",
                "WITH a AS ( SELECT 1 ) , c ( \"as materialized\" , n , m ) AS ( SELECT * FROM t ) \
                 SELECT * FROM c",
            ),
            (
                "WITH c AS NOT MATERIALIZED ((SELECT 1) UNION (SELECT 2)) SELECT 1",
                "WITH c AS ( ( SELECT 1 ) UNION ( SELECT 2 ) ) SELECT 1",
            ),
            (
                "SELECT materialized.a FROM t AS materialized (a)",
                "SELECT materialized . a FROM t AS materialized ( a )",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(written(text), expected, "{text}");
        }
    }
}
