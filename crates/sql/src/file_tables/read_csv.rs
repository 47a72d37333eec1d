//! `read_csv`: its options, and tables of files of delimited values.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field};
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, plan_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;

use terrace_cloud::CloudFiles;

use super::arguments::{Arguments, Value};
use super::constants::{ConstantOptions, Constants};
use super::csv::{self, CsvOptions, NumberFormat, ROW_BYTES_MAX, SAMPLE_ROWS};
use super::encoding::Encoding;
use super::found::{self, FoundFile};
use super::input;
use super::table::FileTable;

/// Names of the options, for errors.
const OPTIONS: &str = "delim, sep, quote, escape, comment, header, nullstr, allow_quoted_nulls, \
    skip, columns, names, types, all_varchar, sample_size, ignore_errors, null_padding, \
    max_line_size, encoding, decimal_separator, thousands, compression, filename, \
    hive_partitioning, hive_types_autocast and union_by_name";
/// Options of DuckDB for formats of dates and timestamps, which are refused.
const FORMATS: [&str; 2] = ["dateformat", "timestampformat"];

/// The table of a call of `read_csv`.
///
/// # Errors
/// Unknown options, values of other types, missing files, and errors of the files.
pub(super) fn table(
    mut arguments: Arguments,
    types: &mut dyn FnMut(&str) -> Result<DataType>,
) -> Result<Arc<dyn TableProvider>> {
    let mut options = options(&mut arguments)?;
    columns(&mut arguments, &mut options, types)?;
    let shared = SharedOptions::take(&mut arguments)?;
    let _sniffs = arguments.boolean("auto_detect")?;
    arguments.finish(OPTIONS)?;
    let files = files(&arguments.paths, &arguments.cloud)?;
    of_files(files, options, &shared)
}

/// Options that `read_csv`, `read_json` and `read_parquet` share.
#[derive(Debug, Default)]
pub(super) struct SharedOptions {
    pub(super) constants: ConstantOptions,
    pub(super) is_united: bool,
    pub(super) compression: Option<FileCompressionType>,
}

impl SharedOptions {
    /// Removes these options from the arguments of a call, and returns their values.
    ///
    /// # Errors
    /// Values of other types.
    pub(super) fn take(arguments: &mut Arguments) -> Result<Self> {
        let filename = arguments.filename()?;
        let hive_partitioning = arguments.boolean("hive_partitioning")?;
        let are_keys_text = arguments.boolean("hive_types_autocast")? == Some(false);
        let constants = ConstantOptions { filename, hive_partitioning, are_keys_text };
        let is_united = arguments.boolean("union_by_name")?.unwrap_or(false);
        let compression = match arguments.text("compression")? {
            Some(name)
                if !["auto", "auto_detect"].contains(&name.to_ascii_lowercase().as_str()) =>
            {
                let compression = input::compression_named(&name);
                if compression.is_none() {
                    let expected = "auto, none, gzip, zstd, bzip2 or xz";
                    return arguments.wrong("compression", expected, &Value::Text(name));
                }
                compression
            }
            _ => None,
        };
        Ok(Self { constants, is_united, compression })
    }
}

/// The files of paths and patterns.
///
/// # Errors
/// A path or pattern without files.
pub(super) fn files(paths: &[String], cloud: &CloudFiles) -> Result<Vec<FoundFile>> {
    let mut files = vec![];
    for path in paths {
        let found = found::find(path, cloud)?;
        if found.is_empty() {
            return found::missing(path);
        }
        files.extend(found);
    }
    Ok(files)
}

/// The table of files of delimited values.
///
/// # Errors
/// Errors of the files.
pub(super) fn of_files(
    files: Vec<FoundFile>,
    options: CsvOptions,
    shared: &SharedOptions,
) -> Result<Arc<dyn TableProvider>> {
    let constants = Constants::of(&files, &shared.constants)?;
    let (compression, is_united) = (shared.compression, shared.is_united);
    let planned = csv::plan(files, compression, options, is_united, constants)?;
    let field =
        |column: &csv::TableColumn| Field::new(&column.name, column.data_type.clone(), true);
    let columns = planned.columns.iter().map(field).collect();
    let (rows, bytes) = (planned.estimated_rows(), planned.bytes());
    let constants = planned.constants.clone();
    Ok(Arc::new(FileTable::new(Arc::new(planned), columns, &constants, rows, bytes)))
}

