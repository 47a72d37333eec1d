//! Files that a path, a pattern or a directory stands for.

use std::path::{Path, PathBuf};

use datafusion::common::{Result, plan_datafusion_err, plan_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use glob::{MatchOptions, Pattern, glob_with};
use terrace_cloud::address::Address;
use terrace_cloud::{CloudFile, CloudFiles};

/// Maximum number of files of one table.
pub(crate) const FILES_MAX: usize = 100_000;

/// The directory of the log of a Delta table, in that of the table.
pub(super) const DELTA_LOG: &str = "_delta_log";

/// A local or remote file of a table.
#[derive(Clone, Debug)]
pub(crate) struct FoundFile {
    /// The path as the statement, or the pattern in it, spells it; the address of a remote file,
    /// without the query of HTTP.
    pub(crate) path: PathBuf,
    /// Length in bytes.
    pub(crate) bytes: u64,
    /// The file on S3 or an HTTP server; `None` for a local file.
    pub(crate) remote: Option<RemoteFile>,
}

/// A file on S3 or an HTTP server, and the cache that reads it.
#[derive(Clone, Debug)]
pub(crate) struct RemoteFile {
    pub(crate) files: CloudFiles,
    pub(crate) file: CloudFile,
}

impl FoundFile {
    /// A file of the local file system.
    pub(crate) fn local(path: PathBuf, bytes: u64) -> Self {
        Self { path, bytes, remote: None }
    }

    /// A file of another machine.
    pub(crate) fn remote(files: &CloudFiles, file: CloudFile) -> Self {
        let (address, key) = (&file.address, file.address.path());
        let scheme = address.text.split("://").next().unwrap_or_default();
        let path = format!("{scheme}://{}/{key}", address.authority);
        let (path, bytes) = (path.into(), file.bytes);
        Self { path, bytes, remote: Some(RemoteFile { files: files.clone(), file }) }
    }

    /// The path or address as text.
    pub(crate) fn name(&self) -> String {
        match &self.remote {
            Some(remote) => remote.file.address.text.clone(),
            None => self.path.display().to_string(),
        }
    }

    /// The keys and values of directories such as `year=2024`, from the outermost inwards.
    pub(crate) fn partitions(&self) -> Vec<(String, String)> {
        let directories = self.path.parent().into_iter().flat_map(Path::components);
        let parts = directories.filter_map(|part| part.as_os_str().to_str()?.split_once('='));
        parts.map(|(key, value)| (key.to_owned(), value.to_owned())).collect()
    }
}

/// The format of a file's rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Delimited values.
    Csv,
    /// Values of JSON.
    Json,
    /// Parquet.
    Parquet,
}

/// Returns the format and the compression that the extensions of `path` stand for, such as
/// `.csv.gz`; `None` for an unknown extension.
pub(crate) fn kind_of(path: &Path) -> Option<(Kind, FileCompressionType)> {
    let extension = |path: &Path| {
        let extension = path.extension().and_then(|extension| extension.to_str());
        extension.unwrap_or_default().to_ascii_lowercase()
    };
    let (last, stem) = (extension(path), path.file_stem().map(Path::new));
    let compression = match last.as_str() {
        "gz" | "gzip" => FileCompressionType::GZIP,
        "zst" | "zstd" => FileCompressionType::ZSTD,
        "bz2" => FileCompressionType::BZIP2,
        "xz" => FileCompressionType::XZ,
        _ => FileCompressionType::UNCOMPRESSED,
    };
    let inner = if compression.is_compressed() { extension(stem?) } else { last };
    let kind = match inner.as_str() {
        "csv" | "tsv" => Kind::Csv,
        "json" | "ndjson" | "jsonl" => Kind::Json,
        "parquet" => Kind::Parquet,
        _ => return None,
    };
    Some((kind, compression))
}

/// The files that `pattern` stands for, in the order of their paths; empty if there are none. A
/// directory stands for the files in it and below. Remote files are found by `cloud`.
///
/// # Errors
/// Addresses that cannot be read, malformed patterns, unreadable directories, and too many files.
pub(crate) fn find(pattern: &str, cloud: &CloudFiles) -> Result<Vec<FoundFile>> {
    let failed = |error: terrace_cloud::CloudError| plan_datafusion_err!("{error}");
    match Address::parse(pattern).map_err(failed)? {
        Some(address) => {
            let files = cloud.find(&address, FILES_MAX).map_err(failed)?;
            Ok(files.into_iter().map(|file| FoundFile::remote(cloud, file)).collect())
        }
        None => find_local(pattern),
    }
}

