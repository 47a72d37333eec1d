//! Encoders of rows as text.

use std::collections::HashMap;
use std::fmt;

use datafusion::arrow::datatypes::Schema;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;

use super::super::input::compression_named;
use super::csv::CsvEncoder;
use super::interface::Encoder;
use super::json::JsonEncoder;

/// Options of a text format.
#[derive(Clone, Debug)]
pub(super) struct TextOptions {
    kind: Kind,
    pub(super) compression: FileCompressionType,
    pub(super) compression_level: Option<u32>,
}

#[derive(Clone, Debug)]
enum Kind {
    Csv(CsvEncoder),
    Json(JsonEncoder),
}

impl TextOptions {
    /// Reads the options of delimited values; `None` if only DataFusion's writer knows one of them.
    ///
    /// # Errors
    /// Values of other types.
    pub(super) fn csv(options: &HashMap<String, String>) -> Result<Option<Self>> {
        let is_text = options.get("format.text").is_some_and(|value| value == "true");
        let mut encoder = if is_text { CsvEncoder::TEXT } else { CsvEncoder::CSV };
        if is_text {
            encoder.null = "\\N".to_owned();
        }
        let (compression, compression_level) = (compression(options)?, level(options)?);
        let mut escape = None;
        for (name, value) in options {
            match name.as_str() {
                "format.has_header" | "format.header" => encoder.has_header = boolean(name, value)?,
                "format.delimiter" => encoder.delimiter = byte(name, value)?,
                "format.quote" => encoder.quote = byte(name, value)?,
                "format.escape" => escape = Some(byte(name, value)?),
                "format.null_value" => encoder.null.clone_from(value),
                "format.force_quote" => {
                    encoder.force_quote = value.lines().map(str::to_owned).collect();
                }
                "format.text" | "format.compression" | "format.compression_level" => {}
                "execution.keep_partition_by_columns" => {}
                _ => return Ok(None),
            }
        }
        encoder.escape = escape.unwrap_or(encoder.quote);
        Ok(Some(Self { kind: Kind::Csv(encoder), compression, compression_level }))
    }

    /// Reads the options of JSON; `None` if only DataFusion's writer knows one of them.
    ///
    /// # Errors
    /// Values of other types.
    pub(super) fn json(options: &HashMap<String, String>) -> Result<Option<Self>> {
        let mut encoder = JsonEncoder::default();
        let (compression, compression_level) = (compression(options)?, level(options)?);
        for (name, value) in options {
            match name.as_str() {
                "format.array" => encoder.is_array = boolean(name, value)?,
                "format.compression" | "format.compression_level" => {}
                "execution.keep_partition_by_columns" => {}
                _ => return Ok(None),
            }
        }
        Ok(Some(Self { kind: Kind::Json(encoder), compression, compression_level }))
    }

    /// An encoder of one file.
    pub(super) fn encoder(&self) -> Box<dyn Encoder> {
        match &self.kind {
            Kind::Csv(encoder) => Box::new(encoder.clone()),
            Kind::Json(encoder) => Box::new(encoder.clone()),
        }
    }

    /// Refuses options that name a column that `schema` does not have.
    ///
    /// # Errors
    /// If there are any.
    pub(super) fn check(&self, schema: &Schema) -> Result<()> {
        let Kind::Csv(encoder) = &self.kind else { return Ok(()) };
        let is_known = |name: &String| name == "*" || schema.column_with_name(name).is_some();
        match encoder.force_quote.iter().find(|name| !is_known(name)) {
            Some(name) => plan_err!("FORCE_QUOTE names the column {name}, which is not copied"),
            None => Ok(()),
        }
    }
}

impl fmt::Display for TextOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &self.kind {
            Kind::Csv(_) => "csv",
            Kind::Json(_) => "json",
        })
    }
}

fn boolean(name: &str, value: &str) -> Result<bool> {
    match value.to_ascii_lowercase().as_str() {
        "true" | "on" | "1" => Ok(true),
        "false" | "off" | "0" => Ok(false),
        _ => plan_err!("{name} is true or false, not '{value}'"),
    }
}

fn byte(name: &str, value: &str) -> Result<u8> {
    match value.as_bytes() {
        [byte] if byte.is_ascii() => Ok(*byte),
        _ => plan_err!("{name} is one character of ASCII, not '{value}'"),
    }
}

/// The compression that the options name.
fn compression(options: &HashMap<String, String>) -> Result<FileCompressionType> {
    let Some(name) = options.get("format.compression") else {
        return Ok(FileCompressionType::UNCOMPRESSED);
    };
    match compression_named(name) {
        Some(compression) => Ok(compression),
        None if name.is_empty() => Ok(FileCompressionType::UNCOMPRESSED),
        None => plan_err!("COMPRESSION is none, gzip, zstd, bzip2 or xz, not {name}"),
    }
}

fn level(options: &HashMap<String, String>) -> Result<Option<u32>> {
    let Some(level) = options.get("format.compression_level") else { return Ok(None) };
    match level.parse() {
        Ok(level) => Ok(Some(level)),
        Err(_) => plan_err!("COMPRESSION_LEVEL is a number, not {level}"),
    }
}