/// Removes the options without names of types from the arguments, and returns their values.
fn options(arguments: &mut Arguments) -> Result<CsvOptions> {
    for name in FORMATS {
        if arguments.take(name).is_some() {
            return plan_err!(
                "the option {name} is not supported; read the column as VARCHAR by types, and \
                 convert it, as in to_timestamp(column, format)"
            );
        }
    }
    let delimiter = match arguments.character(&["delim", "sep", "delimiter"])? {
        Some(None) => return plan_err!("the delimiter is one character of ASCII, not ''"),
        delimiter => delimiter.flatten(),
    };
    let skip = arguments.integer("skip")?.unwrap_or(0);
    let sample = arguments.integer("sample_size")?;
    let most = arguments.integer("max_line_size")?.or(arguments.integer("maximum_line_size")?);
    let row_bytes_max = most.map_or(Some(ROW_BYTES_MAX), |most| usize::try_from(most).ok());
    let (Ok(skip), Some(row_bytes_max)) = (usize::try_from(skip), row_bytes_max) else {
        return plan_err!("skip and max_line_size are numbers of lines and bytes from 0 on");
    };
    let sample_rows = match sample {
        None => SAMPLE_ROWS,
        Some(-1) => usize::MAX,
        Some(rows) => match usize::try_from(rows) {
            Ok(rows) if rows > 0 => rows,
            _ => return plan_err!("sample_size is a number of rows, or -1 for all, not {rows}"),
        },
    };
    let nulls = arguments.texts("nullstr")?.or(arguments.texts("null")?);
    Ok(CsvOptions {
        delimiter,
        quote: arguments.character(&["quote"])?,
        escape: arguments.character(&["escape"])?,
        comment: arguments.character(&["comment"])?.flatten(),
        header: arguments.boolean("header")?,
        nulls: nulls.unwrap_or_else(|| vec![String::new()]),
        quoted_nulls: arguments.boolean("allow_quoted_nulls")?.unwrap_or(true),
        skip,
        is_all_varchar: arguments.boolean("all_varchar")?.unwrap_or(false),
        sample_rows,
        ignore_errors: arguments.boolean("ignore_errors")?.unwrap_or(false),
        null_padding: arguments.boolean("null_padding")?.unwrap_or(false),
        row_bytes_max,
        encoding: encoding(arguments)?,
        numbers: numbers(arguments)?,
        names: arguments.texts("names")?.unwrap_or_default(),
        ..CsvOptions::default()
    })
}

fn encoding(arguments: &mut Arguments) -> Result<Encoding> {
    let Some(name) = arguments.text("encoding")? else { return Ok(Encoding::Utf8) };
    match Encoding::named(&name) {
        Some(encoding) => Ok(encoding),
        None => arguments.wrong("encoding", Encoding::NAMES, &Value::Text(name)),
    }
}

/// Removes the options for the separators of numbers, and returns their values.
fn numbers(arguments: &mut Arguments) -> Result<NumberFormat> {
    let decimal = match arguments.text("decimal_separator")? {
        None => '.',
        Some(text) if text == "." => '.',
        Some(text) if text == "," => ',',
        Some(text) => {
            return arguments.wrong("decimal_separator", "'.' or ','", &Value::Text(text));
        }
    };
    let thousands = arguments.character(&["thousands"])?.flatten().map(char::from);
    if thousands == Some(decimal) {
        return plan_err!(
            "thousands and decimal_separator are the same character; say another one"
        );
    }
    Ok(NumberFormat { decimal, thousands })
}

/// Removes the options for names and types of columns from the arguments, and sets them in
/// `options`; `types` resolves the name of a type.
fn columns(
    arguments: &mut Arguments,
    options: &mut CsvOptions,
    types: &mut dyn FnMut(&str) -> Result<DataType>,
) -> Result<()> {
    options.columns = arguments
        .take("columns")
        .map(|value| typed(arguments, "columns", &value, types))
        .transpose()?;
    let Some(value) =
        ["types", "dtypes", "column_types"].iter().find_map(|name| arguments.take(name))
    else {
        return Ok(());
    };
    if let Value::List(names) = &value {
        for name in names {
            let Value::Text(name) = name else {
                return arguments.wrong("types", "a list of names of types", &value);
            };
            options.type_list.push(types(name)?);
        }
        return Ok(());
    }
    options.types = typed(arguments, "types", &value, types)?;
    Ok(())
}

/// Columns with their types.
///
/// # Errors
/// A value of another type, and unknown types.
pub(super) fn typed(
    arguments: &Arguments,
    name: &str,
    value: &Value,
    types: &mut dyn FnMut(&str) -> Result<DataType>,
) -> Result<Vec<(String, DataType)>> {
    let expected = "a struct of columns and types: {'column': 'BIGINT'}";
    let Value::Struct(fields) = value else { return arguments.wrong(name, expected, value) };
    let mut columns: Vec<(String, DataType)> = vec![];
    for (column, given) in fields {
        let Value::Text(text) = given else { return arguments.wrong(name, expected, value) };
        if columns.iter().any(|(known, _)| known == column) {
            return plan_err!("{name} names the column {column} twice");
        }
        columns.push((column.clone(), types(text)?));
    }
    match columns.is_empty() {
        true => arguments.wrong(name, expected, value),
        false => Ok(columns),
    }
}
