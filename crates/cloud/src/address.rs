//! Addresses of remote files: `s3://bucket/key`, `http://` and `https://`.

use crate::error::CloudError;

/// The protocol of an address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// The interface of Amazon S3.
    S3,
    /// HTTP, without and with TLS.
    Http,
}

/// The address of a file, or a pattern of addresses.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address {
    /// The address as it was written.
    pub text: String,
    /// The protocol.
    pub scheme: Scheme,
    /// The bucket of S3, or the host of HTTP with its port.
    pub authority: String,
    /// The part after the authority, without the slash between them.
    pub key: String,
}

impl Address {
    /// Parses an address; `None` for a path of this machine.
    ///
    /// # Errors
    /// [`CloudError::Address`] for other protocols and an address without a bucket or host.
    pub fn parse(text: &str) -> Result<Option<Self>, CloudError> {
        let Some((scheme, rest)) = text.split_once("://") else { return Ok(None) };
        let failed = |reason: String| CloudError::Address { address: text.to_owned(), reason };
        let scheme = match scheme.to_ascii_lowercase().as_str() {
            "file" => return Ok(None),
            "s3" | "s3a" | "s3n" => Scheme::S3,
            "http" | "https" => Scheme::Http,
            other => {
                return Err(failed(format!(
                    "{other}:// is not supported; s3://bucket/key, http:// and https:// are"
                )));
            }
        };
        let (authority, key) = rest.split_once('/').unwrap_or((rest, ""));
        if authority.is_empty() || authority.contains(['*', '?', '[']) {
            let part = if scheme == Scheme::S3 { "bucket" } else { "host" };
            return Err(failed(format!("it names no {part}")));
        }
        let (text, authority, key) = (text.to_owned(), authority.to_owned(), key.to_owned());
        Ok(Some(Self { text, scheme, authority, key }))
    }

    /// Returns true if the address is a pattern with `*`, `[` or, for S3, `?`; a question mark of
    /// HTTP begins the query string.
    #[must_use]
    pub fn is_pattern(&self) -> bool {
        match self.scheme {
            Scheme::S3 => self.key.contains(['*', '?', '[']),
            Scheme::Http => self.path().contains(['*', '[']),
        }
    }

    /// Returns the key without the query string and the fragment of HTTP.
    #[must_use]
    pub fn path(&self) -> &str {
        match self.scheme {
            Scheme::S3 => &self.key,
            Scheme::Http => self.key.split(['?', '#']).next().unwrap_or_default(),
        }
    }

    /// Returns the directories that begin every key of the pattern, with the last slash.
    pub(crate) fn fixed_prefix(&self) -> &str {
        let end = self.key.find(['*', '?', '[']).unwrap_or(self.key.len());
        let slash = self.key[..end].rfind('/').map_or(0, |at| at + 1);
        &self.key[..slash]
    }

    /// Returns the address of another key of the same bucket.
    pub(crate) fn with_key(&self, key: &str) -> Self {
        let text = format!("s3://{}/{key}", self.authority);
        Self { text, key: key.to_owned(), ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &str) -> Address {
        Address::parse(text).expect("valid").expect("an address")
    }

    #[test]
    fn addresses_have_a_scheme_an_authority_and_a_key() {
        let file = parsed("s3://bucket/a/b c.parquet");
        assert_eq!((file.scheme, file.authority.as_str()), (Scheme::S3, "bucket"));
        assert_eq!((file.key.as_str(), file.is_pattern()), ("a/b c.parquet", false));
        let file = parsed("https://host:8443/d/x.csv?sig=a/b*");
        assert_eq!((file.authority.as_str(), file.path()), ("host:8443", "d/x.csv"));
        assert!(!file.is_pattern() && parsed("http://h/*.csv").is_pattern());
        assert_eq!(Address::parse("/tmp/x.csv").expect("valid"), None);
        assert_eq!(Address::parse("file:///tmp/x.csv").expect("valid"), None);
    }

    #[test]
    fn patterns_have_a_fixed_prefix() {
        for (text, prefix) in [
            ("s3://b/a/*.csv", "a/"),
            ("s3://b/a/x?/c.csv", "a/"),
            ("s3://b/*", ""),
            ("s3://b/year=[12]/x", ""),
        ] {
            assert!(parsed(text).is_pattern());
            assert_eq!(parsed(text).fixed_prefix(), prefix, "{text}");
        }
    }

    #[test]
    fn other_schemes_and_missing_parts_are_refused() {
        for (text, why) in [
            ("ftp://h/x", "ftp:// is not supported"),
            ("s3:///x", "names no bucket"),
            ("http:///x", "names no host"),
            ("s3://*/x", "names no bucket"),
        ] {
            let error = Address::parse(text).expect_err("refused").to_string();
            assert!(error.contains(why) && error.contains(text), "{error}");
        }
    }
}
