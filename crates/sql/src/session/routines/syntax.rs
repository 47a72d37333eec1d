//! Parsing of the statements that define and drop functions and macros.
//!
//! ```text
//! CREATE [OR REPLACE] [TEMP] MACRO add(a, b := 1) AS a + b;
//! CREATE MACRO above(x) AS TABLE SELECT * FROM t WHERE k > x;
//! CREATE FUNCTION inc(i INT) RETURNS INT LANGUAGE SQL AS $$ SELECT i + 1 $$;
//! CREATE FUNCTION inc(i INT) RETURNS INT RETURN i + 1;
//! ALTER FUNCTION inc(INT) RENAME TO next;
//! DROP MACRO [TABLE] [IF EXISTS] add;  DROP FUNCTION inc(INT) [CASCADE | RESTRICT];
//! ```

use datafusion::sql::planner::IdentNormalizer;
use datafusion::sql::sqlparser::ast::ObjectName;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;

use super::routine::{
    DroppedKind, DroppedRoutine, Form, Function, Parameter, Returns, Routine, RoutineStatement,
    Volatility,
};
use crate::names::CATALOG;
use crate::session::object_change::ObjectChange;
use crate::session::words::{is_word, take_all};

/// Schema and name of a routine.
type Name = (Option<String>, String);

/// Returns true if a statement about functions or macros follows.
pub(in crate::session) fn is_next(parser: &Parser<'_>) -> bool {
    let word = |n: usize, text: &str| is_word(&parser.peek_nth_token(n).token, text);
    let noun = |n| word(n, "macro") || word(n, "function");
    if word(0, "drop") || word(0, "alter") {
        return noun(1);
    }
    let after_replace = if word(1, "or") && word(2, "replace") { 3 } else { 1 };
    let is_temporary = word(after_replace, "temp") || word(after_replace, "temporary");
    word(0, "create") && noun(after_replace + usize::from(is_temporary))
}

/// Parses the statement.
///
/// # Errors
/// Errors of the syntax.
pub(in crate::session) fn parse(parser: &mut Parser<'_>) -> Result<RoutineStatement, ParserError> {
    if take_all(parser, &["drop"]) {
        return dropped(parser);
    }
    if take_all(parser, &["alter"]) {
        let kind = kind(parser);
        let routine = named(parser)?;
        let change = ObjectChange::parse(parser)?;
        return Ok(RoutineStatement::Change { routine, kind, change });
    }
    take_all(parser, &["create"]);
    let replace = take_all(parser, &["or", "replace"]);
    let temporary = take_all(parser, &["temp"]) || take_all(parser, &["temporary"]);
    let is_macro = take_all(parser, &["macro"]);
    if !is_macro {
        take_all(parser, &["function"]);
    }
    let keep = take_all(parser, &["if", "not", "exists"]);
    let name = name(parser)?;
    // DuckDB accepts the word FUNCTION for a macro.
    let routines = match is_macro {
        true => Some(macros(parser, &name, is_macro)?),
        false => parser.maybe_parse(|parser| macros(parser, &name, is_macro))?,
    };
    let routines = match routines {
        Some(routines) => routines,
        None => vec![function(parser, name)?],
    };
    Ok(RoutineStatement::Create { routines, replace, keep, temporary })
}

fn dropped(parser: &mut Parser<'_>) -> Result<RoutineStatement, ParserError> {
    let kind = kind(parser);
    let if_exists = take_all(parser, &["if", "exists"]);
    let routines = parser.parse_comma_separated(named)?;
    let cascades = take_all(parser, &["cascade"]);
    let _default = !cascades && take_all(parser, &["restrict"]);
    Ok(RoutineStatement::Drop { routines, kind, if_exists, cascades })
}

/// Parses the noun of a DROP, ALTER or COMMENT.
fn kind(parser: &mut Parser<'_>) -> DroppedKind {
    if take_all(parser, &["macro", "table"]) {
        return DroppedKind::TableMacro;
    }
    match take_all(parser, &["macro"]) {
        true => DroppedKind::Macro,
        false => {
            take_all(parser, &["function"]);
            DroppedKind::Function
        }
    }
}

/// Parses the name of a function or macro, and the types of its parameters if they follow.
///
/// # Errors
/// Errors of the syntax.
fn named(parser: &mut Parser<'_>) -> Result<DroppedRoutine, ParserError> {
    let (schema, name) = name(parser)?;
    Ok(DroppedRoutine { schema, name, parameters: parameter_count(parser)? })
}

