//! Options of a COPY between a table and files.

use std::path::Path;

use datafusion::sql::sqlparser::parser::{Parser, ParserError};

use super::file_option_values::{Given, boolean, byte, names, pairs, refused, text};
use crate::file_tables::{CopySource, CopyText, Encoding};

/// A format of files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileFormat {
    /// Delimited values.
    Csv,
    /// PostgreSQL's format with backslash escapes.
    Text,
    /// JSON objects, one per line or as elements of an array.
    Json,
    /// Parquet.
    Parquet,
}

/// The options of a COPY between a table and files; `None` for those that the statement lacks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct FileOptions {
    /// True if the first line names the columns; `None` if the statement does not say so.
    pub(super) header: Option<bool>,
    /// True for HEADER MATCH: COPY FROM checks the names in the first line.
    pub(super) is_header_matched: bool,
    pub(super) delimiter: Option<u8>,
    pub(super) quote: Option<u8>,
    pub(super) escape: Option<u8>,
    pub(super) null: Option<String>,
    /// Columns whose values are always quoted; `*` stands for all.
    pub(super) force_quote: Vec<String>,
    pub(super) compression: Option<String>,
    pub(super) compression_level: Option<String>,
    pub(super) row_group_size: Option<String>,
    /// Columns whose values name the directories of the written files.
    pub(super) partition_by: Vec<String>,
    /// True for ARRAY: COPY TO writes one JSON array, not an object per line.
    pub(super) is_array: bool,
    /// True for `IGNORE_ERRORS`: COPY FROM skips rows that it cannot read.
    pub(super) ignore_errors: bool,
    /// True for `ALLOW_QUOTED_NULLS`: COPY FROM reads the text for null in quotes as null.
    pub(super) quoted_nulls: bool,
    pub(super) encoding: Encoding,
}

// Names of the options that each direction and format has.
/// Options of CSV and text files in both directions.
const OF_TEXT: &[&str] = &["header", "delimiter", "null", "encoding", "compression"];
const OF_CSV: &[&str] = &["quote", "escape"];
const OF_CSV_OUT: &[&str] = &["force_quote"];
const OF_OUT: &[&str] = &["partition_by"];
const OF_PARQUET_OUT: &[&str] = &["compression", "compression_level", "row_group_size"];
const OF_JSON: &[&str] = &["compression"];

impl FileFormat {
    /// The format of a name in a statement; `None` for an unknown name.
    fn named(name: &str) -> Option<Self> {
        match name.to_ascii_lowercase().as_str() {
            "csv" => Some(Self::Csv),
            "text" => Some(Self::Text),
            "json" | "ndjson" => Some(Self::Json),
            "parquet" => Some(Self::Parquet),
            _ => None,
        }
    }

    /// The format that the extension of a path names, before that of a compression; CSV for any
    /// other.
    fn of_path(path: &str) -> Self {
        let path = Path::new(path);
        let last = extension(path);
        let inner = path.file_stem().filter(|_| compression(path).is_some()).map(Path::new);
        match inner.map_or(last, extension).as_str() {
            "json" | "ndjson" | "jsonl" => Self::Json,
            "parquet" => Self::Parquet,
            _ => Self::Csv,
        }
    }

    /// The name of the format in DataFusion's statement.
    pub(super) fn stored_as(self) -> &'static str {
        match self {
            Self::Csv | Self::Text => "CSV",
            Self::Json => "JSON",
            Self::Parquet => "PARQUET",
        }
    }

    /// The reader configuration of a COPY FROM with these options.
    pub(super) fn source(self, options: &FileOptions) -> CopySource {
        let ignore_errors = options.ignore_errors;
        let is_text = match self {
            Self::Csv => false,
            Self::Text => true,
            Self::Json => return CopySource::Json { ignore_errors },
            Self::Parquet => return CopySource::Parquet,
        };
        let quote = options.quote.unwrap_or(b'"');
        let null = if is_text { "\\N" } else { "" };
        CopySource::Text(CopyText {
            delimiter: options.delimiter.unwrap_or(if is_text { b'\t' } else { b',' }),
            quote,
            escape: options.escape.unwrap_or(quote),
            null: options.null.clone().unwrap_or_else(|| null.to_owned()),
            header: options.header,
            is_header_matched: options.is_header_matched,
            quoted_nulls: options.quoted_nulls,
            ignore_errors,
            is_text,
            encoding: options.encoding,
        })
    }

    fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Text => "text",
            Self::Json => "json",
            Self::Parquet => "parquet",
        }
    }

    /// Names of the options of a COPY FROM (`is_in`) or TO a file of this format, except FORMAT.
    fn options(self, is_in: bool) -> Vec<&'static str> {
        let parts: &[&[&str]] = match (self, is_in) {
            (Self::Csv, true) => &[OF_TEXT, OF_CSV, &["ignore_errors", "allow_quoted_nulls"]],
            (Self::Csv, false) => &[OF_TEXT, OF_CSV, OF_CSV_OUT, OF_OUT],
            (Self::Text, true) => &[OF_TEXT],
            (Self::Text, false) => &[OF_TEXT, OF_OUT],
            (Self::Json, true) => &[OF_JSON, &["ignore_errors"]],
            (Self::Json, false) => &[OF_JSON, &["array"], OF_OUT],
            (Self::Parquet, true) => &[],
            (Self::Parquet, false) => &[OF_PARQUET_OUT, OF_OUT],
        };
        parts.concat()
    }
}

