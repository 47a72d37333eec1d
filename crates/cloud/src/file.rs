//! A version of a remote file.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Utc};
use object_store::ObjectMeta;
use object_store::path::Path as StorePath;

use crate::address::Address;
use crate::error::CloudError;

/// A version of a remote file: its address, length, entity tag and time of the last change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudFile {
    /// The address.
    pub address: Address,
    /// Length in bytes.
    pub bytes: u64,
    /// The entity tag (`ETag`) that the server sends for the version, if any.
    pub tag: Option<String>,
    /// Time of the last change; the time at which the file was found if the server gives neither a
    /// time nor a tag.
    pub modified: DateTime<Utc>,
}

impl CloudFile {
    pub(crate) fn new(address: Address, meta: &ObjectMeta) -> Self {
        let (bytes, tag) = (meta.size, meta.e_tag.clone());
        // Without a tag and a time, a changed file would keep its version. The time of the
        // statement makes later statements ignore blocks that were cached before.
        let is_unknown = tag.is_none() && meta.last_modified == DateTime::UNIX_EPOCH;
        let modified = if is_unknown { Utc::now() } else { meta.last_modified };
        Self { address, bytes, tag, modified }
    }

    /// Returns the identity of the version, part of the keys of its cached blocks: length, time of
    /// the last change in milliseconds, entity tag and address.
    pub(crate) fn version(&self) -> Arc<str> {
        let tag = self.tag.as_deref().unwrap_or_default();
        let (bytes, millis) = (self.bytes, self.modified.timestamp_millis());
        format!("{bytes}\n{millis}\n{tag}\n{}", self.address.text).into()
    }

    /// Returns the file as an object of a [`crate::VersionStore`]; its path is the file's name and
    /// the encoded version.
    #[must_use]
    pub fn object(&self) -> ObjectMeta {
        let name = self.address.path().rsplit('/').next().unwrap_or_default();
        let version = URL_SAFE_NO_PAD.encode(self.version().as_bytes());
        ObjectMeta {
            location: StorePath::from_iter([name, version.as_str()]),
            last_modified: self.modified,
            size: self.bytes,
            e_tag: self.tag.clone(),
            version: None,
        }
    }

    /// Returns the file of a path that [`CloudFile::object`] has made.
    ///
    /// # Errors
    /// [`CloudError::Address`] for any other path.
    pub(crate) fn of_object(location: &StorePath) -> Result<Self, CloudError> {
        let failed = || CloudError::Address {
            address: location.to_string(),
            reason: "it is no version of a file".to_owned(),
        };
        let last = location.parts().next_back().ok_or_else(failed)?;
        let version = URL_SAFE_NO_PAD.decode(last.as_ref()).map_err(|_| failed())?;
        let version = String::from_utf8(version).map_err(|_| failed())?;
        let mut parts = version.splitn(4, '\n');
        let mut next = || parts.next().ok_or_else(failed);
        let (bytes, millis, tag, address) = (next()?, next()?, next()?, next()?);
        let millis = millis.parse().map_err(|_| failed())?;
        Ok(Self {
            address: Address::parse(address)?.ok_or_else(failed)?,
            bytes: bytes.parse().map_err(|_| failed())?,
            tag: (!tag.is_empty()).then(|| tag.to_owned()),
            modified: DateTime::from_timestamp_millis(millis).ok_or_else(failed)?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_carry_the_version_of_their_file() {
        let address = "s3://b/a%20b/x [1].parquet";
        let address = Address::parse(address).expect("valid").expect("an address");
        let modified = DateTime::from_timestamp_millis(1_700_000_000_123).expect("a time");
        let file = CloudFile { address, bytes: 42, tag: Some("\"t\"".to_owned()), modified };
        assert_eq!(CloudFile::of_object(&file.object().location).expect("decoded"), file);
        let bare = CloudFile { tag: None, ..file.clone() };
        assert_eq!(CloudFile::of_object(&bare.object().location).expect("decoded"), bare);
        assert_ne!(file.version(), bare.version());
        assert!(CloudFile::of_object(&StorePath::from("a/b")).is_err());
    }
    #[test]
    fn files_without_tag_and_time_are_of_the_version_of_their_statement() {
        let address = Address::parse("http://h/a.csv").expect("valid").expect("an address");
        let (location, last_modified) = (StorePath::from("a.csv"), DateTime::UNIX_EPOCH);
        let meta = ObjectMeta { location, last_modified, size: 3, e_tag: None, version: None };
        let before = Utc::now();
        assert!(CloudFile::new(address.clone(), &meta).modified >= before);
        let tagged = ObjectMeta { e_tag: Some("t".to_owned()), ..meta };
        assert_eq!(CloudFile::new(address, &tagged).modified, last_modified);
    }
}