fn find_local(pattern: &str) -> Result<Vec<FoundFile>> {
    let local = pattern.strip_prefix("file://").unwrap_or(pattern);
    let path = Path::new(local);
    // A path may contain the special characters of patterns.
    if path.is_file() {
        return Ok(vec![file(path.to_owned())?]);
    }
    if path.is_dir() {
        if path.join(DELTA_LOG).is_dir() {
            // The files of the directory have rows of old versions, too.
            return plan_err!("{pattern} is a Delta table: say delta_scan('{pattern}')");
        }
        let inside = Path::new(&Pattern::escape(local)).join("**/*").display().to_string();
        return matches(&inside, pattern);
    }
    if !local.contains(['*', '?', '[']) {
        return Ok(vec![]);
    }
    matches(local, pattern)
}

fn matches(pattern: &str, given: &str) -> Result<Vec<FoundFile>> {
    let options = MatchOptions {
        case_sensitive: true,
        require_literal_separator: true,
        require_literal_leading_dot: true,
    };
    let malformed = |error| plan_datafusion_err!("'{given}' is no pattern of files: {error}");
    let mut files = vec![];
    for found in glob_with(pattern, options).map_err(malformed)? {
        let found =
            found.map_err(|error| plan_datafusion_err!("cannot list '{given}': {error}"))?;
        if !found.is_file() {
            continue;
        }
        if files.len() == FILES_MAX {
            return plan_err!("'{given}' stands for more than {FILES_MAX} files; name fewer");
        }
        files.push(file(found)?);
    }
    Ok(files)
}

fn file(path: PathBuf) -> Result<FoundFile> {
    let metadata = std::fs::metadata(&path)
        .map_err(|error| plan_datafusion_err!("cannot read '{}': {error}", path.display()))?;
    Ok(FoundFile::local(path, metadata.len()))
}

/// The error for a pattern that stands for no file.
pub(crate) fn missing<T>(pattern: &str) -> Result<T> {
    if pattern.contains("://") && !pattern.starts_with("file://") {
        return plan_err!("{pattern} does not exist");
    }
    let directory = std::env::current_dir().map(|path| path.display().to_string());
    let directory = directory.unwrap_or_else(|_| "the current directory".to_owned());
    if pattern.contains(['*', '?', '[']) {
        return plan_err!("no file matches '{pattern}' (looked for from {directory})");
    }
    plan_err!("file {pattern} does not exist (looked for from {directory})")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(directory: &Path, pattern: &str) -> Vec<String> {
        let pattern = directory.join(pattern).display().to_string();
        let files = find_local(&pattern).expect("files");
        let inside = |file: &FoundFile| file.path.strip_prefix(directory).map(Path::to_owned);
        files.iter().map(|file| inside(file).expect("inside").display().to_string()).collect()
    }

    #[test]
    fn patterns_and_directories_stand_for_files_in_order() {
        let directory = tempfile::tempdir().expect("a directory");
        for name in ["b.csv", "a.csv", "x[1].csv", ".hidden.csv", "h/y=1/k=a b/c.csv"] {
            let path = directory.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("directories");
            std::fs::write(path, "1").expect("a file");
        }
        let at = directory.path();
        assert_eq!(names(at, "*.csv"), ["a.csv", "b.csv", "x[1].csv"]);
        assert_eq!(names(at, "[ab].csv"), ["a.csv", "b.csv"]);
        assert_eq!(names(at, "x[1].csv"), ["x[1].csv"]);
        assert_eq!(names(at, "h/**/*.csv"), ["h/y=1/k=a b/c.csv"]);
        assert_eq!(names(at, "h"), ["h/y=1/k=a b/c.csv"]);
        assert_eq!(names(at, "nosuch.csv"), [""; 0]);
        let deep = find_local(&at.join("h/").display().to_string()).expect("files");
        let parts = deep[0].partitions();
        assert_eq!(parts, [("y".into(), "1".into()), ("k".into(), "a b".into())]);
        assert_eq!(deep[0].bytes, 1);
    }

    #[test]
    fn malformed_patterns_are_refused() {
        let error = find_local("a***b").expect_err("refused").to_string();
        assert!(error.contains("no pattern") && error.contains("a***b"), "{error}");
    }

    #[test]
    fn extensions_name_formats_and_compressions() {
        let kind =
            |path: &str| kind_of(Path::new(path)).map(|(kind, by)| (kind, by.is_compressed()));
        assert_eq!(kind("a.CSV"), Some((Kind::Csv, false)));
        assert_eq!(kind("d/a.tsv.zst"), Some((Kind::Csv, true)));
        assert_eq!(kind("a.ndjson"), Some((Kind::Json, false)));
        assert_eq!(kind("a.jsonl.gz"), Some((Kind::Json, true)));
        assert_eq!(kind("a.b.parquet"), Some((Kind::Parquet, false)));
        for name in ["a", "a.gz", "a.txt", "read_csv", ""] {
            assert_eq!(kind(name), None, "{name}");
        }
    }
}
