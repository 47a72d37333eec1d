//! Helpers for sequences of tokens without white space. A `place` is the index of a token, and the
//! place behind something is the index of the token after it.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::super::words::is_word;

/// Words that begin a query.
pub(super) const QUERY_WORDS: [&str; 6] = ["select", "with", "from", "values", "pivot", "unpivot"];

/// True for the unquoted word, in any case.
pub(super) fn is(token: &TokenWithSpan, word: &str) -> bool {
    is_word(&token.token, word)
}

/// True if the token at a place is the unquoted word.
pub(super) fn is_at(tokens: &[TokenWithSpan], place: usize, word: &str) -> bool {
    tokens.get(place).is_some_and(|token| is(token, word))
}

/// True if the tokens from a place on are the unquoted words.
pub(super) fn are_at(tokens: &[TokenWithSpan], place: usize, words: &[&str]) -> bool {
    (place..).zip(words).all(|(place, word)| is_at(tokens, place, word))
}

/// The token of a sign.
pub(super) fn sign(token: Token) -> TokenWithSpan {
    TokenWithSpan::wrap(token)
}

/// Tokens of words and stars that are separated by spaces.
pub(super) fn words(text: &str) -> impl Iterator<Item = TokenWithSpan> {
    text.split(' ')
        .map(|word| sign(if word == "*" { Token::Mul } else { Token::make_word(word, None) }))
}

/// A quoted name.
pub(super) fn quoted(name: &str) -> TokenWithSpan {
    sign(Token::make_word(name, Some('"')))
}

/// A call of a function with tokens as arguments.
pub(super) fn call(name: &str, arguments: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut call = vec![quoted(name), sign(Token::LParen)];
    call.extend_from_slice(arguments);
    call.push(sign(Token::RParen));
    call
}

/// Joins sequences by commas.
pub(super) fn listed(parts: impl IntoIterator<Item = Vec<TokenWithSpan>>) -> Vec<TokenWithSpan> {
    let mut listed = Vec::new();
    for part in parts {
        if !listed.is_empty() {
            listed.push(sign(Token::Comma));
        }
        listed.extend(part);
    }
    listed
}

/// The change of the bracket nesting by a token: 1, -1 or 0.
pub(super) fn nesting(token: &TokenWithSpan) -> i64 {
    match token.token {
        Token::LParen | Token::LBracket | Token::LBrace => 1,
        Token::RParen | Token::RBracket | Token::RBrace => -1,
        _ => 0,
    }
}

/// The place behind the bracket that closes the one at `open`; `None` if there is none.
pub(super) fn behind_bracket(tokens: &[TokenWithSpan], open: usize) -> Option<usize> {
    let mut depth = 0;
    for (place, token) in tokens.iter().enumerate().skip(open) {
        depth += nesting(token);
        if depth == 0 {
            return Some(place + 1);
        }
    }
    None
}

/// The place of the first token from `start` on, outside of brackets, that satisfies `ends`, or
/// of the bracket, semicolon or end that closes the sequence.
pub(super) fn find(
    tokens: &[TokenWithSpan],
    start: usize,
    ends: impl Fn(usize, &TokenWithSpan) -> bool,
) -> usize {
    let mut depth = 0;
    for (place, token) in tokens.iter().enumerate().skip(start) {
        if depth == 0 && (token.token == Token::SemiColon || ends(place, token)) {
            return place;
        }
        depth += nesting(token);
        if depth < 0 {
            return place;
        }
    }
    tokens.len()
}

/// Splits a sequence at its commas outside of brackets.
pub(super) fn split(tokens: &[TokenWithSpan]) -> Vec<&[TokenWithSpan]> {
    let mut parts = Vec::new();
    let mut start = 0;
    while start <= tokens.len() && !tokens.is_empty() {
        let end = find(tokens, start, |_, token| token.token == Token::Comma);
        parts.push(&tokens[start..end]);
        start = end + 1;
    }
    parts
}

/// True if a query may begin behind these tokens.
pub(super) fn begins_query(before: &[TokenWithSpan]) -> bool {
    const BEFORE: [&str; 10] = [
        "as",
        "union",
        "all",
        "except",
        "intersect",
        "distinct",
        "explain",
        "analyze",
        "verbose",
        "for",
    ];
    let Some(last) = before.last() else { return true };
    matches!(last.token, Token::SemiColon | Token::LParen | Token::RParen)
        || BEFORE.iter().any(|word| is(last, word))
        || is_target(before)
}

/// True behind the table of an INSERT: `INTO schema.t`.
fn is_target(before: &[TokenWithSpan]) -> bool {
    let is_name = |token: &TokenWithSpan| matches!(token.token, Token::Word(_) | Token::Period);
    let mut rest = before.iter().rev();
    rest.next().is_some_and(is_name)
        && rest.take_while(|token| is_name(token)).take(6).any(|token| is(token, "into"))
}
