//! Suggestions for SQL spelled differently in other databases.

use datafusion::common::DataFusionError;
use terrace_table::error::SqlError;

/// The parser's error for a text, or one with a better suggestion.
pub(super) fn of_parse_error(text: &str, error: DataFusionError) -> SqlError {
    let copies_from = text.split(';').any(|statement| {
        let words: Vec<String> =
            statement.split_whitespace().map(str::to_ascii_lowercase).collect();
        let [first, .., _] = words.as_slice() else { return false };
        first == "copy" && words.iter().any(|word| word == "from") && !words.contains(&"to".into())
    });
    if copies_from && error.to_string().contains("found: FROM") {
        return SqlError::Refused {
            what: "COPY ... FROM".to_owned(),
            instead: "say INSERT INTO table SELECT * FROM 'file'".to_owned(),
        };
    }
    error.into()
}

/// The error for a missing table whose name looks like the path of a missing local file.
pub(crate) fn of_missing_table(name: &str) -> Option<String> {
    let extension = name.rsplit_once('.').map(|(_, extension)| extension.to_ascii_lowercase());
    let is_file = extension.is_some_and(|extension| EXTENSIONS.contains(&extension.as_str()));
    let is_local = !name.contains("://") && !name.contains('*');
    if !(is_local && (is_file || name.contains('/'))) || std::path::Path::new(name).exists() {
        return None;
    }
    let directory = std::env::current_dir().map(|path| path.display().to_string());
    let directory = directory.unwrap_or_else(|_| "the current directory".to_owned());
    Some(format!("file {name} does not exist (looked for from {directory})"))
}

/// Extensions of files that can be queried.
const EXTENSIONS: [&str; 10] =
    ["parquet", "csv", "tsv", "json", "ndjson", "arrow", "gz", "bz2", "xz", "zst"];

#[cfg(test)]
mod tests {
    use super::*;

    fn hint(text: &str, found: &str) -> String {
        of_parse_error(text, DataFusionError::Plan(format!("found: {found}"))).to_string()
    }

    #[test]
    fn copy_from_is_told_from_other_errors() {
        assert!(hint("SELECT 1; copy t FROM 'x.csv'", "FROM").contains("INSERT INTO"));
        assert!(!hint("COPY (SELECT 1 FROM t) TO 'x' FROM", "FROM").contains("INSERT INTO"));
        assert!(!hint("SELECT FROM FROM t", "FROM").contains("INSERT INTO"));
        assert!(!hint("COPY t FROM 'x'", "EOF").contains("INSERT INTO"));
    }

    #[test]
    fn only_paths_of_missing_local_files_are_named() {
        assert!(of_missing_table("no/such.parquet").is_some());
        assert!(of_missing_table("missing.csv").is_some());
        for name in ["orders", "s3://bucket/x.parquet", "no/such/*.parquet", "/", "v1.2"] {
            assert_eq!(of_missing_table(name), None, "{name}");
        }
    }
}
