//! `FOR NO KEY UPDATE`, `FOR KEY SHARE`, `FOR UPDATE OF a, b`, and locks of rows before a LIMIT.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{are_at, find, is, is_at, split, words};

/// The strengths of locks: the words after FOR in PostgreSQL, and the parser's keyword.
const STRENGTHS: [(&[&str], &str); 4] = [
    (&["update"], "UPDATE"),
    (&["no", "key", "update"], "UPDATE"),
    (&["share"], "SHARE"),
    (&["key", "share"], "SHARE"),
];

/// Words that begin a limit of rows.
const LIMITS: [&str; 3] = ["limit", "offset", "fetch"];

/// True if a text may lock rows.
pub(super) fn is_in(tokens: &[TokenWithSpan]) -> bool {
    let significant = |token: &&TokenWithSpan| !matches!(token.token, Token::Whitespace(_));
    let mut is_behind = false;
    tokens.iter().filter(significant).any(|token| {
        std::mem::replace(&mut is_behind, is(token, "for"))
            && STRENGTHS.iter().any(|(words, _)| is(token, words[0]))
    })
}

/// Rewrites lock clauses for the parser: moves them behind the LIMIT of their query, and splits a
/// clause with several tables into one for each.
pub(super) fn write_out(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut written = Vec::with_capacity(tokens.len());
    let mut place = 0;
    while let Some(token) = tokens.get(place) {
        let mut locks = Vec::new();
        while let Some((lock, end)) = lock_at(tokens, place) {
            locks.extend(lock);
            place = end;
            if LIMITS.iter().any(|word| is_at(tokens, place, word)) {
                let behind = find(tokens, place, |_, token| is(token, "for"));
                written.extend_from_slice(&tokens[place..behind]);
                place = behind;
            }
        }
        if locks.is_empty() {
            written.push(token.clone());
            place += 1;
        }
        written.extend(locks);
    }
    written
}

/// The lock clauses that replace the one at a place, and the place behind it.
fn lock_at(tokens: &[TokenWithSpan], place: usize) -> Option<(Vec<TokenWithSpan>, usize)> {
    if !is_at(tokens, place, "for") {
        return None;
    }
    let strength = STRENGTHS.iter().find(|(words, _)| are_at(tokens, place + 1, words));
    let (said, strength) = strength?;
    let mut end = place + 1 + said.len();
    // PIVOT ... FOR share IN (...).
    if is_at(tokens, end, "in") {
        return None;
    }
    let mut tables = vec![];
    let has_tables = is_at(tokens, end, "of");
    if has_tables {
        let start = end + 1;
        end = find(tokens, start, |_, token| {
            ["nowait", "skip", "for"].iter().chain(&LIMITS).any(|word| is(token, word))
        });
        tables = split(&tokens[start..end]);
    }
    let waits = match are_at(tokens, end, &["skip", "locked"]) {
        true => 2,
        false => usize::from(is_at(tokens, end, "nowait")),
    };
    let wait = &tokens[end..end + waits];
    let lock = |table: &[TokenWithSpan]| {
        let of = if has_tables { " OF" } else { "" };
        let mut lock: Vec<_> = words(&format!("FOR {strength}{of}")).collect();
        lock.extend_from_slice(table);
        lock.extend_from_slice(wait);
        lock
    };
    let locks = match tables.is_empty() {
        true => lock(&[]),
        false => tables.into_iter().flat_map(lock).collect(),
    };
    Some((locks, end + waits))
}

#[cfg(test)]
mod tests {
    use super::super::tests::written;

    #[test]
    fn locks_of_rows_are_written_for_the_parser() {
        let cases = [
            ("SELECT a FROM t FOR UPDATE", "SELECT a FROM t FOR UPDATE"),
            ("SELECT a FROM t FOR NO KEY UPDATE NOWAIT", "SELECT a FROM t FOR UPDATE NOWAIT"),
            ("SELECT a FROM t FOR KEY SHARE;", "SELECT a FROM t FOR SHARE ;"),
            (
                "SELECT a FROM t, u FOR SHARE OF t, u SKIP LOCKED",
                "SELECT a FROM t , u FOR SHARE OF t SKIP LOCKED FOR SHARE OF u SKIP LOCKED",
            ),
            (
                "SELECT (SELECT a FROM t FOR UPDATE SKIP LOCKED LIMIT 1 OFFSET 2) x",
                "SELECT ( SELECT a FROM t LIMIT 1 OFFSET 2 FOR UPDATE SKIP LOCKED ) x",
            ),
            (
                "SELECT a FROM t FOR UPDATE OF t FETCH FIRST ROW ONLY FOR SHARE",
                "SELECT a FROM t FETCH FIRST ROW ONLY FOR UPDATE OF t FOR SHARE",
            ),
            ("SELECT a FROM t LIMIT 1 FOR UPDATE", "SELECT a FROM t LIMIT 1 FOR UPDATE"),
            // Errors of the parser.
            ("SELECT a FROM t FOR UPDATE OF", "SELECT a FROM t FOR UPDATE OF"),
            ("SELECT a FROM t FOR UPDATE OF t,", "SELECT a FROM t FOR UPDATE OF t FOR UPDATE OF"),
            ("SELECT substring(a FROM 1 FOR share)", "SELECT substring ( a FROM 1 FOR SHARE )"),
        ];
        for (text, expected) in cases {
            assert_eq!(written(text), expected, "{text}");
        }
    }
}
