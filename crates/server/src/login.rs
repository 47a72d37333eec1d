//! Passwords in the header `Authorization: Basic` (RFC 7617).

use base64::engine::general_purpose::{GeneralPurpose, GeneralPurposeConfig};
use base64::engine::{DecodePaddingMode, Engine as _};
use hyper::header::{AUTHORIZATION, HeaderMap, HeaderValue};
use terrace_sql::catalog::{Catalog, Role, Verifier};

/// Base64 with or without padding: Arrow Flight clients in Go omit it.
const BASE64: GeneralPurpose = GeneralPurpose::new(
    &base64::alphabet::STANDARD,
    GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent),
);

/// Returns the scheme and the credentials of the header `Authorization`; `None` if there is none.
pub(crate) fn authorization(headers: &HeaderMap) -> Option<(&str, &str)> {
    let given = headers.get(AUTHORIZATION).map(HeaderValue::to_str)?.ok()?;
    let (scheme, rest) = given.split_once(' ')?;
    Some((scheme, rest.trim()))
}

/// Returns the name and the password of the header `Authorization: Basic`; `None` if there is none
/// or it is malformed.
pub(crate) fn basic(headers: &HeaderMap) -> Option<(String, String)> {
    let (scheme, encoded) = authorization(headers)?;
    let encoded = scheme.eq_ignore_ascii_case("basic").then_some(encoded)?;
    let text = String::from_utf8(BASE64.decode(encoded).ok()?).ok()?;
    let (name, password) = text.split_once(':')?;
    Some((name.to_owned(), password.to_owned()))
}

/// True if the password is that of a role that can log in and that `may` accepts. The check of a
/// role that does not exist takes as long as that of a wrong password.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_passwords_are_read() {
        let given = |text: &'static str| {
            let mut headers = HeaderMap::new();
            headers.insert(AUTHORIZATION, HeaderValue::from_static(text));
            basic(&headers)
        };
        let ada = Some(("ada".to_owned(), "a:b".to_owned()));
        assert_eq!(given("Basic YWRhOmE6Yg=="), ada);
        assert_eq!(given("basic YWRhOmE6Yg"), ada, "without padding");
        for other in ["Basic YWRh", "Basic !", "Basic", "Bearer YWRhOmE6Yg==", ""] {
            assert_eq!(given(other), None, "{other}");
        }
    }
}
