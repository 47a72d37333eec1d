//! Samples: `TABLESAMPLE reservoir(10 ROWS)`, `USING SAMPLE 10%`.
//!
//! A sample becomes `TABLESAMPLE [BERNOULLI | SYSTEM | ROW] (n ROWS | PERCENT) [REPEATABLE (n)]`,
//! with ROW for DuckDB's `reservoir`. The sample of USING SAMPLE, which applies to all tables of a
//! FROM, becomes that of an additional first table, [`SAMPLE`].

use datafusion::sql::sqlparser::parser::ParserError;
use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{are_at, behind_bracket, call, is, is_at, nesting, sign, words};

/// Name of the first table of a FROM, whose sample is that of all other tables of the FROM.
pub(in super::super) const SAMPLE: &str = "using sample";

/// Rewrites the samples of a text.
///
/// # Errors
/// For USING SAMPLE in a query without FROM.
pub(super) fn write_out(tokens: &[TokenWithSpan]) -> Result<Vec<TokenWithSpan>, ParserError> {
    let mut written: Vec<TokenWithSpan> = Vec::with_capacity(tokens.len());
    // For each open bracket, the place behind the last FROM within it.
    let mut froms: Vec<Option<usize>> = vec![None];
    let mut place = 0;
    while let Some(token) = tokens.get(place) {
        if is(token, "tablesample") {
            written.push(token.clone());
            let (sample, end) = sample(tokens, place + 1);
            written.extend(sample);
            place = end;
            continue;
        }
        if are_at(tokens, place, &["using", "sample"]) && begins_sample(&tokens[place + 2..]) {
            let Some(Some(from)) = froms.last().copied() else {
                return Err(ParserError::ParserError(format!(
                    "USING SAMPLE{} is for a query with FROM",
                    token.span.start
                )));
            };
            let (sample, end) = sample(tokens, place + 2);
            let mut first = call(SAMPLE, &[]);
            first.extend(words("TABLESAMPLE"));
            first.extend(sample);
            first.push(sign(Token::Comma));
            written.splice(from..from, first);
            place = end;
            continue;
        }
        let is_distinct = written.last().is_some_and(|last| is(last, "distinct"));
        written.push(token.clone());
        place += 1;
        match nesting(token) {
            1 => froms.push(None),
            -1 if froms.len() > 1 => {
                froms.pop();
            }
            _ if token.token == Token::SemiColon || is(token, "select") => {
                if let Some(from) = froms.last_mut() {
                    *from = None;
                }
            }
            _ if is(token, "from") && !is_distinct => {
                if let Some(from) = froms.last_mut() {
                    *from = Some(written.len());
                }
            }
            _ => {}
        }
    }
    Ok(written)
}

/// True for the tokens of an amount, or of a method with an amount in brackets; false for a table
/// `sample` that a DELETE or MERGE names behind USING.
fn begins_sample(tokens: &[TokenWithSpan]) -> bool {
    let is_bracket = |place: usize| tokens.get(place).is_some_and(|it| it.token == Token::LParen);
    match tokens.first().map(|it| &it.token) {
        Some(Token::Word(_)) => is_bracket(1),
        Some(Token::Number(..) | Token::Placeholder(_)) => true,
        _ => is_bracket(0),
    }
}

/// The tokens of a sample in the syntax that the parser accepts, and the place behind it.
fn sample(tokens: &[TokenWithSpan], start: usize) -> (Vec<TokenWithSpan>, usize) {
    let method = tokens.get(start).and_then(method);
    let open = start + usize::from(method.is_some());
    let is_bracket = tokens.get(open).is_some_and(|token| token.token == Token::LParen);
    let (amount, mut end) = match behind_bracket(tokens, open) {
        Some(end) if is_bracket => (&tokens[open + 1..end - 1], end),
        _ => {
            let unit = tokens.get(open + 1).is_some_and(is_unit);
            let end = (open + 1 + usize::from(unit)).min(tokens.len());
            (&tokens[open.min(end)..end], end)
        }
    };
    let mut method = method;
    let mut seed = None;
    if is_at(tokens, end, "repeatable") {
        let behind = behind_bracket(tokens, end + 1).unwrap_or(tokens.len());
        seed = tokens.get(end + 2..behind.saturating_sub(1)).map(<[_]>::to_vec);
        end = behind;
    } else if !is_bracket
        && let Some(named) = tokens.get(end + 1).and_then(self::method)
        && let Some(behind) = behind_bracket(tokens, end)
    {
        // DuckDB's other form: `10 PERCENT (bernoulli, 42)`.
        method = Some(named);
        seed = tokens.get(end + 3..behind - 1).map(<[_]>::to_vec);
        end = behind;
    }
    let mut written: Vec<_> =
        method.into_iter().filter(|name| !name.is_empty()).flat_map(words).collect();
    written.push(sign(Token::LParen));
    written.extend(with_unit(amount, is_bracket));
    written.push(sign(Token::RParen));
    if let Some(seed) = seed.filter(|seed| !seed.is_empty()) {
        written.extend(words("REPEATABLE"));
        written.push(sign(Token::LParen));
        written.extend(seed);
        written.push(sign(Token::RParen));
    }
    (written, end)
}

/// The amount of a sample with the parser's keyword for its unit. A number without a unit and
/// without brackets is a number of rows.
fn with_unit(amount: &[TokenWithSpan], is_bracket: bool) -> Vec<TokenWithSpan> {
    let mut written = amount.to_vec();
    match written.last().map(|last| &last.token) {
        Some(Token::Mod) => {
            written.pop();
            written.extend(words("PERCENT"));
        }
        Some(Token::Number(..)) if !is_bracket => written.extend(words("ROWS")),
        _ => {}
    }
    written
}

fn is_unit(token: &TokenWithSpan) -> bool {
    token.token == Token::Mod || is(token, "percent") || is(token, "rows")
}

/// The parser's word for a method.
fn method(token: &TokenWithSpan) -> Option<&'static str> {
    [("bernoulli", "BERNOULLI"), ("system", "SYSTEM"), ("reservoir", "ROW"), ("row", "ROW")]
        .into_iter()
        .find_map(|(name, word)| is(token, name).then_some(word))
}
