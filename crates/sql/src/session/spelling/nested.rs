//! Set operations of queries in parentheses, and VALUES, as operands of expressions.
//!
//! ```text
//! x > ALL ((SELECT 1) EXCEPT (SELECT 2))
//!     ->  x > ALL (SELECT * FROM ((SELECT 1) EXCEPT (SELECT 2)))
//! x = (VALUES (1))  ->  x = (SELECT * FROM (VALUES (1)))
//! ```
//! The parser takes a second parenthesis for the begin of an expression. Where it expects a query,
//! as in FROM or behind IN, nothing is rewritten.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{is, is_at, sign, words};

/// Words behind which an expression begins.
const BEFORE: [&str; 14] = [
    "select", "where", "and", "or", "not", "when", "then", "else", "case", "having", "qualify",
    "between", "like", "ilike",
];

/// Words that continue a query that begins with another one in parentheses.
const BEHIND: [&str; 8] =
    ["union", "except", "intersect", "minus", "order", "limit", "offset", "fetch"];

/// Words after which commas separate expressions, and words after which they do not.
const LISTS: [&str; 6] = ["select", "by", "set", "where", "having", "qualify"];
const OTHERS: [&str; 6] = ["from", "with", "into", "join", "using", "values"];

/// The tokens around a place, between parentheses.
#[derive(Clone, Copy, Default)]
struct Around {
    /// True if an expression stands at their begin.
    is_value: bool,
    /// True if the commas at the place separate expressions.
    is_list: bool,
}

/// True if a text may have such a value: a query in parentheses within others, or VALUES.
pub(super) fn is_in(tokens: &[TokenWithSpan]) -> bool {
    let mut last = None;
    tokens.iter().filter(|token| !matches!(token.token, Token::Whitespace(_))).any(|token| {
        let is_open = |token: &TokenWithSpan| token.token == Token::LParen;
        let is_behind = last.replace(token).is_some_and(is_open);
        is_behind && (is_open(token) || is(token, "values"))
    })
}

/// Rewrites the values of a text.
pub(super) fn write_out(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let closings = closings(tokens);
    let mut written = Vec::with_capacity(tokens.len());
    let (mut around, mut outer) = (Around::default(), Vec::new());
    let mut ends = Vec::new();
    for (place, token) in tokens.iter().enumerate() {
        if token.token == Token::RParen {
            around = outer.pop().unwrap_or_default();
            if ends.last() == Some(&place) {
                ends.pop();
                written.push(sign(Token::RParen));
            }
        }
        written.push(token.clone());
        if LISTS.iter().any(|word| is(token, word)) {
            around.is_list = true;
        } else if OTHERS.iter().any(|word| is(token, word)) {
            around.is_list = false;
        } else if token.token == Token::LParen {
            let is_value = is_value(tokens, place, around);
            let is_query = is_value && is_query(tokens, place, &closings);
            if is_query {
                written.extend(words("SELECT * FROM"));
                written.push(sign(Token::LParen));
                ends.extend(closings[place]);
            }
            outer.push(around);
            around = Around { is_value: is_value && !is_query, is_list: false };
        }
    }
    written
}

/// The place of the parenthesis that closes the one at each place.
fn closings(tokens: &[TokenWithSpan]) -> Vec<Option<usize>> {
    let mut closings = vec![None; tokens.len()];
    let mut open = Vec::new();
    for (place, token) in tokens.iter().enumerate() {
        match token.token {
            Token::LParen => open.push(place),
            Token::RParen => {
                if let Some(open) = open.pop() {
                    closings[open] = Some(place);
                }
            }
            _ => {}
        }
    }
    closings
}

/// True if the parenthesis at a place begins an expression.
fn is_value(tokens: &[TokenWithSpan], place: usize, around: Around) -> bool {
    let Some(before) = place.checked_sub(1) else { return false };
    match &tokens[before].token {
        Token::LParen => around.is_value,
        Token::Comma => around.is_list,
        Token::Word(_) if ["any", "all", "some"].iter().any(|word| is_at(tokens, before, word)) => {
            before.checked_sub(1).is_some_and(|before| is_operator(&tokens[before].token))
        }
        Token::Word(_) => BEFORE.iter().any(|word| is_at(tokens, before, word)),
        token => is_operator(token),
    }
}

