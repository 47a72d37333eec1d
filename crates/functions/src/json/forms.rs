//! Checks and the normal form of JSON texts.

use super::text::{Json, Malformed};
use super::value::Value;

/// Checks the syntax of a text.
///
/// # Errors
/// The first syntax error, or too deep nesting.
pub(crate) fn checked(text: &str) -> Result<(), Malformed> {
    Json::parse(text).map(|_| ())
}

/// Returns PostgreSQL's normal form of a text.
///
/// # Errors
/// The first syntax error, or too deep nesting.
pub(crate) fn normal(text: &str) -> Result<String, Malformed> {
    let json = Json::parse(text)?;
    let mut out = String::new();
    Value::from(json).normalized().write_normal(&mut out);
    Ok(out)
}
