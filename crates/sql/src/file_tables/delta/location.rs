//! The directory of a table, and the files that URLs of its log stand for.

use std::path::Path;

use chrono::DateTime;
use datafusion::common::{Result, plan_datafusion_err, plan_err};
use terrace_cloud::address::{Address, Scheme};
use terrace_cloud::{CloudFile, CloudFiles};
use url::Url;

use crate::file_tables::constants::decoded;
use crate::file_tables::found::{DELTA_LOG, FoundFile};

/// The directory of a table.
#[derive(Clone, Debug)]
pub(super) struct Location {
    /// The path or address as the statement spells it.
    pub(super) name: String,
    /// The URL, which ends with a slash.
    pub(super) root: Url,
    /// Files of other machines.
    pub(super) cloud: CloudFiles,
}

impl Location {
    /// The directory of a path or address.
    ///
    /// # Errors
    /// A path that is no directory, and addresses that have no lists of files.
    pub(super) fn of(name: &str, cloud: &CloudFiles) -> Result<Self> {
        let address = Address::parse(name).map_err(|error| plan_datafusion_err!("{error}"))?;
        let root = match address {
            Some(address) if address.scheme == Scheme::Http => {
                return plan_err!(
                    "Delta table {name} is not read: HTTP has no lists of files, which a log \
                     needs; name a table of S3 or of this machine"
                );
            }
            Some(address) => of_bucket(&address),
            None => of_directory(name)?,
        };
        match root {
            Some(root) => Ok(Self { name: name.to_owned(), root, cloud: cloud.clone() }),
            None => plan_err!("'{name}' is no path or address of a directory"),
        }
    }

    /// True for a directory of another machine.
    pub(super) fn is_remote(&self) -> bool {
        self.root.scheme() != "file"
    }
}

/// The URL of a key of S3, as a directory.
fn of_bucket(address: &Address) -> Option<Url> {
    let mut url = Url::parse(&format!("s3://{}/", address.authority)).ok()?;
    let parts = address.key.split('/').filter(|part| !part.is_empty());
    url.path_segments_mut().ok()?.extend(parts).push("");
    Some(url)
}

/// The URL of a directory of this machine.
fn of_directory(name: &str) -> Result<Option<Url>> {
    let path = Path::new(name.strip_prefix("file://").unwrap_or(name));
    if path.is_file() {
        return plan_err!(
            "no Delta table at {name}: it is a file; name the directory of a table, or call \
             read_parquet"
        );
    }
    if !path.is_dir() {
        return plan_err!("no Delta table at {name}: there is no such directory");
    }
    let absolute = std::fs::canonicalize(path);
    let absolute = absolute.map_err(|error| plan_datafusion_err!("cannot read {name}: {error}"))?;
    let mut directories = absolute.ancestors();
    match directories.find(|directory| directory.join(DELTA_LOG).is_dir()) {
        Some(table) if table != absolute => {
            let table = table.display();
            return plan_err!("no Delta table at {name}: it is within the one at {table}");
        }
        _ => {}
    }
    Ok(Url::from_directory_path(absolute).ok())
}

/// The address of the file of a URL, other than one of this machine.
///
/// # Errors
/// A scheme that no client reads.
pub(super) fn address_of(url: &Url) -> Result<Address> {
    let text = match url.scheme() {
        // Keys of S3 are not encoded.
        scheme if scheme.starts_with("s3") => {
            let key = decoded(url.path().strip_prefix('/').unwrap_or_default());
            format!("s3://{}/{key}", url.host_str().unwrap_or_default())
        }
        _ => url.to_string(),
    };
    match Address::parse(&text).map_err(|error| plan_datafusion_err!("{error}"))? {
        Some(address) => Ok(address),
        None => plan_err!("'{url}' is no address of a file"),
    }
}

/// The file of a URL, of this length and time of the last change in milliseconds.
///
/// # Errors
/// A scheme that no client reads.
pub(super) fn file_of(
    cloud: &CloudFiles,
    url: &Url,
    bytes: u64,
    modified_millis: i64,
) -> Result<FoundFile> {
    if url.scheme() == "file" {
        return match url.to_file_path() {
            Ok(path) => Ok(FoundFile::local(path, bytes)),
            Err(()) => plan_err!("'{url}' is no path of this machine"),
        };
    }
    let address = address_of(url)?;
    let modified = DateTime::from_timestamp_millis(modified_millis).unwrap_or_default();
    Ok(FoundFile::remote(cloud, CloudFile { address, bytes, tag: None, modified }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn root(address: &str) -> Url {
        let address = Address::parse(address).expect("valid").expect("an address");
        of_bucket(&address).expect("a URL")
    }

    #[test]
    fn keys_are_encoded_in_urls_and_decoded_again() {
        assert_eq!(root("s3://lake/t/x y%").as_str(), "s3://lake/t/x%20y%25/");
        assert_eq!(root("s3a://lake/t/").as_str(), "s3://lake/t/");
        assert_eq!(root("s3://lake").as_str(), "s3://lake/");
        let file = root("s3://lake/t").join("p=a%252Fb/x%20y.parquet").expect("a URL");
        assert_eq!(address_of(&file).expect("an address").key, "t/p=a%2Fb/x y.parquet");
        let other = Url::parse("abfss://c@host/t/x.parquet").expect("a URL");
        let error = address_of(&other).expect_err("another scheme").to_string();
        assert!(error.contains("abfss:// is not supported"), "{error}");
    }

    #[test]
    fn paths_of_this_machine_are_encoded_too() {
        let directory = tempfile::tempdir().expect("a directory");
        let path = directory.path().join("x y%");
        std::fs::create_dir(&path).expect("a directory");
        let url = of_directory(&path.display().to_string()).expect("a URL").expect("a URL");
        assert!(url.as_str().ends_with("/x%20y%25/"), "{url}");
        let missing = directory.path().join("nosuch").display().to_string();
        let error = of_directory(&missing).expect_err("missing").to_string();
        assert!(error.contains("nosuch: there is no such directory"), "{error}");
    }
}
