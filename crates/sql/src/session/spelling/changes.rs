//! Changes of rows: `THEN DO NOTHING` and `INSERT DEFAULT VALUES` in a MERGE, `INSERT ... BY NAME`.
//!
//! ```text
//! WHEN MATCHED THEN DO NOTHING     ->  ... THEN UPDATE SET "do nothing" = NULL
//! WHEN NOT MATCHED THEN DO NOTHING ->  ... THEN INSERT ("do nothing") VALUES (NULL)
//! THEN INSERT DEFAULT VALUES       ->  THEN INSERT ("default values") VALUES (NULL)
//! INSERT INTO t BY NAME SELECT     ->  INSERT INTO t ("by name") SELECT
//! INSERT INTO t BY POSITION SELECT ->  INSERT INTO t SELECT
//! ```

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{are_at, is, is_at, quoted, sign, words};

/// Name of the column by which the rewritten tokens mark DO NOTHING.
pub(in crate::session) const NOTHING: &str = "do nothing";
/// Name of the column by which the rewritten tokens mark DEFAULT VALUES.
pub(in crate::session) const DEFAULTS: &str = "default values";
/// Name of the column by which the rewritten tokens mark BY NAME.
pub(in crate::session) const BY_NAME: &str = "by name";

/// True if a text may have an INSERT by name or position.
pub(super) fn inserts_by_name(tokens: &[TokenWithSpan]) -> bool {
    let has = |word| tokens.iter().any(|token| is(token, word));
    has("insert") && has("by") && (has("name") || has("position"))
}

/// Rewrites the clauses of all statements.
pub(super) fn write_out(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut written = Vec::with_capacity(tokens.len());
    let (mut is_merge, mut inserts, mut place) = (false, false, 0);
    while let Some(token) = tokens.get(place) {
        is_merge = match token.token {
            Token::SemiColon => false,
            _ => is_merge || is_at(tokens, place, "merge"),
        };
        if are_at(tokens, place, &["when", "matched"]) {
            inserts = false;
        } else if are_at(tokens, place, &["when", "not", "matched"]) {
            inserts = !are_at(tokens, place + 3, &["by", "source"]);
        }
        place += match clause(tokens, place, is_merge, inserts) {
            Some((length, clause)) => {
                written.extend(clause);
                length
            }
            None => {
                written.push(token.clone());
                1
            }
        };
    }
    written
}

/// The number of tokens of a clause, and those that replace it.
fn clause(
    tokens: &[TokenWithSpan],
    place: usize,
    is_merge: bool,
    inserts: bool,
) -> Option<(usize, Vec<TokenWithSpan>)> {
    if is_merge && are_at(tokens, place, &["then", "do", "nothing"]) {
        let mut written: Vec<_> = words("THEN").collect();
        match inserts {
            true => written.extend(insertion(NOTHING)),
            false => {
                written.extend(words("UPDATE SET"));
                written.extend([quoted(NOTHING), sign(Token::Eq)]);
                written.extend(words("NULL"));
            }
        }
        return Some((3, written));
    }
    if is_merge && are_at(tokens, place, &["then", "insert", "default", "values"]) {
        let written = words("THEN").chain(insertion(DEFAULTS)).collect();
        return Some((4, written));
    }
    let is_name = |place: usize| {
        is_at(tokens, place, "by")
            && ["name", "position"].iter().any(|it| is_at(tokens, place + 1, it))
    };
    if is_name(place) && is_behind_target(&tokens[..place]) {
        return Some(match is_at(tokens, place + 1, "name") {
            true => (2, vec![sign(Token::LParen), quoted(BY_NAME), sign(Token::RParen)]),
            false => (2, Vec::new()),
        });
    }
    None
}

/// An INSERT of one column that is none.
fn insertion(column: &str) -> impl Iterator<Item = TokenWithSpan> {
    let columns = [sign(Token::LParen), quoted(column), sign(Token::RParen)];
    let row = [sign(Token::LParen)].into_iter().chain(words("NULL")).chain([sign(Token::RParen)]);
    words("INSERT").chain(columns).chain(words("VALUES")).chain(row)
}

/// True behind the table of an INSERT: `INSERT INTO schema.t`.
fn is_behind_target(before: &[TokenWithSpan]) -> bool {
    let is_part = |token: &TokenWithSpan| matches!(token.token, Token::Word(_) | Token::Period);
    let insert = before.iter().rposition(|token| is(token, "insert"));
    insert.is_some_and(|insert| {
        let target = before.get(insert + 2..).unwrap_or_default();
        is_at(before, insert + 1, "into")
            && !target.is_empty()
            && target.iter().all(is_part)
            && !target.iter().any(|token| is(token, "select") || is(token, "from"))
    })
}

#[cfg(test)]
mod tests {
    use super::super::tests::written;

    #[test]
    fn clauses_of_changes_are_those_of_the_parser() {
        let cases = [
            (
                "MERGE INTO t USING s ON t.a = s.a WHEN MATCHED THEN DO NOTHING \
                 WHEN NOT MATCHED AND s.a > 1 THEN DO NOTHING",
                "MERGE INTO t USING s ON t . a = s . a WHEN MATCHED THEN UPDATE SET \
                 \"do nothing\" = NULL WHEN NOT MATCHED AND s . a > 1 THEN INSERT \
                 ( \"do nothing\" ) VALUES ( NULL )",
            ),
            (
                "MERGE INTO t USING s ON true WHEN NOT MATCHED BY SOURCE THEN DO NOTHING \
                 WHEN NOT MATCHED BY TARGET THEN INSERT DEFAULT VALUES",
                "MERGE INTO t USING s ON true WHEN NOT MATCHED BY SOURCE THEN UPDATE SET \
                 \"do nothing\" = NULL WHEN NOT MATCHED BY TARGET THEN INSERT \
                 ( \"default values\" ) VALUES ( NULL )",
            ),
            (
                "INSERT INTO x.t BY NAME SELECT 1 AS a",
                "INSERT INTO x . t ( \"by name\" ) SELECT 1 AS a",
            ),
            ("INSERT INTO t BY POSITION SELECT 1", "INSERT INTO t SELECT 1"),
            ("SELECT a FROM t ORDER BY name", "SELECT a FROM t ORDER BY name"),
            (
                "INSERT INTO t SELECT a FROM u ORDER BY name",
                "INSERT INTO t SELECT a FROM u ORDER BY name",
            ),
            ("SELECT nothing FROM merge", "SELECT nothing FROM merge"),
        ];
        for (text, expected) in cases {
            assert_eq!(written(text), expected, "{text}");
        }
    }
}
