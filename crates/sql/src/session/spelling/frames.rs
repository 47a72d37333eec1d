//! `EXCLUDE` in the frame of a window.

use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{are_at, is};

/// Drops `EXCLUDE NO OTHERS`, which excludes nothing.
///
/// # Errors
/// For a frame that excludes rows.
pub(super) fn write_out(tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>, ParserError> {
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    let mut place = 0;
    while let Some(token) = tokens.get(place) {
        let is_frame = is(token, "exclude")
            && written.last().is_some_and(|last| {
                ["row", "following", "preceding"].iter().any(|it| is(last, it))
            });
        if is_frame && are_at(tokens, place + 1, &["no", "others"]) {
            place += 3;
            continue;
        }
        let behind: &[&[&str]] = &[&["current", "row"], &["group"], &["ties"]];
        for words in behind.iter().filter(|_| is_frame) {
            let end = tokens.get(place + 1 + words.len()).map(|token| &token.token);
            if are_at(tokens, place + 1, words) && matches!(end, Some(Token::RParen)) {
                return Err(ParserError::ParserError(format!(
                    "EXCLUDE {} in a window frame is not supported: subtract the rows' own values, \
                     or use two frames that end before them and begin behind them{}",
                    words.join(" ").to_uppercase(),
                    token.span.start
                )));
            }
        }
        written.push(token.clone());
        place += 1;
    }
    Ok(written)
}
