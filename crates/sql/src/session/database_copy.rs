//! EXPORT DATABASE and IMPORT DATABASE, as in DuckDB.
//!
//! ```text
//! EXPORT DATABASE 'directory' (FORMAT parquet);
//! IMPORT DATABASE 'directory';
//! ```

use std::fmt;

use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use super::file_option_values::refused;
use super::file_options::{FileFormat, FileOptions, read};
use super::words::{is_word, take_all};

/// EXPORT DATABASE, which writes a database as files, or IMPORT DATABASE, which reads them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DatabaseCopy {
    pub(super) directory: String,
    /// Format and options of the files of rows; `None` for IMPORT.
    pub(super) export: Option<(FileFormat, FileOptions)>,
}

/// Returns true if EXPORT DATABASE or IMPORT DATABASE follows.
pub(super) fn is_next(parser: &Parser<'_>) -> bool {
    let [first, second] = [0, 1].map(|n| &parser.peek_nth_token_ref(n).token);
    is_word(second, "database") && (is_word(first, "export") || is_word(first, "import"))
}

/// Parses the statement that [`is_next`] has found.
///
/// # Errors
/// Parser errors; an error for a URL instead of a directory, and for `PARTITION_BY`.
pub(super) fn parse(parser: &mut Parser<'_>) -> Result<DatabaseCopy, ParserError> {
    let is_export = take_all(parser, &["export"]);
    let _import = take_all(parser, &["import"]);
    parser.next_token();
    let directory = parser.parse_literal_string()?;
    let statement = if is_export { "EXPORT DATABASE" } else { "IMPORT DATABASE" };
    if directory.contains("://") {
        let what = format!("{statement} '{directory}'");
        return Err(refused(&what, "name a directory of this machine"));
    }
    if !is_export {
        return Ok(DatabaseCopy { directory, export: None });
    }
    let (format, options) = read(parser, false, "tables.csv")?;
    if !options.partition_by.is_empty() {
        return Err(refused("EXPORT DATABASE with PARTITION_BY", "say COPY for such a table"));
    }
    Ok(DatabaseCopy { directory, export: Some((format, options)) })
}

/// Returns true if ATTACH follows.
pub(super) fn is_attach(parser: &Parser<'_>) -> bool {
    is_word(&parser.peek_nth_token_ref(0).token, "attach")
}

/// The error for ATTACH.
pub(super) fn refuse_attach(parser: &mut Parser<'_>) -> ParserError {
    parser.next_token();
    let _optional = take_all(parser, &["database"]);
    let _optional = take_all(parser, &["if", "not", "exists"]);
    let place = match parser.parse_literal_string() {
        Ok(place) => format!(" '{place}'"),
        Err(_) => String::new(),
    };
    let instead = "a session has one database, and catalogs of DuckLake are not read: say IMPORT \
                   DATABASE, or read files by read_parquet";
    refused(&format!("ATTACH{place}"), instead)
}

impl fmt::Display for DatabaseCopy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verb = if self.export.is_some() { "EXPORT" } else { "IMPORT" };
        write!(f, "{verb} DATABASE '{}'", self.directory.replace('\'', "''"))
    }
}