fn is_operator(token: &Token) -> bool {
    use Token::{Div, Eq, Gt, GtEq, Lt, LtEq, Minus, Mod, Mul, Neq, Plus, StringConcat};
    matches!(
        token,
        Eq | Neq | Lt | LtEq | Gt | GtEq | Plus | Minus | Mul | Div | Mod | StringConcat
    )
}

/// True if the parenthesis at a place contains VALUES, or a query that begins with one in
/// parentheses and continues behind them.
fn is_query(tokens: &[TokenWithSpan], place: usize, closings: &[Option<usize>]) -> bool {
    let inner = place + 1;
    if is_at(tokens, inner, "values") {
        return tokens.get(inner + 1).is_some_and(|token| token.token == Token::LParen);
    }
    // Tested first: counting the parentheses of a deep text within each of them takes seconds.
    let behind = closings.get(inner).copied().flatten().map(|closing| closing + 1);
    if !behind.is_some_and(|place| BEHIND.iter().any(|word| is_at(tokens, place, word))) {
        return false;
    }
    let is_open = |token: &&TokenWithSpan| token.token == Token::LParen;
    let open = tokens[inner..].iter().take_while(is_open).count();
    let begins = ["select", "with", "values", "from"];
    open > 0 && begins.iter().any(|word| is_at(tokens, inner + open, word))
}

#[cfg(test)]
mod tests {
    use super::super::tests::written;

    #[test]
    fn set_operations_are_relations() {
        let cases = [
            (
                "SELECT x > ALL ((SELECT 1) EXCEPT (SELECT 2)) FROM t",
                "SELECT x > ALL ( SELECT * FROM ( ( SELECT 1 ) EXCEPT ( SELECT 2 ) ) ) FROM t",
            ),
            (
                "SELECT 1 = (((SELECT 1) UNION (SELECT 2)) EXCEPT (SELECT 2))",
                "SELECT 1 = ( SELECT * FROM ( ( ( SELECT 1 ) UNION ( SELECT 2 ) ) EXCEPT ( SELECT \
                 2 ) ) )",
            ),
            (
                "SELECT (((SELECT 1) LIMIT 1) + 1)",
                "SELECT ( ( SELECT * FROM ( ( SELECT 1 ) LIMIT 1 ) ) + 1 )",
            ),
            (
                "SELECT 1, ((SELECT 1) LIMIT 1) FROM t",
                "SELECT 1 , ( SELECT * FROM ( ( SELECT 1 ) LIMIT 1 ) ) FROM t",
            ),
            ("SELECT 1 = ANY (VALUES (1))", "SELECT 1 = ANY ( SELECT * FROM ( VALUES ( 1 ) ) )"),
            ("SELECT ((SELECT 1) + 1)", "SELECT ( ( SELECT 1 ) + 1 )"),
            ("SELECT ((SELECT 1))", "SELECT ( ( SELECT 1 ) )"),
        ];
        for (text, expected) in cases {
            assert_eq!(written(text), expected, "{text}");
        }
        for text in [
            "( ( SELECT 1 ) UNION ( SELECT 2 ) ORDER BY 1 )",
            "SELECT 1 UNION ALL ( ( SELECT 1 ) EXCEPT ( SELECT 2 ) )",
            "SELECT * FROM ( ( SELECT 1 ) UNION ( SELECT 2 ) ) q",
            "SELECT 1 FROM t , ( ( SELECT 1 ) UNION ( SELECT 2 ) ) q",
            "INSERT INTO t ( ( SELECT 1 ) UNION ( SELECT 2 ) )",
            "SELECT x IN ( ( SELECT 1 ) UNION ( SELECT 2 ) )",
            "SELECT f ( ( 1 ) ) ) (",
        ] {
            assert_eq!(written(text), text);
        }
    }
}
