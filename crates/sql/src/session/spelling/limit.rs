//! `LIMIT 50%`, `LIMIT 50 PERCENT` and `FETCH FIRST (1 + 1) ROWS ONLY`.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{behind_bracket, call, is, is_at, words};

/// The function whose argument is the share of the rows that a LIMIT keeps.
pub(in super::super) const PERCENT: &str = "limit percent";

/// Rewrites the limits of a text.
pub(super) fn write_out(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut written = Vec::with_capacity(tokens.len());
    let mut place = 0;
    while let Some(token) = tokens.get(place) {
        if let Some(end) = behind_fetch(tokens, place) {
            written.extend(words("LIMIT"));
            written.extend_from_slice(&tokens[place + 2..end - 2]);
            place = end;
            continue;
        }
        written.push(token.clone());
        place += 1;
        if is(token, "limit")
            && let Some(end) = behind_share(tokens, place)
        {
            written.extend(call(PERCENT, &tokens[place..end]));
            place = end + 1;
        }
    }
    written
}

/// The place behind `FETCH FIRST (expression) ROWS ONLY`: the parser takes a number there.
fn behind_fetch(tokens: &[TokenWithSpan], place: usize) -> Option<usize> {
    let is_one = |place, words: [&str; 2]| words.iter().any(|word| is_at(tokens, place, word));
    let is_bracket = tokens.get(place + 2).is_some_and(|token| token.token == Token::LParen);
    if !(is_at(tokens, place, "fetch") && is_one(place + 1, ["first", "next"]) && is_bracket) {
        return None;
    }
    let end = behind_bracket(tokens, place + 2)?;
    (is_one(end, ["row", "rows"]) && is_at(tokens, end + 1, "only")).then_some(end + 2)
}

/// The place of the percent sign behind a number or an expression in parentheses that ends the
/// clause.
fn behind_share(tokens: &[TokenWithSpan], start: usize) -> Option<usize> {
    let end = match tokens.get(start)?.token {
        Token::LParen => behind_bracket(tokens, start)?,
        Token::Minus | Token::Plus => start + 2,
        Token::Number(..) | Token::Placeholder(_) => start + 1,
        _ => return None,
    };
    let sign = tokens.get(end)?;
    let is_percent = sign.token == Token::Mod || is(sign, "percent");
    let ends = tokens.get(end + 1).is_none_or(|next| {
        matches!(next.token, Token::SemiColon | Token::RParen)
            || ["offset", "for"].iter().any(|word| is(next, word))
    });
    (is_percent && ends).then_some(end)
}