/// Parses the options behind the path of a COPY FROM (`is_in`) or TO files. Options that the
/// statement lacks are taken from the extension of `path`.
pub(super) fn read(
    parser: &mut Parser<'_>,
    is_in: bool,
    path: &str,
) -> Result<(FileFormat, FileOptions), ParserError> {
    let pairs = pairs(parser)?;
    let named = pairs.iter().find(|(name, _)| name == "format");
    let format = match named {
        Some((_, Given::Text(name))) => match FileFormat::named(name) {
            Some(format) => format,
            None => {
                let instead = "there are csv, text, json and parquet";
                return Err(refused(&format!("FORMAT {name} for files"), instead));
            }
        },
        Some(_) => return Err(refused("FORMAT without a name", "say FORMAT csv")),
        None => FileFormat::of_path(path),
    };
    let known = format.options(is_in);
    let mut options = FileOptions::default();
    let mut seen = Vec::<&str>::new();
    for (name, given) in &pairs {
        if seen.contains(&name.as_str()) {
            return Err(refused(&format!("the option {name} twice"), "say it once"));
        }
        seen.push(name);
        if name == "format" {
            continue;
        }
        if !known.contains(&name.as_str()) {
            let direction = if is_in { "FROM" } else { "TO" };
            let what = format!(
                "the option {} of COPY {direction} a file of format {}",
                name.to_uppercase(),
                format.name()
            );
            let instead = match known.is_empty() {
                true => "there are none but FORMAT".to_owned(),
                false => format!("there are FORMAT, {}", known.join(", ").to_uppercase()),
            };
            return Err(refused(&what, &instead));
        }
        options.set(name, given)?;
    }
    if !is_in && options.encoding != Encoding::Utf8 {
        return Err(refused("writing a file in another encoding than UTF-8", "use UTF8"));
    }
    if tab_separated(path) && format == FileFormat::Csv && options.delimiter.is_none() {
        options.delimiter = Some(b'\t');
    }
    if !is_in && format != FileFormat::Parquet && options.compression.is_none() {
        options.compression = compression(Path::new(path)).map(str::to_owned);
    }
    options.check(format)?;
    Ok((format, options))
}

/// The compression that the extension of a path names; `None` for any other extension.
fn compression(path: &Path) -> Option<&'static str> {
    match extension(path).as_str() {
        "gz" | "gzip" => Some("gzip"),
        "zst" | "zstd" => Some("zstd"),
        "bz2" => Some("bzip2"),
        "xz" => Some("xz"),
        _ => None,
    }
}

/// The extension of a path, in lower case.
fn extension(path: &Path) -> String {
    let extension = path.extension().and_then(|extension| extension.to_str());
    extension.unwrap_or_default().to_ascii_lowercase()
}

fn tab_separated(path: &str) -> bool {
    let path = path.to_ascii_lowercase();
    path.ends_with(".tsv") || path.contains(".tsv.")
}