/// Parses the types of parameters in parentheses, if they follow, and returns their number.
///
/// # Errors
/// Errors of the syntax.
pub(in crate::session) fn parameter_count(
    parser: &mut Parser<'_>,
) -> Result<Option<usize>, ParserError> {
    match parser.peek_token_ref().token {
        Token::LParen => Ok(Some(parameters(parser, parameter_of_function)?.len())),
        _ => Ok(None),
    }
}

/// Parses a name, which may have the schema before it.
fn name(parser: &mut Parser<'_>) -> Result<Name, ParserError> {
    let written = parser.parse_object_name(false)?;
    let failed = || ParserError::ParserError(format!("{written} is no name of a function"));
    parts(&written).ok_or_else(failed)
}

/// The schema and the name that an object name consists of; `None` for a name of another database.
pub(in crate::session) fn parts(name: &ObjectName) -> Option<Name> {
    let words = name.0.iter().map(|part| {
        part.as_ident().map(|ident| IdentNormalizer::default().normalize(ident.clone()))
    });
    let words = words.collect::<Option<Vec<String>>>()?;
    match words.as_slice() {
        [name] => Some((None, name.clone())),
        [schema, name] => Some((Some(schema.clone()), name.clone())),
        [catalog, schema, name] if catalog == CATALOG => Some((Some(schema.clone()), name.clone())),
        _ => None,
    }
}

/// Parses the overloads of a macro from the parameters on.
fn macros(
    parser: &mut Parser<'_>,
    (schema, name): &Name,
    is_certain: bool,
) -> Result<Vec<Routine>, ParserError> {
    let mut routines = Vec::new();
    loop {
        let parameters = parameters(parser, parameter_of_macro)?;
        if !take_all(parser, &["as"]) {
            let next = parser.peek_token();
            return parser.expected("AS and the body of the macro", next);
        }
        if !is_certain && is_string(&parser.peek_token_ref().token) {
            let next = parser.peek_token();
            return parser.expected("RETURNS", next);
        }
        let (form, body) = match take_all(parser, &["table"]) {
            true => (Form::TableMacro, parser.parse_query()?.to_string()),
            false => (Form::Macro, parser.parse_expr()?.to_string()),
        };
        let (schema, name) = (schema.clone(), name.clone());
        routines.push(Routine { schema, name, parameters, form, body });
        let is_more = parser.peek_nth_token_ref(1).token == Token::LParen;
        if !is_more || !parser.consume_token(&Token::Comma) {
            return Ok(routines);
        }
    }
}

