//! Clauses of PostgreSQL and DuckDB that the parser lacks, rewritten in the tokens of a text.
//!
//! ```text
//! TABLE t                       ->  SELECT * FROM t
//! FROM t WHERE a > 1            ->  SELECT * FROM t WHERE a > 1
//! LIMIT 50%                     ->  LIMIT "limit percent"(50)
//! a POSITIONAL JOIN b           ->  a GLOBAL CROSS JOIN b
//! a ASOF LEFT JOIN b ON c       ->  a GLOBAL LEFT JOIN b ON c
//! FROM t USING SAMPLE 10 ROWS   ->  FROM "using sample"() TABLESAMPLE (10 ROWS), t
//! RANGE '1 day'::interval PRECEDING ->  RANGE ('1 day'::interval) PRECEDING
//! SELECT * LIKE 's%'            ->  SELECT COLUMNS('^s.*$')
//! x > ALL ((q) EXCEPT (r))      ->  x > ALL (SELECT * FROM ((q) EXCEPT (r)))
//! PIVOT t ON k USING sum(v)     ->  SELECT * FROM t PIVOT (... FOR ... IN (SELECT ...))
//! UNPIVOT t ON a, b             ->  SELECT * FROM t UNPIVOT (value FOR name IN (a, b))
//! WHEN MATCHED THEN DO NOTHING  ->  WHEN MATCHED THEN UPDATE SET "do nothing" = NULL
//! CREATE TABLE t (s STRUCT(x INT)) ->  CREATE TABLE t (s STRUCT<x INT>)
//! INSERT INTO t BY NAME SELECT  ->  INSERT INTO t ("by name") SELECT
//! CREATE TABLE t AS q WITH DATA ->  CREATE TABLE t AS q
//! (LIKE t INCLUDING ALL)        ->  (LIKE t."like +all")
//! WITH c AS MATERIALIZED (q)    ->  WITH c ("as materialized") AS (q)
//! FOR NO KEY UPDATE LIMIT 1     ->  LIMIT 1 FOR UPDATE
//! ```
//!
//! Each clause becomes one that the parser accepts and that has no other meaning; the rewrites of
//! the syntax tree and the planners of relations give it its own. A view is stored in that form.

mod changes;
mod definitions;
mod filling;
mod frames;
mod from_first;
mod joins;
mod limit;
mod materialized;
mod nested;
mod pivot;
mod row_locks;
mod sample;
mod stars;
mod structs;
mod tokens;

use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan, Tokenizer};

use super::dialect::TerraceDialect;
pub(super) use changes::{BY_NAME, DEFAULTS, NOTHING};
pub(super) use definitions::{LIKE, OVERRIDING, OVERRIDING_USER};
pub(super) use limit::PERCENT;
pub(super) use materialized::MATERIALIZED;
pub(super) use pivot::{ON, PIVOT, VALUE};
pub(super) use sample::SAMPLE;
use tokens::{QUERY_WORDS, is};

/// Words of these clauses. A text without any of them, and without a clause that the function
/// `tokens` tests for itself, is not rewritten.
const WORDS: [&str; 17] = [
    "table",
    "percent",
    "fetch",
    "positional",
    "asof",
    "sample",
    "tablesample",
    "pivot",
    "unpivot",
    "exclude",
    "merge",
    "identity",
    "including",
    "excluding",
    "overriding",
    "data",
    "materialized",
];

/// Splits a text into the tokens that the parser reads.
///
/// # Errors
/// Errors of the tokenizer, a name without characters, and a clause that is incomplete.
pub(super) fn tokens(text: &str) -> Result<Vec<TokenWithSpan>, ParserError> {
    let mut tokens = Tokenizer::new(&TerraceDialect, text).tokenize_with_location()?;
    refuse_empty_names(&tokens)?;
    let has_share = tokens.iter().any(|token| token.token == Token::Mod)
        && tokens.iter().any(|token| is(token, "limit"));
    let is_special = has_share
        || stars::is_in(&tokens)
        || nested::is_in(&tokens)
        || from_first::is_in(&tokens)
        || structs::is_in(&tokens)
        || frames::is_in(&tokens)
        || row_locks::is_in(&tokens)
        || changes::inserts_by_name(&tokens);
    if !is_special && !tokens.iter().any(|token| WORDS.iter().any(|word| is(token, word))) {
        return Ok(tokens);
    }
    tokens.retain(|token| !matches!(token.token, Token::Whitespace(_) | Token::EOF));
    let tokens = materialized::write_out(&row_locks::write_out(&tokens));
    let tokens = filling::write_out(&tokens);
    let tokens = structs::write_out(&definitions::write_out(&tokens));
    let tokens = stars::write_out(&table(&frames::write_out(&from_first::write_out(&tokens))));
    let tokens = changes::write_out(&joins::write_out(&limit::write_out(&tokens)));
    pivot::write_out(&sample::write_out(&nested::write_out(&tokens))?)
}

