//! `EXCLUDE` in the frame of a window, and distances that begin with a text in quotes.
//!
//! The exclusion becomes the first key of PARTITION BY, from where a rule takes it. The parser
//! takes a text in quotes for an interval and the whole distance: `'1 day'::interval PRECEDING`.
//! In brackets it is a text in quotes.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::super::window_exclusion::MARK;
use super::tokens::{are_at, call, find, is, is_at, nesting, sign, words};

/// Words after EXCLUDE for each exclusion.
const EXCLUSIONS: [&[&str]; 3] = [&["current", "row"], &["group"], &["ties"]];

/// Words that may begin a window's definition; any other is the name of a window.
const CLAUSES: [&str; 5] = ["partition", "order", "rows", "range", "groups"];

/// Words that a frame begins with.
const UNITS: [&str; 3] = ["rows", "range", "groups"];

/// Words that bounds end with.
const EDGES: [&str; 3] = ["preceding", "following", "row"];

/// True for tokens with a distance that may begin with a text in quotes.
pub(super) fn is_in(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(is_text) && tokens.iter().any(|token| is_any(token, &EDGES[..2]))
}

/// Rewrites the frames of windows.
pub(super) fn write_out(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    exclusions(&distances(tokens))
}

fn is_text(token: &TokenWithSpan) -> bool {
    matches!(token.token, Token::SingleQuotedString(_))
}

fn is_any(token: &TokenWithSpan, words: &[&str]) -> bool {
    words.iter().any(|word| is(token, word))
}

/// Puts distances that begin with a text in quotes into brackets.
fn distances(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut written = Vec::with_capacity(tokens.len());
    let mut end = None;
    for (place, token) in tokens.iter().enumerate() {
        if end == Some(place) {
            written.push(sign(Token::RParen));
        }
        if is_text(token) && begins_bound(&tokens[..place]) {
            let ends = |token: &TokenWithSpan| is_any(token, &EDGES[..2]);
            let found = find(tokens, place, |_, token| ends(token));
            if tokens.get(found).is_some_and(ends) {
                end = Some(found);
                written.push(sign(Token::LParen));
            }
        }
        written.push(token.clone());
    }
    written
}

/// True if the bound of a frame may begin behind these tokens.
fn begins_bound(before: &[TokenWithSpan]) -> bool {
    match before {
        [.., units, between] if is(between, "between") => is_any(units, &UNITS),
        [.., edge, and] if is(and, "and") => is_any(edge, &EDGES),
        [.., units] => is_any(units, &UNITS),
        [] => false,
    }
}

/// Rewrites `EXCLUDE CURRENT ROW`, `GROUP` and `TIES`, and drops `EXCLUDE NO OTHERS`, which
/// excludes nothing.
fn exclusions(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut place = 0;
    while let Some(token) = tokens.get(place) {
        let is_frame =
            is(token, "exclude") && written.last().is_some_and(|last| is_any(last, &EDGES));
        let ends = |words: &[&str]| {
            let end = tokens.get(place + 1 + words.len()).map(|token| &token.token);
            are_at(tokens, place + 1, words) && matches!(end, Some(Token::RParen))
        };
        if is_frame && ends(&["no", "others"]) {
            place += 3;
            continue;
        }
        let exclusion = EXCLUSIONS.into_iter().find(|words| is_frame && ends(words));
        if let Some(exclusion) = exclusion
            && let Some(open) = opening(&written)
        {
            mark(&mut written, open, &exclusion.join(" "));
            place += 1 + exclusion.len();
            continue;
        }
        written.push(token.clone());
        place += 1;
    }
    written
}

/// The place of the bracket that is open at the end.
fn opening(tokens: &[TokenWithSpan]) -> Option<usize> {
    let mut depth = 0;
    tokens.iter().rposition(|token| {
        depth += nesting(token);
        depth > 0
    })
}

/// Adds a key to a window's definition behind an opening bracket.
fn mark(tokens: &mut Vec<TokenWithSpan>, open: usize, exclusion: &str) {
    let first = open + 1;
    let is_clause = CLAUSES.iter().any(|clause| is_at(tokens, first, clause));
    let place = if is_clause { first } else { first + 1 };
    let key = call(MARK, &[sign(Token::SingleQuotedString(exclusion.to_owned()))]);
    if are_at(tokens, place, &["partition", "by"]) {
        let key = key.into_iter().chain([sign(Token::Comma)]);
        tokens.splice(place + 2..place + 2, key);
    } else {
        tokens.splice(place..place, words("PARTITION BY").chain(key));
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::written;

    #[test]
    fn exclusions_become_keys_and_texts_stand_in_brackets() {
        let cases = [
            (
                "sum(x) OVER (ROWS UNBOUNDED PRECEDING EXCLUDE TIES)",
                "sum ( x ) OVER ( PARTITION BY \"window frame excludes\" ( 'ties' ) ROWS \
                 UNBOUNDED PRECEDING )",
            ),
            (
                "sum(x) OVER (PARTITION BY (a) RANGE BETWEEN 1 PRECEDING AND CURRENT ROW EXCLUDE \
                 CURRENT ROW)",
                "sum ( x ) OVER ( PARTITION BY \"window frame excludes\" ( 'current row' ) , ( a \
                 ) RANGE BETWEEN 1 PRECEDING AND CURRENT ROW )",
            ),
            (
                "WINDOW w AS (v ROWS 1 PRECEDING EXCLUDE GROUP)",
                "WINDOW w AS ( v PARTITION BY \"window frame excludes\" ( 'group' ) ROWS 1 \
                 PRECEDING )",
            ),
            (
                "sum(x) OVER (ROWS 1 PRECEDING EXCLUDE NO OTHERS)",
                "sum ( x ) OVER ( ROWS 1 PRECEDING )",
            ),
            ("SELECT * EXCLUDE (a) FROM t", "SELECT * EXCLUDE ( a ) FROM t"),
            (
                "sum(x) OVER (RANGE BETWEEN '1 day'::interval PRECEDING AND '2' || 'days' \
                 FOLLOWING)",
                "sum ( x ) OVER ( RANGE BETWEEN ( '1 day' :: interval ) PRECEDING AND ( '2' || \
                 'days' ) FOLLOWING )",
            ),
            (
                "range BETWEEN 'a' AND 'b' AND sum(x) OVER (RANGE '1' PRECEDING)",
                "range BETWEEN 'a' AND 'b' AND sum ( x ) OVER ( RANGE ( '1' ) PRECEDING )",
            ),
        ];
        for (text, expected) in cases {
            assert_eq!(written(text), expected, "{text}");
        }
    }
}
