//! Access control: requests that are refused.
//!
//! The listener accepts connections from this machine only, but a browser on this machine sends
//! requests of pages of any site. So a request must name this machine as its host: a page whose
//! name resolves to 127.0.0.1 (DNS rebinding) names another host. And a request that changes
//! something must have a header that a page of another origin can add only if the server permits
//! it, which it never does (cross-site request forgery). In a database with roles it must also have
//! the name and the password of a superuser.

use std::net::IpAddr;

use hyper::header::{HOST, HeaderMap, HeaderValue, ORIGIN};
use hyper::http::uri::Authority;
use terrace_sql::catalog::Catalog;

use crate::login;

/// The header that a request to change something must have, with any value.
pub(super) const CHANGE_HEADER: &str = "x-terrace-request";

/// Returns the host and port that a request names, if the host is this machine.
///
/// # Errors
/// A message for the client.
pub(super) fn own_host(headers: &HeaderMap) -> Result<Authority, String> {
    let mut hosts = headers.get_all(HOST).iter();
    let (Some(host), None) = (hosts.next(), hosts.next()) else {
        return Err("a request names one host, such as Host: 127.0.0.1".to_owned());
    };
    let host = text(host).and_then(|host| host.parse::<Authority>().ok());
    let is_own = |host: &Authority| {
        let name = host.host().trim_start_matches('[').trim_end_matches(']');
        let is_loopback = name.parse::<IpAddr>().is_ok_and(|ip| ip.is_loopback());
        is_loopback || name.eq_ignore_ascii_case("localhost")
    };
    host.filter(is_own).ok_or_else(|| {
        "the host is not this machine; ask for localhost, 127.0.0.1 or [::1]".to_owned()
    })
}

/// Refuses a change that a page of another origin may have requested.
///
/// # Errors
/// A message for the client.
pub(super) fn check_change(headers: &HeaderMap, host: &Authority) -> Result<(), String> {
    if !headers.contains_key(CHANGE_HEADER) {
        return Err(format!("a change needs the header {CHANGE_HEADER}, such as of curl -H"));
    }
    // A request from a program has no origin.
    let origin = headers.get(ORIGIN);
    let is_own = |origin: &HeaderValue| {
        let origin = text(origin).and_then(|origin| origin.strip_prefix("http://"));
        origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host.as_str()))
    };
    match origin {
        Some(origin) if !is_own(origin) => Err("a page of another origin changes nothing".into()),
        _ => Ok(()),
    }
}

/// Refuses a request without the password of a superuser (`Authorization: Basic`, RFC 7617), unless
/// the database has no roles.
///
/// # Errors
/// A message for the client.
pub(super) fn check_login(
    headers: &HeaderMap,
    catalog: &Catalog,
    secret: &[u8],
) -> Result<(), String> {
    if catalog.roles().is_empty() {
        return Ok(());
    }
    let Some((name, password)) = login::basic(headers) else {
        return Err("it takes the name and the password of a superuser".to_owned());
    };
    let given = (name.as_str(), password.as_str());
    match login::is_password_of(catalog, secret, given, |role| role.is_superuser) {
        true => Ok(()),
        false => Err("it is not the name and the password of a superuser".to_owned()),
    }
}

fn text(value: &HeaderValue) -> Option<&str> {
    value.to_str().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        let value = |value: &'static str| HeaderValue::from_static(value);
        let pairs = pairs.iter().map(|(name, of)| (*name, value(of)));
        let mut headers = HeaderMap::new();
        for (name, value) in pairs {
            headers.append(name, value);
        }
        headers
    }

    #[test]
    fn only_names_of_this_machine_are_hosts() {
        let is_own = |host| own_host(&headers(&[("host", host)])).is_ok();
        for host in ["localhost", "LOCALHOST:8080", "127.0.0.1:1", "127.8.8.8", "[::1]:8080"] {
            assert!(is_own(host), "{host}");
        }
        let others = [
            "example.com",
            "localhost.example.com:8080",
            "127.0.0.1.example.com",
            "192.168.0.1",
            "0.0.0.0:8080",
            "[::]",
            "",
            ":8080",
            "localhost/",
        ];
        for host in others {
            assert!(!is_own(host), "{host}");
        }
        assert!(own_host(&headers(&[])).is_err());
        let two = [("host", "localhost"), ("host", "localhost")];
        assert!(own_host(&headers(&two)).is_err());
    }

    #[test]
    fn changes_need_the_header_and_their_own_origin() {
        let host = Authority::from_static("localhost:8080");
        let may = |pairs| check_change(&headers(pairs), &host).is_ok();
        assert!(may(&[(CHANGE_HEADER, "1")]));
        assert!(may(&[(CHANGE_HEADER, "1"), ("origin", "http://localhost:8080")]));
        assert!(!may(&[]));
        assert!(!may(&[("origin", "http://localhost:8080")]));
        for origin in ["http://localhost:8081", "https://localhost:8080", "null", "http://evil"] {
            let pairs: &[_] = &[(CHANGE_HEADER, "1"), ("origin", origin)];
            assert!(check_change(&headers(pairs), &host).is_err(), "{origin}");
        }
    }
}
