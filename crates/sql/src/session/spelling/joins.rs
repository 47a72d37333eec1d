//! `POSITIONAL JOIN` and `ASOF JOIN`, which become joins that are GLOBAL.

use datafusion::sql::sqlparser::tokenizer::TokenWithSpan;

use super::tokens::{are_at, is, is_at, words};

/// Rewrites the joins of a text.
pub(super) fn write_out(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut written = Vec::with_capacity(tokens.len());
    for (place, token) in tokens.iter().enumerate() {
        if is(token, "positional") && is_at(tokens, place + 1, "join") {
            written.extend(words("GLOBAL CROSS"));
        } else if is(token, "asof") && is_at(tokens, place + 1, "join") {
            written.extend(words("GLOBAL INNER"));
        } else if is(token, "asof") && is_kind(tokens, place + 1) {
            written.extend(words("GLOBAL"));
        } else {
            written.push(token.clone());
        }
    }
    written
}

/// True if the kind of a join follows: `LEFT OUTER JOIN`.
fn is_kind(tokens: &[TokenWithSpan], place: usize) -> bool {
    let kinds = ["inner", "left", "right", "full", "semi", "anti"];
    kinds.iter().any(|kind| {
        are_at(tokens, place, &[kind, "join"]) || are_at(tokens, place, &[kind, "outer", "join"])
    })
}
