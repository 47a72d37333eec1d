//! CREATE SECRET and DROP SECRET: keys, regions and endpoints for remote files (S3, HTTP).
//!
//! ```text
//! CREATE SECRET backups (TYPE s3, KEY_ID '...', SECRET '...', REGION 'eu-north-1');
//! DROP SECRET backups;
//! ```
//!
//! The syntax is DuckDB's. A secret lives as long as the engine and is not stored.

use std::fmt;

use datafusion::sql::sqlparser::ast::Ident;
use datafusion::sql::sqlparser::parser::{Parser, ParserError};
use datafusion::sql::sqlparser::tokenizer::Token;
use terrace_cloud::{CloudError, Secret};

use super::words::{self, is_word, take_all};

/// Name of a secret whose CREATE SECRET gives none, as in DuckDB.
const NAME: &str = "__default_s3";

/// A statement about a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SecretStatement {
    /// CREATE SECRET.
    Create {
        /// The secret.
        secret: Box<Secret>,
        /// True for OR REPLACE.
        or_replace: bool,
        /// True for IF NOT EXISTS.
        if_not_exists: bool,
    },
    /// DROP SECRET.
    Drop {
        /// Name of the secret.
        name: String,
        /// True for IF EXISTS.
        if_exists: bool,
    },
}

impl fmt::Display for SecretStatement {
    /// Leaves out the options, which have keys: other sessions and logs show this text.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Create { secret, .. } => {
                write!(f, "CREATE SECRET {} (...)", Ident::with_quote('"', &secret.name))
            }
            Self::Drop { name, .. } => {
                write!(f, "DROP SECRET {}", Ident::with_quote('"', name))
            }
        }
    }
}

/// Words between the verb and SECRET.
const LIFETIMES: [&str; 3] = ["temporary", "temp", "persistent"];

/// Returns true if a statement about a secret follows.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    let token = |place: usize| &parser.peek_nth_token_ref(place).token;
    let is_create = is_word(token(0), "create");
    if !is_create && !is_word(token(0), "drop") {
        return false;
    }
    let replaces = is_create && is_word(token(1), "or") && is_word(token(2), "replace");
    let place = if replaces { 3 } else { 1 };
    let has_lifetime = LIFETIMES.iter().any(|word| is_word(token(place), word));
    is_word(token(place + usize::from(has_lifetime)), "secret")
}

/// Parses the statement that [`is_next`] has found.
///
/// # Errors
/// Parser errors, wrong options, and for a persistent secret.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<SecretStatement, ParserError> {
    let is_create = take_all(parser, &["create"]);
    if !is_create {
        parser.advance_token();
    }
    let or_replace = take_all(parser, &["or", "replace"]);
    if take_all(parser, &["persistent"]) {
        return Err(ParserError::ParserError(
            "a persistent secret is not possible; create it when the engine has started, or set \
             AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY in its environment"
                .to_owned(),
        ));
    }
    let _lifetime = take_all(parser, &["temporary"]) || take_all(parser, &["temp"]);
    parser.advance_token();
    if !is_create {
        let (if_exists, name) = words::dropped(parser)?;
        return Ok(SecretStatement::Drop { name, if_exists });
    }
    let if_not_exists = take_all(parser, &["if", "not", "exists"]);
    let is_named = parser.peek_token_ref().token != Token::LParen;
    let name = if is_named { words::name(parser)? } else { NAME.to_owned() };
    let secret = Box::new(secret(parser, name)?);
    Ok(SecretStatement::Create { secret, or_replace, if_not_exists })
}

/// Parses `(TYPE s3, KEY_ID '...', ...)`.
fn secret(parser: &mut Parser<'_>, name: String) -> Result<Secret, ParserError> {
    let mut secret = Secret::new(name);
    let mut kind = None;
    parser.expect_token(&Token::LParen)?;
    loop {
        let option = parser.parse_identifier()?.value;
        let _optional = parser.consume_token(&Token::Eq);
        let value = value(parser)?;
        match option.to_ascii_lowercase().as_str() {
            "type" => kind = Some(value.to_ascii_lowercase()),
            // Keys that are not given come from the environment.
            "provider" if ["config", "credential_chain"].contains(&value.as_str()) => {}
            _ => secret.set(&option, &value).map_err(refused)?,
        }
        if !parser.consume_token(&Token::Comma) {
            break;
        }
    }
    parser.expect_token(&Token::RParen)?;
    match kind.as_deref() {
        Some("s3") => {}
        Some(other) => {
            return Err(ParserError::ParserError(format!(
                "a secret of the type {other} is not possible; TYPE s3 is"
            )));
        }
        None => return Err(ParserError::ParserError("a secret has a type: TYPE s3".to_owned())),
    }
    secret.check().map_err(refused)?;
    Ok(secret)
}

fn refused(error: CloudError) -> ParserError {
    ParserError::ParserError(error.to_string())
}

/// Parses a text, a word or a number.
fn value(parser: &mut Parser<'_>) -> Result<String, ParserError> {
    let next = parser.next_token();
    match next.token {
        Token::SingleQuotedString(text) | Token::Number(text, _) => Ok(text),
        Token::Word(word) if word.quote_style.is_none() => Ok(word.value),
        _ => parser.expected("a text", next),
    }
}

#[cfg(test)]
mod tests {
    use datafusion::sql::sqlparser::dialect::PostgreSqlDialect;

    use super::*;

    fn parsed(text: &str) -> Result<SecretStatement, ParserError> {
        let mut parser = Parser::new(&PostgreSqlDialect {}).try_with_sql(text)?;
        assert!(is_next(&parser), "{text}");
        parse(&mut parser)
    }

    #[test]
    fn secrets_are_parsed_and_never_shown() {
        let text = "CREATE OR REPLACE TEMP SECRET b (TYPE s3, KEY_ID 'k', SECRET 'hush', \
            URL_STYLE path, USE_SSL false, ENDPOINT 'h:9000', SCOPE 's3://b')";
        let statement = parsed(text).expect("parsed");
        assert!(!format!("{statement} {statement:?}").contains("hush"));
        let SecretStatement::Create { secret, or_replace: true, if_not_exists: false } = statement
        else {
            panic!("a CREATE")
        };
        assert_eq!((secret.name.as_str(), secret.scope.as_str()), ("b", "s3://b"));
        assert_eq!((secret.is_path_style, secret.uses_tls), (Some(true), false));
        let unnamed = parsed("CREATE SECRET (TYPE s3, PROVIDER credential_chain)").expect("parsed");
        assert_eq!(unnamed.to_string(), format!("CREATE SECRET \"{NAME}\" (...)"));
        let drop = parsed("DROP SECRET IF EXISTS b").expect("parsed");
        assert_eq!(drop, SecretStatement::Drop { name: "b".to_owned(), if_exists: true });
    }

    #[test]
    fn wrong_options_are_refused() {
        for (text, why) in [
            ("CREATE PERSISTENT SECRET b (TYPE s3)", "persistent"),
            ("CREATE SECRET b (KEY_ID 'k')", "TYPE s3"),
            ("CREATE SECRET b (TYPE gcs)", "gcs"),
            ("CREATE SECRET b (TYPE s3, COLOUR 'red')", "unknown option"),
            ("CREATE SECRET b (TYPE s3, KEY_ID 'k')", "belong together"),
        ] {
            let error = parsed(text).expect_err("refused").to_string();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
