//! Files that COPY FROM reads: their columns are those of a table.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Schema, SchemaRef};
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, exec_err, plan_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use datafusion::datasource::provider_as_source;
use datafusion::logical_expr::{Expr, LogicalPlan, LogicalPlanBuilder, cast};

use terrace_cloud::CloudFiles;

use super::constants::ConstantOptions;
use super::csv::{self, CsvOptions};
use super::encoding::Encoding;
use super::found::FoundFile;
use super::input::compression_named;
use super::json::JsonOptions;
use super::read_csv::{self, SharedOptions, files};
use super::{read_json, read_parquet};

/// The format of the files of a COPY FROM.
#[derive(Clone, Debug)]
pub(crate) enum CopySource {
    /// Delimited values.
    Text(CopyText),
    /// Objects of JSON, whose fields are found by name.
    Json {
        /// Skips objects that do not fit the columns.
        ignore_errors: bool,
    },
    /// Parquet, whose columns are assigned to those of the table by position.
    Parquet,
}

/// Options of delimited values.
#[derive(Clone, Debug)]
pub(crate) struct CopyText {
    pub(crate) delimiter: u8,
    pub(crate) quote: u8,
    pub(crate) escape: u8,
    pub(crate) null: String,
    /// True if the first line is a header. If `None`, it is one if its values are the names of the
    /// table's columns.
    pub(crate) header: Option<bool>,
    /// True for HEADER MATCH: a header with other names than the table's columns is an error.
    pub(crate) is_header_matched: bool,
    /// True if the text for null is null in quotes, too.
    pub(crate) quoted_nulls: bool,
    pub(crate) ignore_errors: bool,
    /// True for PostgreSQL's format `text`.
    pub(crate) is_text: bool,
    pub(crate) encoding: Encoding,
}

/// The plan that reads the rows of files as rows of `schema`. Without the name of a compression,
/// the extensions of the files name it.
///
/// # Errors
/// An unknown compression, missing files, errors of the files, and columns that cannot be read from
/// them.
pub(crate) fn copied(
    path: &str,
    (source, compression): (CopySource, Option<&str>),
    schema: &SchemaRef,
    cloud: &CloudFiles,
) -> Result<LogicalPlan> {
    let compression = match compression.map(|name| (name, compression_named(name))) {
        Some((name, None)) => {
            return plan_err!("COMPRESSION is none, gzip, zstd, bzip2 or xz, not {name}");
        }
        Some((_, compression)) => compression,
        None => None,
    };
    let files = files(&[path.to_owned()], cloud)?;
    let shared = SharedOptions {
        constants: ConstantOptions { hive_partitioning: Some(false), ..Default::default() },
        compression,
        ..SharedOptions::default()
    };
    let names = schema.fields().iter();
    let columns: Vec<(String, DataType)> =
        names.map(|field| (field.name().clone(), field.data_type().clone())).collect();
    let table = match source {
        CopySource::Text(text) => {
            let options = text.options(&files, compression, columns)?;
            read_csv::of_files(files, options, &shared)?
        }
        CopySource::Json { ignore_errors } => {
            let columns = Some(columns);
            let options = JsonOptions { columns, ignore_errors, ..JsonOptions::default() };
            read_json::of_files(files, options, &shared)?
        }
        CopySource::Parquet => read_parquet::of_files(files, &shared)?,
    };
    rows(path, table, schema)
}

/// The plan that reads a table, with the names and types of `schema`.
fn rows(path: &str, table: Arc<dyn TableProvider>, schema: &Schema) -> Result<LogicalPlan> {
    let (found, expected) = (table.schema().fields().len(), schema.fields().len());
    if found != expected {
        return plan_err!(
            "'{path}' has {found} columns, and the table has {expected}; name the columns of the \
             file: COPY table (column, ...) FROM"
        );
    }
    let scan = LogicalPlanBuilder::scan("file", provider_as_source(table), None)?.build()?;
    let columns = scan.schema().columns().into_iter().zip(schema.fields());
    let columns: Vec<Expr> = columns
        .map(|(column, field)| {
            cast(Expr::Column(column), field.data_type().clone()).alias(field.name())
        })
        .collect();
    LogicalPlanBuilder::from(scan).project(columns)?.build()
}

impl CopyText {
    fn options(
        self,
        files: &[FoundFile],
        compression: Option<FileCompressionType>,
        columns: Vec<(String, DataType)>,
    ) -> Result<CsvOptions> {
        let quote = (!self.is_text).then_some(self.quote);
        let escape = (!self.is_text).then_some(self.escape);
        let mut options = CsvOptions {
            delimiter: Some(self.delimiter),
            quote: Some(quote),
            escape: Some(escape),
            header: Some(false),
            nulls: vec![self.null.clone()],
            quoted_nulls: self.quoted_nulls,
            ignore_errors: self.ignore_errors,
            is_text: self.is_text,
            is_copy: true,
            encoding: self.encoding,
            ..CsvOptions::default()
        };
        let first = match files.first() {
            Some(file) => csv::first_row(file, compression, &options)?,
            None => None,
        };
        let is_named = first.as_ref().is_some_and(|first| {
            let same = |(name, (column, _)): (&String, &(String, DataType))| {
                name.trim().eq_ignore_ascii_case(column)
            };
            first.len() == columns.len() && first.iter().zip(&columns).all(same)
        });
        if self.is_header_matched {
            match_header(first.as_deref().unwrap_or_default(), &columns)?;
        }
        options.header = Some(self.header.unwrap_or(is_named));
        options.columns = Some(columns);
        Ok(options)
    }
}

/// Compares a header with the names of the columns.
///
/// # Errors
/// Other names, or another number of them, in PostgreSQL's words.
fn match_header(header: &[String], columns: &[(String, DataType)]) -> Result<()> {
    if header.len() != columns.len() {
        let (got, expected) = (header.len(), columns.len());
        return exec_err!("wrong number of fields in header line: got {got}, expected {expected}");
    }
    for (number, (name, (column, _))) in (1..).zip(header.iter().zip(columns)) {
        if name != column {
            return exec_err!(
                "column name mismatch in header line field {number}: got \"{name}\", expected \
                 \"{column}\""
            );
        }
    }
    Ok(())
}
