//! Secrets: keys, regions and endpoints for the files below an address.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};

use terrace_sys::sync::lock;

use crate::address::Address;
use crate::error::CloudError;

/// The default scope of a secret.
pub const SCOPE: &str = "s3://";

/// Keys, region and endpoint for the files whose addresses begin with a scope.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Secret {
    /// The name of the secret.
    pub name: String,
    /// The prefix of the addresses that it applies to.
    pub scope: String,
    /// The access key.
    pub key_id: Option<String>,
    /// The secret key.
    pub secret: Option<String>,
    /// The token of a session with temporary keys.
    pub session_token: Option<String>,
    /// The region of the bucket.
    pub region: Option<String>,
    /// The server, `host:port`, or with `http://` or `https://`.
    pub endpoint: Option<String>,
    /// True if the bucket is part of the path, also by default; false if it is part of the host's
    /// name.
    pub is_path_style: Option<bool>,
    /// True for TLS, which is the default.
    pub uses_tls: bool,
}

impl Secret {
    /// Creates a secret without keys for all addresses of S3.
    pub fn new(name: impl Into<String>) -> Self {
        Self {
            name: name.into(),
            scope: SCOPE.to_owned(),
            key_id: None,
            secret: None,
            session_token: None,
            region: None,
            endpoint: None,
            is_path_style: None,
            uses_tls: true,
        }
    }

    /// Sets an option by its name in CREATE SECRET, in any case.
    ///
    /// # Errors
    /// [`CloudError::Secret`] for an unknown option or an invalid value.
    pub fn set(&mut self, option: &str, value: &str) -> Result<(), CloudError> {
        let text = Some(value.to_owned());
        match option.to_ascii_lowercase().as_str() {
            "key_id" => self.key_id = text,
            "secret" => self.secret = text,
            "session_token" => self.session_token = text,
            "region" => self.region = text,
            "endpoint" => self.endpoint = text,
            "scope" => value.clone_into(&mut self.scope),
            "url_style" => {
                self.is_path_style = match value.to_ascii_lowercase().as_str() {
                    "path" => Some(true),
                    "vhost" => Some(false),
                    _ => return Err(self.refused("url_style is path or vhost".to_owned())),
                };
            }
            "use_ssl" => {
                self.uses_tls = match value.to_ascii_lowercase().as_str() {
                    "true" | "1" => true,
                    "false" | "0" => false,
                    _ => return Err(self.refused("use_ssl is true or false".to_owned())),
                };
            }
            _ => {
                // The name may be a part of a key that was not quoted.
                return Err(self.refused(
                    "there is an unknown option; there are key_id, secret, session_token, region, \
                     endpoint, url_style, use_ssl and scope"
                        .to_owned(),
                ));
            }
        }
        Ok(())
    }

    /// Checks that the options fit together.
    ///
    /// # Errors
    /// [`CloudError::Secret`] for one key without the other.
    pub fn check(&self) -> Result<(), CloudError> {
        if self.key_id.is_some() == self.secret.is_some() {
            return Ok(());
        }
        Err(self.refused("key_id and secret belong together; give both or neither".to_owned()))
    }

    fn refused(&self, reason: String) -> CloudError {
        CloudError::Secret { name: self.name.clone(), reason }
    }
}

impl fmt::Debug for Secret {
    /// Leaves out the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Secret")
            .field("name", &self.name)
            .field("scope", &self.scope)
            .field("has_keys", &self.secret.is_some())
            .finish_non_exhaustive()
    }
}

/// The secrets of an engine, by name. They are in memory only.
#[derive(Debug, Default)]
pub struct Secrets(Mutex<BTreeMap<String, Arc<Secret>>>);

impl Secrets {
    /// Adds a secret, or replaces one of the same name if `or_replace`. Returns true if it was
    /// added, false if one of that name exists and `if_not_exists`.
    ///
    /// # Errors
    /// [`CloudError::Secret`] if one of the name exists and is not to be replaced, and as
    /// [`Secret::check`].
    pub fn create(
        &self,
        secret: Secret,
        or_replace: bool,
        if_not_exists: bool,
    ) -> Result<bool, CloudError> {
        secret.check()?;
        let mut all = lock(&self.0);
        if all.contains_key(&secret.name) && !or_replace {
            let reason = "it exists; CREATE OR REPLACE SECRET replaces it".to_owned();
            return if if_not_exists { Ok(false) } else { Err(secret.refused(reason)) };
        }
        all.insert(secret.name.clone(), Arc::new(secret));
        Ok(true)
    }

    /// Removes a secret; returns false if there is none of this name.
    pub fn drop_secret(&self, name: &str) -> bool {
        lock(&self.0).remove(name).is_some()
    }

    /// Returns all secrets, by name.
    pub fn all(&self) -> Vec<Arc<Secret>> {
        lock(&self.0).values().cloned().collect()
    }

    /// Returns the secret for an address: of those whose scope begins it, the one with the longest
    /// scope. `None` if there is none.
    pub fn find(&self, address: &Address) -> Option<Arc<Secret>> {
        let (all, text) = (lock(&self.0), comparable(&address.text));
        let fitting = all.values().filter(|secret| text.starts_with(&comparable(&secret.scope)));
        fitting.max_by_key(|secret| secret.scope.len()).cloned()
    }
}

/// An address or scope with its scheme in lower case, and one scheme for S3.
fn comparable(text: &str) -> String {
    let Some((scheme, rest)) = text.split_once("://") else { return text.to_owned() };
    let scheme = scheme.to_ascii_lowercase();
    let scheme = scheme.as_str();
    let scheme = if ["s3a", "s3n"].contains(&scheme) { "s3" } else { scheme };
    format!("{scheme}://{rest}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn secret(name: &str, scope: &str) -> Secret {
        Secret { scope: scope.to_owned(), ..Secret::new(name) }
    }

    #[test]
    fn the_longest_scope_counts() {
        let secrets = Secrets::default();
        for (name, scope) in [("all", "s3://"), ("one", "s3://one"), ("two", "s3://two/a")] {
            assert!(secrets.create(secret(name, scope), false, false).expect("created"));
        }
        for (address, name) in
            [("s3a://one/x", "one"), ("S3://two/b", "all"), ("s3://two/a/x", "two")]
        {
            let address = Address::parse(address).expect("valid").expect("an address");
            assert_eq!(secrets.find(&address).expect("a secret").name, name);
        }
        let other = Address::parse("http://h/x").expect("valid").expect("an address");
        assert!(secrets.find(&other).is_none());
        assert!(secrets.drop_secret("one") && !secrets.drop_secret("one"));
    }

    #[test]
    fn names_are_taken_once_and_options_are_checked() {
        let secrets = Secrets::default();
        assert!(secrets.create(Secret::new("a"), false, false).expect("created"));
        assert!(!secrets.create(Secret::new("a"), false, true).expect("left as it is"));
        let error = secrets.create(Secret::new("a"), false, false).expect_err("taken");
        assert!(error.to_string().contains("OR REPLACE"), "{error}");
        let mut half = Secret::new("half");
        half.set("KEY_ID", "k").expect("an option");
        assert!(secrets.create(half.clone(), false, false).is_err(), "a key without its secret");
        for (option, value) in [("colour", "red"), ("use_ssl", "maybe"), ("url_style", "x")] {
            assert!(half.set(option, value).is_err(), "{option}");
        }
        half.set("secret", "hush").expect("an option");
        assert!(!format!("{half:?}").contains("hush"), "a secret is never shown");
    }
}