fn parameters(
    parser: &mut Parser<'_>,
    parameter: fn(&mut Parser<'_>) -> Result<Parameter, ParserError>,
) -> Result<Vec<Parameter>, ParserError> {
    parser.expect_token(&Token::LParen)?;
    let mut parameters = Vec::new();
    while parser.peek_token_ref().token != Token::RParen {
        parameters.push(parameter(parser)?);
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    parser.expect_token(&Token::RParen)?;
    Ok(parameters)
}

/// Parses `name [type] [:= default]`.
fn parameter_of_macro(parser: &mut Parser<'_>) -> Result<Parameter, ParserError> {
    let name = Some(crate::session::words::name(parser)?);
    let is_typed = !ends_type(&parser.peek_token_ref().token);
    let data_type = is_typed.then(|| parser.parse_data_type()).transpose()?;
    let default = default(parser)?;
    Ok(Parameter { name, data_type: data_type.map(|of| of.to_string()), default })
}

/// Parses `[IN] [name] type [DEFAULT default]`.
fn parameter_of_function(parser: &mut Parser<'_>) -> Result<Parameter, ParserError> {
    for mode in ["out", "inout", "variadic"] {
        let is_mode = is_word(&parser.peek_token_ref().token, mode);
        if is_mode && !ends_type(&parser.peek_nth_token_ref(1).token) {
            let mode = mode.to_uppercase();
            return Err(ParserError::ParserError(format!(
                "{mode} parameters are not possible; say RETURNS TABLE(...) for several results"
            )));
        }
    }
    take_all(parser, &["in"]);
    let unnamed = parser.maybe_parse(|parser| {
        let data_type = parser.parse_data_type()?;
        match ends_type(&parser.peek_token_ref().token) {
            true => Ok(data_type),
            false => {
                let next = parser.peek_token();
                parser.expected("the end of a type", next)
            }
        }
    })?;
    let (name, data_type) = match unnamed {
        Some(data_type) => (None, data_type),
        None => (Some(crate::session::words::name(parser)?), parser.parse_data_type()?),
    };
    let default = default(parser)?;
    Ok(Parameter { name, data_type: Some(data_type.to_string()), default })
}

/// True for a token behind the type of a parameter.
fn ends_type(token: &Token) -> bool {
    matches!(token, Token::Comma | Token::RParen | Token::Eq | Token::Assignment)
        || is_word(token, "default")
}

fn default(parser: &mut Parser<'_>) -> Result<Option<String>, ParserError> {
    let has_one = take_all(parser, &["default"])
        || parser.consume_token(&Token::Assignment)
        || parser.consume_token(&Token::Eq);
    Ok(if has_one { Some(parser.parse_expr()?.to_string()) } else { None })
}

/// Parses a function in SQL from the parameters on.
fn function(parser: &mut Parser<'_>, (schema, name): Name) -> Result<Routine, ParserError> {
    let parameters = parameters(parser, parameter_of_function)?;
    if !take_all(parser, &["returns"]) {
        let next = parser.peek_token();
        return parser.expected("RETURNS and the type of the result", next);
    }
    let mut function = Function {
        returns: returns(parser)?,
        language: None,
        volatility: Volatility::default(),
        is_strict: false,
        has_rights_of_owner: false,
        is_expression: false,
    };
    let mut body = None;
    while body.is_none() || !function.is_expression {
        if take_all(parser, &["as"]) {
            body = Some(string(parser)?);
        } else if take_all(parser, &["return"]) {
            body = Some(parser.parse_expr()?.to_string());
            function.is_expression = true;
        } else if !option(parser, &mut function)? {
            break;
        }
    }
    let Some(body) = body else {
        let next = parser.peek_token();
        return parser.expected("AS and a body in a string, or RETURN and an expression", next);
    };
    Ok(Routine { schema, name, parameters, form: Form::Function(function), body })
}

fn returns(parser: &mut Parser<'_>) -> Result<Returns, ParserError> {
    if take_all(parser, &["setof"]) {
        return Ok(Returns::Rows(parser.parse_data_type()?.to_string()));
    }
    if !take_all(parser, &["table"]) {
        return Ok(Returns::Value(parser.parse_data_type()?.to_string()));
    }
    parser.expect_token(&Token::LParen)?;
    let columns = parser.parse_comma_separated(|parser| {
        let name = crate::session::words::name(parser)?;
        Ok((name, parser.parse_data_type()?.to_string()))
    })?;
    parser.expect_token(&Token::RParen)?;
    Ok(Returns::Table(columns))
}

/// Parses one option of a function. Returns false if none follows.
fn option(parser: &mut Parser<'_>, function: &mut Function) -> Result<bool, ParserError> {
    let mut all = Volatility::ALL.into_iter();
    let volatility = all.find(|of| take_all(parser, &[of.keyword().to_lowercase().as_str()]));
    if let Some(volatility) = volatility {
        function.volatility = volatility;
        return Ok(true);
    }
    if take_all(parser, &["language"]) {
        let language = match is_string(&parser.peek_token_ref().token) {
            true => string(parser)?.to_lowercase(),
            false => crate::session::words::name(parser)?,
        };
        function.language = Some(language);
        return Ok(true);
    }
    let is_strict = take_all(parser, &["strict"])
        || take_all(parser, &["returns", "null", "on", "null", "input"]);
    let has_rights_of_owner = take_all(parser, &["security", "definer"])
        || take_all(parser, &["external", "security", "definer"]);
    function.is_strict |= is_strict;
    function.has_rights_of_owner |= has_rights_of_owner;
    if is_strict || has_rights_of_owner {
        return Ok(true);
    }
    // Advice to the planner, and defaults.
    let ignored: [&[&str]; 5] = [
        &["called", "on", "null", "input"],
        &["security", "invoker"],
        &["external", "security", "invoker"],
        &["leakproof"],
        &["not", "leakproof"],
    ];
    if ignored.iter().any(|words| take_all(parser, words)) {
        return Ok(true);
    }
    let has_value = ["parallel", "cost", "rows"].iter().any(|word| take_all(parser, &[word]));
    if has_value {
        parser.advance_token();
    }
    Ok(has_value)
}

fn is_string(token: &Token) -> bool {
    matches!(
        token,
        Token::SingleQuotedString(_)
            | Token::DollarQuotedString(_)
            | Token::EscapedStringLiteral(_)
    )
}

/// Parses a string in quotes or dollar quotes.
fn string(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let next = parser.next_token();
    match next.token {
        Token::SingleQuotedString(text) | Token::EscapedStringLiteral(text) => Ok(text),
        Token::DollarQuotedString(text) => Ok(text.value),
        _ => parser.expected("a string", next),
    }
}
