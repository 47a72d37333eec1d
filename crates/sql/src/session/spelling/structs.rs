//! DuckDB's spelling of a type: `STRUCT(x INTEGER, y VARCHAR)`, where the parser reads `STRUCT<x
//! INTEGER, y VARCHAR>`.

use datafusion::sql::sqlparser::tokenizer::{Token, TokenWithSpan};

use super::tokens::{behind_bracket, is, is_at, sign};

/// Words that begin the type of a field.
const TYPES: [&str; 43] = [
    "bigint",
    "binary",
    "blob",
    "bool",
    "boolean",
    "bpchar",
    "bytea",
    "char",
    "character",
    "date",
    "datetime",
    "decimal",
    "double",
    "float",
    "float4",
    "float8",
    "hugeint",
    "int",
    "int1",
    "int2",
    "int4",
    "int8",
    "integer",
    "interval",
    "json",
    "jsonb",
    "map",
    "numeric",
    "real",
    "smallint",
    "string",
    "struct",
    "text",
    "time",
    "timestamp",
    "timestamptz",
    "tinyint",
    "ubigint",
    "uinteger",
    "usmallint",
    "utinyint",
    "uuid",
    "varchar",
];

/// Words that begin an argument of the function `struct`, and are no name of a field before a type.
const NO_NAMES: [&str; 5] = ["all", "case", "distinct", "not", "select"];

/// True for a text that may have such a type.
pub(super) fn is_in(tokens: &[TokenWithSpan]) -> bool {
    tokens.iter().any(|token| is(token, "struct"))
}

/// Rewrites `STRUCT(...)` as `STRUCT<...>`.
pub(super) fn write_out(tokens: &[TokenWithSpan]) -> Vec<TokenWithSpan> {
    let mut written = Vec::with_capacity(tokens.len());
    let mut place = 0;
    while let Some(token) = tokens.get(place) {
        written.push(token.clone());
        place += 1;
        let end = if is_type(tokens, place - 1) { behind_bracket(tokens, place) } else { None };
        if let Some(end) = end {
            written.push(sign(Token::Lt));
            written.extend(write_out(&tokens[place + 1..end - 1]));
            written.push(sign(Token::Gt));
            place = end;
        }
    }
    written
}

/// True for the word STRUCT before the name and the type of a field in parentheses.
fn is_type(tokens: &[TokenWithSpan], place: usize) -> bool {
    let is_bracket = tokens.get(place + 1).is_some_and(|token| token.token == Token::LParen);
    let is_name = tokens.get(place + 2).is_some_and(|token| {
        matches!(token.token, Token::Word(_)) && !NO_NAMES.iter().any(|word| is(token, word))
    });
    let of = tokens.get(place + 3);
    is_at(tokens, place, "struct")
        && is_bracket
        && is_name
        && of.is_some_and(|of| TYPES.iter().any(|word| is(of, word)))
}

#[cfg(test)]
mod tests {
    use super::super::tests::written;

    #[test]
    fn types_of_structs_have_angle_brackets() {
        let cases = [
            (
                "CREATE TABLE t (s STRUCT(x INTEGER, y STRUCT(\"a b\" DECIMAL(9, 2))[]))",
                "CREATE TABLE t ( s STRUCT < x INTEGER , y STRUCT < \"a b\" DECIMAL ( 9 , 2 ) > \
                    [ ] > )",
            ),
            ("SELECT x::struct(a map(int, date))", "SELECT x :: struct < a map ( int , date ) >"),
            ("SELECT struct(a, b), struct(date)", "SELECT struct ( a , b ) , struct ( date )"),
            ("SELECT struct(NOT date)", "SELECT struct ( NOT date )"),
        ];
        for (text, expected) in cases {
            assert_eq!(written(text), expected, "{text}");
        }
    }
}
