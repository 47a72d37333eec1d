//! Queries that begin with FROM: `FROM t SELECT a`, and `FROM t WHERE a > 1`, which returns all
//! columns.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{find, is, nesting, words};

/// Words in front of a query.
const BEFORE: [&str; 7] = ["as", "union", "except", "intersect", "explain", "analyze", "verbose"];
/// Words that join queries.
const SET_OPERATIONS: [&str; 3] = ["union", "except", "intersect"];
/// Functions whose arguments may begin with FROM.
const FUNCTIONS: [&str; 4] = ["trim", "substring", "overlay", "extract"];

/// Words behind the list of a SELECT.
const BEHIND: [&str; 12] = [
    "where",
    "group",
    "having",
    "window",
    "qualify",
    "order",
    "limit",
    "offset",
    "fetch",
    "union",
    "except",
    "intersect",
];
/// Maximum number of queries of a text that are written out; the parser reads most others too.
const QUERIES_MAX: usize = 1000;

/// True if a text may have such a query.
pub(super) fn is_in(tokens: &[TokenWithSpan]) -> bool {
    let significant = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
    let (mut last, mut is_insert) = (None::<&TokenWithSpan>, false);
    tokens.iter().filter(significant).any(|token| {
        let before = last.replace(token);
        is_insert |= is(token, "into");
        let begins = |before: &TokenWithSpan| {
            let is_sign = matches!(before.token, Token::LParen | Token::RParen | Token::SemiColon);
            is_sign || ["all", "distinct"].iter().chain(&BEFORE).any(|word| is(before, word))
        };
        is(token, "from") && (is_insert || before.is_none_or(begins))
    })
}

/// Writes the queries that begin with FROM with their SELECT first, and the SELECT of those that
/// have none.
pub(super) fn write_out(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut written = tokens.to_vec();
    let mut from = 0;
    for _ in 0..QUERIES_MAX {
        let next = (from..written.len())
            .find(|place| is(&written[*place], "from") && begins_query(&written[..*place]));
        let Some(place) = next else { break };
        match select_of(&written, place) {
            Some(select) => {
                let behind =
                    |_: usize, token: &TokenWithSpan| BEHIND.iter().any(|word| is(token, word));
                let end = find(&written, select + 1, behind);
                written[place..end].rotate_left(select - place);
            }
            None => {
                written.splice(place..place, words("SELECT *"));
            }
        }
        from = place + 1;
    }
    written
}

/// The place of the SELECT of the query that begins with a FROM.
fn select_of(tokens: &[TokenWithSpan], from: usize) -> Option<usize> {
    let end = find(tokens, from + 1, |_, token| {
        is(token, "select") || SET_OPERATIONS.iter().any(|word| is(token, word))
    });
    tokens.get(end).is_some_and(|token| is(token, "select")).then_some(end)
}

/// True if a FROM behind these tokens begins a query.
fn begins_query(before: &[TokenWithSpan]) -> bool {
    let Some((last, rest)) = before.split_last() else { return true };
    match last.token {
        Token::SemiColon => true,
        Token::LParen => {
            !rest.last().is_some_and(|name| FUNCTIONS.iter().any(|function| is(name, function)))
        }
        Token::RParen => follows_brackets(before),
        _ if is(last, "all") || is(last, "distinct") => {
            rest.last().is_some_and(|word| SET_OPERATIONS.iter().any(|it| is(word, it)))
        }
        _ => BEFORE.iter().any(|word| is(last, word)) || is_target(before),
    }
}

/// True if the brackets at the end are a query of WITH, the options of EXPLAIN, or the columns of
/// an INSERT.
fn follows_brackets(before: &[TokenWithSpan]) -> bool {
    let mut depth = 0;
    let open = before.iter().rposition(|token| {
        depth += nesting(token);
        depth == 0
    });
    let Some(front) = open.map(|open| &before[..open]) else { return false };
    let is_prefix =
        |word: &TokenWithSpan| ["as", "materialized", "explain"].iter().any(|it| is(word, it));
    front.last().is_some_and(is_prefix) || is_target(front)
}

/// True behind the table of an INSERT: `INSERT INTO s.t`.
fn is_target(before: &[TokenWithSpan]) -> bool {
    let mut rest = before;
    loop {
        let [front @ .., name] = rest else { return false };
        if !matches!(name.token, Token::Word(_)) {
            return false;
        }
        match front {
            [.., insert, into] if is(into, "into") => {
                return ["insert", "replace", "ignore"].iter().any(|word| is(insert, word));
            }
            [qualified @ .., period] if period.token == Token::Period => rest = qualified,
            _ => return false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::written;

    #[test]
    fn queries_without_a_select_get_one() {
        let cases = [
            ("FROM t WHERE a > 1", "SELECT * FROM t WHERE a > 1"),
            ("FROM t", "SELECT * FROM t"),
            ("FROM t SELECT a", "SELECT a FROM t"),
            (
                "FROM t JOIN u USING (k) SELECT a, b WHERE c ORDER BY d",
                "SELECT a , b FROM t JOIN u USING ( k ) WHERE c ORDER BY d",
            ),
            ("SELECT (FROM t SELECT max(a))", "SELECT ( SELECT max ( a ) FROM t )"),
            ("INSERT INTO s.t FROM u", "INSERT INTO s . t SELECT * FROM u"),
            ("INSERT INTO t SELECT a FROM u", "INSERT INTO t SELECT a FROM u"),
            ("SELECT a INTO t FROM u", "SELECT a INTO t FROM u"),
            ("UPDATE t SET a = (b) FROM u", "UPDATE t SET a = ( b ) FROM u"),
            ("COPY t (a) FROM 'f'", "COPY t ( a ) FROM 'f'"),
            ("FROM a UNION ALL FROM b", "SELECT * FROM a UNION ALL SELECT * FROM b"),
            ("FROM (FROM t WHERE b) x SELECT c", "SELECT c FROM ( SELECT * FROM t WHERE b ) x"),
            (
                "WITH q AS (FROM t) FROM q LIMIT 1",
                "WITH q AS ( SELECT * FROM t ) SELECT * FROM q LIMIT 1",
            ),
            ("INSERT INTO t (a) FROM u", "INSERT INTO t ( a ) SELECT * FROM u"),
            ("CREATE TABLE t AS FROM u", "CREATE TABLE t AS SELECT * FROM u"),
            ("SELECT (a) FROM t", "SELECT ( a ) FROM t"),
            ("SELECT a IS DISTINCT FROM b", "SELECT a IS DISTINCT FROM b"),
            ("SELECT trim(FROM a)", "SELECT trim ( FROM a )"),
            ("DELETE FROM t", "DELETE FROM t"),
            ("FETCH ALL FROM c", "FETCH ALL FROM c"),
            ("SELECT extract(year FROM d) FROM t", "SELECT extract ( year FROM d ) FROM t"),
        ];
        for (text, expected) in cases {
            assert_eq!(written(text), expected, "{text}");
        }
    }
}