/// Refuses the empty name `""`.
fn refuse_empty_names(tokens: &[TokenWithSpan]) -> Result<(), ParserError> {
    let is_empty = |token: &&TokenWithSpan| match &token.token {
        Token::Word(word) => word.quote_style.is_some() && word.value.is_empty(),
        _ => false,
    };
    match tokens.iter().find(is_empty) {
        None => Ok(()),
        Some(token) => {
            let start = token.span.start;
            Err(ParserError::TokenizerError(format!("zero-length delimited identifier{start}")))
        }
    }
}

/// Rewrites `TABLE t`.
fn table(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut written = Vec::with_capacity(tokens.len());
    for (place, token) in tokens.iter().enumerate() {
        let next = tokens.get(place + 1);
        // A query follows in the definition of a macro.
        let is_query = next.is_some_and(|next| QUERY_WORDS.iter().any(|word| is(next, word)));
        let is_name = next.is_some_and(|next| matches!(next.token, Token::Word(_))) && !is_query;
        // `ANALYZE TABLE t` is no query, `EXPLAIN ANALYZE TABLE t` is.
        let mut before = tokens[..place].iter().rev();
        let is_analyzed = before.next().is_some_and(|token| is(token, "analyze"))
            && before.next().is_none_or(|token| token.token == Token::SemiColon);
        let is_query =
            is(token, "table") && is_name && tokens::begins_query(&tokens[..place]) && !is_analyzed;
        match is_query {
            true => written.extend(tokens::words("SELECT * FROM")),
            false => written.push(token.clone()),
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    pub(super) fn written(text: &str) -> String {
        let tokens = tokens(text).expect("tokens");
        let tokens = tokens.iter().filter(|it| !matches!(it.token, Token::Whitespace(_)));
        tokens.map(|it| it.token.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn a_table_is_a_query() {
        let cases = [
            ("TABLE t ORDER BY a", "SELECT * FROM t ORDER BY a"),
            ("TABLE a UNION ALL TABLE b", "SELECT * FROM a UNION ALL SELECT * FROM b"),
            ("CREATE VIEW v AS TABLE t", "CREATE VIEW v AS SELECT * FROM t"),
            ("SELECT (TABLE t)", "SELECT ( SELECT * FROM t )"),
            ("CREATE TABLE t (a INT)", "CREATE TABLE t ( a INT )"),
            ("ALTER TABLE t ADD a INT", "ALTER TABLE t ADD a INT"),
            ("CREATE MACRO f() AS TABLE SELECT 1", "CREATE MACRO f ( ) AS TABLE SELECT 1"),
            ("GRANT SELECT ON TABLE t TO r", "GRANT SELECT ON TABLE t TO r"),
            ("SELECT \"table\" x", "SELECT \"table\" x"),
        ];
        for (text, expected) in cases {
            assert_eq!(written(text), expected, "{text}");
        }
    }

    #[test]
    fn definitions_are_written_for_the_parser() {
        let cases = [
            (
                "CREATE TABLE t (a INT AS IDENTITY (START WITH 5 NO CYCLE INCREMENT BY -2))",
                "CREATE TABLE t ( a INT AS IDENTITY ( INCREMENT BY - 2 START WITH 5 NO CYCLE ) )",
            ),
            (
                "CREATE TABLE t (LIKE s.u INCLUDING ALL EXCLUDING IDENTITY)",
                "CREATE TABLE t ( LIKE s . u . \"like +all -identity\" )",
            ),
            (
                "INSERT INTO t (a) OVERRIDING SYSTEM VALUE VALUES (1)",
                "INSERT INTO t ( a , \"overriding system value\" ) VALUES ( 1 )",
            ),
            ("SELECT identity, including FROM t", "SELECT identity , including FROM t"),
        ];
        for (text, expected) in cases {
            assert_eq!(written(text), expected, "{text}");
        }
    }

    #[test]
    fn tables_of_queries_have_rows_or_none() {
        let cases = [
            ("CREATE TABLE t AS SELECT 1 WITH DATA", "CREATE TABLE t AS SELECT 1"),
            (
                "SELECT 1; CREATE TABLE t (a) AS (SELECT 1 LIMIT 5) WITH NO DATA; SELECT data",
                "SELECT 1 ; CREATE TABLE t ( a ) AS SELECT * FROM ( ( SELECT 1 LIMIT 5 ) ) AS \
                    \"no data\" LIMIT 0 ; SELECT data",
            ),
            ("SELECT a AS data FROM with_data", "SELECT a AS data FROM with_data"),
            ("CREATE VIEW v AS SELECT 1 AS data", "CREATE VIEW v AS SELECT 1 AS data"),
        ];
        for (text, expected) in cases {
            assert_eq!(written(text), expected, "{text}");
        }
    }

    #[test]
    fn joins_and_limits_are_marked() {
        let cases = [
            ("SELECT 1 LIMIT 50 %", "SELECT 1 LIMIT \"limit percent\" ( 50 )"),
            ("SELECT 1 LIMIT 5 % 2", "SELECT 1 LIMIT 5 % 2"),
            (
                "(TABLE t LIMIT (1+2) PERCENT) x",
                "( SELECT * FROM t LIMIT \"limit percent\" ( ( 1 + 2 ) ) ) x",
            ),
            ("SELECT * FROM a POSITIONAL JOIN b", "SELECT * FROM a GLOBAL CROSS JOIN b"),
            ("SELECT * FROM a ASOF JOIN b ON c", "SELECT * FROM a GLOBAL INNER JOIN b ON c"),
            (
                "SELECT * FROM a ASOF LEFT OUTER JOIN b ON c",
                "SELECT * FROM a GLOBAL LEFT OUTER JOIN b ON c",
            ),
            ("SELECT asof FROM positional", "SELECT asof FROM positional"),
        ];
        for (text, expected) in cases {
            assert_eq!(written(text), expected, "{text}");
        }
    }

    #[test]
    fn samples_are_those_of_the_parser() {
        let cases = [
            ("SELECT * FROM t TABLESAMPLE 10%", "SELECT * FROM t TABLESAMPLE ( 10 PERCENT )"),
            (
                "SELECT * FROM t TABLESAMPLE SYSTEM (10)",
                "SELECT * FROM t TABLESAMPLE SYSTEM ( 10 )",
            ),
            (
                "SELECT * FROM t TABLESAMPLE reservoir(10 ROWS)",
                "SELECT * FROM t TABLESAMPLE ROW ( 10 ROWS )",
            ),
            (
                "SELECT 1 FROM t, u WHERE a USING SAMPLE 10 PERCENT (bernoulli, 7)",
                "SELECT 1 FROM \"using sample\" ( ) TABLESAMPLE BERNOULLI ( 10 PERCENT ) \
                    REPEATABLE ( 7 ) , t , u WHERE a",
            ),
            (
                "SELECT 1 FROM t USING SAMPLE 5 ORDER BY 1",
                "SELECT 1 FROM \"using sample\" ( ) TABLESAMPLE ( 5 ROWS ) , t ORDER BY 1",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(written(text), expected, "{text}");
        }
    }

    #[test]
    fn pivots_are_tables() {
        let pivot = "PIVOT ( pivoted ( ) FOR \"pivot value\" IN ( SELECT";
        let cases = [
            (
                "PIVOT t ON k USING sum(v) AS s GROUP BY a ORDER BY a",
                format!(
                    "SELECT * FROM t {pivot} \"pivot\" ( \"pivot on\" ( k ) ) , sum ( v ) \
                    AS s GROUP BY a ) ) ORDER BY a"
                ),
            ),
            (
                "WITH p AS (PIVOT t ON k IN ('a' AS x, 'b'), j) SELECT 1",
                format!(
                    "WITH p AS ( SELECT * FROM t {pivot} \"pivot\" ( \"pivot on\" ( k , \
                    \"pivot value\" ( 'a' , 'x' ) , \"pivot value\" ( 'b' ) ) , \"pivot on\" ( \
                    j ) ) ) ) ) SELECT 1"
                ),
            ),
            (
                "SELECT * FROM t PIVOT (sum(v) FOR k IN (1) j IN (2, 3)) p",
                format!(
                    "SELECT * FROM t {pivot} \"pivot\" ( \"pivot on\" ( k , \"pivot value\" \
                    ( 1 ) ) , \"pivot on\" ( j , \"pivot value\" ( 2 ) , \"pivot value\" ( 3 ) \
                    ) ) , sum ( v ) ) ) p"
                ),
            ),
            (
                "UNPIVOT t ON a, * EXCLUDE (b)",
                "SELECT * FROM t UNPIVOT ( \"value\" FOR \"name\" IN ( a , COLUMNS ( * EXCLUDE \
                    ( b ) ) ) )"
                    .to_owned(),
            ),
            (
                "SELECT * FROM (UNPIVOT t ON a INTO NAME n VALUE v, w LIMIT 1)",
                "SELECT * FROM ( SELECT * FROM t UNPIVOT ( ( v , w ) FOR n IN ( a ) ) LIMIT 1 )"
                    .to_owned(),
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(written(text), expected, "{text}");
            assert_eq!(written(&expected), expected, "{text}");
        }
    }
}
