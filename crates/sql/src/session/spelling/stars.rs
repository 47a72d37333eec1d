//! `* LIKE 's%'` in a select list, which becomes `COLUMNS` with a regular expression.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::super::dialect::regular_expression;
use super::tokens::{is, is_at, sign, words};

/// True if a text may have such a star.
pub(super) fn is_in(tokens: &[TokenWithSpan]) -> bool {
    let mut follows_star = false;
    tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).any(|token| {
        let is_found = follows_star && (is(token, "not") || operator(token).is_some());
        follows_star = token.token == Token::Mul;
        is_found
    })
}

/// Rewrites the stars of a text.
pub(super) fn write_out(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut written = Vec::with_capacity(tokens.len());
    let mut place = 0;
    while let Some(token) = tokens.get(place) {
        match pattern(tokens, place) {
            Some((expression, negated, end)) => {
                written.extend(words("COLUMNS"));
                written.push(sign(Token::LParen));
                written.extend(negated.then(|| words("NOT")).into_iter().flatten());
                written.push(sign(Token::SingleQuotedString(expression)));
                written.push(sign(Token::RParen));
                place = end;
            }
            None => {
                written.push(token.clone());
                place += 1;
            }
        }
    }
    written
}

/// For a star with a pattern at `place`: the regular expression, true for NOT, and the place behind
/// the pattern.
fn pattern(tokens: &[TokenWithSpan], place: usize) -> Option<(String, bool, usize)> {
    if tokens.get(place)?.token != Token::Mul {
        return None;
    }
    let negated = is_at(tokens, place + 1, "not");
    let word = place + 1 + usize::from(negated);
    let operator = operator(tokens.get(word)?)?;
    let text =
        word + 1 + usize::from(operator == Operator::Similar && is_at(tokens, word + 1, "to"));
    let Token::SingleQuotedString(text_of_pattern) = &tokens.get(text)?.token else { return None };
    let expression = match operator {
        Operator::Like => like(text_of_pattern),
        Operator::Ilike => format!("(?i){}", like(text_of_pattern)),
        Operator::Glob => regular_expression(text_of_pattern),
        Operator::Similar => format!("^(?:{text_of_pattern})$"),
    };
    Some((expression, negated, text + 1))
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Operator {
    Like,
    Ilike,
    Glob,
    Similar,
}

fn operator(token: &TokenWithSpan) -> Option<Operator> {
    let operators = [
        ("like", Operator::Like),
        ("ilike", Operator::Ilike),
        ("glob", Operator::Glob),
        ("similar", Operator::Similar),
    ];
    operators.into_iter().find_map(|(word, operator)| is(token, word).then_some(operator))
}

/// The regular expression of the pattern of a LIKE.
fn like(pattern: &str) -> String {
    let mut expression = "^".to_owned();
    let mut characters = pattern.chars();
    while let Some(character) = characters.next() {
        match character {
            '%' => expression.push_str(".*"),
            '_' => expression.push('.'),
            '\\' => {
                let literal = characters.next().unwrap_or('\\');
                expression.push_str(&regex::escape(&literal.to_string()));
            }
            other => expression.push_str(&regex::escape(&other.to_string())),
        }
    }
    expression.push('$');
    expression
}
