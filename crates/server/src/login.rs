//! Passwords that clients send by `Authorization: Basic` (RFC 7617).

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use terrace_sql::catalog::{Catalog, Role, Verifier};

/// The scheme and the rest of the header `Authorization`, if there is one.
pub(crate) fn authorization(headers: &HeaderMap) -> Option<(&str, &str)> {
    let given = headers.get(AUTHORIZATION).map(HeaderValue::to_str)?.ok()?;
    let (scheme, rest) = given.split_once(' ')?;
    Some((scheme, rest.trim()))
}

/// The name and the password of the header `Authorization: Basic`.
pub(crate) fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let (scheme, encoded) = authorization(headers)?;
    let encoded = scheme.eq_ignore_ascii_case("basic").then_some(encoded)?;
    let text = String::from_utf8(STANDARD.decode(encoded).ok()?).ok()?;
    let (name, password) = text.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

/// Returns true if it is the password of a role that `may` log in. A role that there is not takes
/// as long as a wrong password.
pub(crate) fn is_password_of(
    catalog: &Catalog,
    secret: &[u8],
    (name, password): (&str, &str),
    may: impl FnOnce(&Role) -> bool,
) -> bool {
    let role = catalog.role(name).filter(|role| role.can_login && may(role));
    let verifier = role.and_then(|role| role.verifier.clone());
    verifier.unwrap_or_else(|| Verifier::of_none(secret, name)).is_of(password)
}