impl FileOptions {
    fn set(&mut self, name: &str, given: &Given) -> Result<(), ParserError> {
        match name {
            "header" => match given {
                Given::Text(text) if text.eq_ignore_ascii_case("match") => {
                    (self.header, self.is_header_matched) = (Some(true), true);
                }
                given => self.header = Some(boolean(name, given)?),
            },
            "delimiter" => self.delimiter = Some(byte(name, given)?),
            "quote" => self.quote = Some(byte(name, given)?),
            "escape" => self.escape = Some(byte(name, given)?),
            "null" => self.null = Some(text(name, given)?),
            "force_quote" => self.force_quote = names(name, given)?,
            "partition_by" => self.partition_by = names(name, given)?,
            "compression" => self.compression = Some(text(name, given)?.to_ascii_lowercase()),
            "compression_level" => self.compression_level = Some(text(name, given)?),
            "row_group_size" => self.row_group_size = Some(text(name, given)?),
            "array" => self.is_array = boolean(name, given)?,
            "ignore_errors" => self.ignore_errors = boolean(name, given)?,
            "allow_quoted_nulls" => self.quoted_nulls = boolean(name, given)?,
            _ => {
                let encoding = text(name, given)?;
                self.encoding = Encoding::named(&encoding).ok_or_else(|| {
                    let instead = format!("there are {}", Encoding::NAMES);
                    refused(&format!("the encoding {encoding}"), &instead)
                })?;
            }
        }
        Ok(())
    }

    fn check(&self, format: FileFormat) -> Result<(), ParserError> {
        let quote = self.quote.unwrap_or(b'"');
        let delimiter = self.delimiter.unwrap_or(b',');
        if format == FileFormat::Csv && quote == delimiter {
            return Err(refused("the same character as DELIMITER and QUOTE", "name two"));
        }
        let is_special = |null: &String| null.contains(['\n', '\r']);
        if self.null.as_ref().is_some_and(is_special) {
            return Err(refused("a line end in NULL", "name a text without one"));
        }
        if format == FileFormat::Parquet && self.compression_level.is_some() {
            let levels = ["zstd", "gzip", "brotli"];
            if !self.compression.as_ref().is_some_and(|it| levels.contains(&it.as_str())) {
                let instead = "say COMPRESSION zstd, gzip or brotli too";
                return Err(refused("COMPRESSION_LEVEL", instead));
            }
        }
        if self.is_array && !self.partition_by.is_empty() {
            return Err(refused("ARRAY with PARTITION_BY", "leave one of them out"));
        }
        Ok(())
    }

    /// The options as names and values of DataFusion's COPY statement.
    pub(super) fn into_pairs(self, format: FileFormat) -> Vec<(String, String)> {
        let mut pairs: Vec<(&str, String)> = vec![];
        let character = |byte: u8| char::from(byte).to_string();
        match format {
            FileFormat::Parquet => {
                // DuckDB and PostgreSQL users name codecs without levels.
                let codec = match (self.compression, self.compression_level) {
                    (Some(codec), Some(level)) => Some(format!("{codec}({level})")),
                    (Some(codec), None) => Some(match codec.as_str() {
                        "zstd" => "zstd(3)".to_owned(),
                        "gzip" => "gzip(6)".to_owned(),
                        "brotli" => "brotli(1)".to_owned(),
                        "none" => "uncompressed".to_owned(),
                        _ => codec,
                    }),
                    (None, _) => None,
                };
                pairs.extend(codec.map(|codec| ("compression", codec)));
                let size = self.row_group_size.map(|size| ("max_row_group_size", size));
                pairs.extend(size);
            }
            FileFormat::Csv | FileFormat::Text | FileFormat::Json => {
                pairs.extend(self.header.map(|header| ("has_header", header.to_string())));
                pairs.extend(self.delimiter.map(|byte| ("delimiter", character(byte))));
                pairs.extend(self.quote.map(|byte| ("quote", character(byte))));
                pairs.extend(self.escape.map(|byte| ("escape", character(byte))));
                pairs.extend(self.null.map(|null| ("null_value", null)));
                pairs.extend(self.compression.map(|name| ("compression", name)));
                if !self.force_quote.is_empty() {
                    pairs.push(("force_quote", self.force_quote.join("\n")));
                }
                if self.is_array {
                    pairs.push(("array", "true".to_owned()));
                }
                if format == FileFormat::Text {
                    pairs.push(("text", "true".to_owned()));
                }
            }
        }
        let pairs = pairs.into_iter().map(|(key, value)| (format!("format.{key}"), value));
        let mut pairs: Vec<_> = pairs.collect();
        // One file under the very name that is given, whatever its extension.
        let is_single = self.partition_by.is_empty().to_string();
        pairs.push(("single_file_output".to_owned(), is_single));
        pairs
    }
}
