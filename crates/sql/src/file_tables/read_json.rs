//! `read_json`: its options, and tables of JSON files.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, plan_err};

use super::arguments::{Arguments, Value};
use super::constants::Constants;
use super::csv::{ROW_BYTES_MAX, SAMPLE_ROWS};
use super::found::FoundFile;
use super::json::{self, JsonOptions, Layout};
use super::read_csv::{SharedOptions, files, typed};
use super::table::FileTable;

/// Names of the options, for errors.
const OPTIONS: &str = "format, records, columns, sample_size, maximum_object_size, ignore_errors, \
    compression, filename, hive_partitioning, hive_types_autocast and union_by_name";

impl Default for JsonOptions {
    fn default() -> Self {
        Self {
            layout: Layout::Auto,
            columns: None,
            sample_rows: SAMPLE_ROWS,
            element_bytes_max: ROW_BYTES_MAX,
            ignore_errors: false,
            records: None,
            is_raw: false,
        }
    }
}

/// The table of a call of `read_json`.
///
/// # Errors
/// Unknown options, values of other types, missing files, and errors of the files.
pub(super) fn table(
    arguments: Arguments,
    types: &mut dyn FnMut(&str) -> Result<DataType>,
) -> Result<Arc<dyn TableProvider>> {
    of_layout(arguments, (Layout::Auto, false), types)
}

/// The table of a call of `read_ndjson`.
///
/// # Errors
/// As [`table`].
pub(super) fn table_of_lines(
    arguments: Arguments,
    types: &mut dyn FnMut(&str) -> Result<DataType>,
) -> Result<Arc<dyn TableProvider>> {
    of_layout(arguments, (Layout::Lines, false), types)
}

/// The table of a call of `read_json_objects`: the texts of the elements.
///
/// # Errors
/// As [`table`].
pub(super) fn objects(
    arguments: Arguments,
    types: &mut dyn FnMut(&str) -> Result<DataType>,
) -> Result<Arc<dyn TableProvider>> {
    of_layout(arguments, (Layout::Auto, true), types)
}

/// The table of a call of `read_ndjson_objects`.
///
/// # Errors
/// As [`table`].
pub(super) fn objects_of_lines(
    arguments: Arguments,
    types: &mut dyn FnMut(&str) -> Result<DataType>,
) -> Result<Arc<dyn TableProvider>> {
    of_layout(arguments, (Layout::Lines, true), types)
}

fn of_layout(
    mut arguments: Arguments,
    (layout, is_raw): (Layout, bool),
    types: &mut dyn FnMut(&str) -> Result<DataType>,
) -> Result<Arc<dyn TableProvider>> {
    let mut options = options(&mut arguments, layout)?;
    options.is_raw = is_raw;
    let columns = arguments.take("columns");
    options.columns =
        columns.map(|value| typed(&arguments, "columns", &value, types)).transpose()?;
    // The columns of several files are united in any case.
    let shared = SharedOptions::take(&mut arguments)?;
    arguments.finish(OPTIONS)?;
    of_files(files(&arguments.paths, &arguments.cloud)?, options, &shared)
}

/// The table of files of JSON.
///
/// # Errors
/// Errors of the files.
pub(super) fn of_files(
    files: Vec<FoundFile>,
    options: JsonOptions,
    shared: &SharedOptions,
) -> Result<Arc<dyn TableProvider>> {
    let constants = Constants::of(&files, &shared.constants)?;
    let planned = json::plan(files, shared.compression, options, constants)?;
    let columns = planned.schema.fields().iter().map(|field| field.as_ref().clone()).collect();
    let (rows, bytes) = (planned.estimated_rows(), planned.bytes());
    let constants = planned.constants.clone();
    Ok(Arc::new(FileTable::new(Arc::new(planned), columns, &constants, rows, bytes)))
}

fn options(arguments: &mut Arguments, layout: Layout) -> Result<JsonOptions> {
    let layout = match arguments.text("format")?.map(|name| name.to_ascii_lowercase()) {
        None => layout,
        Some(name) => match name.as_str() {
            "auto" => Layout::Auto,
            // One value after the other; arrays are values.
            "unstructured" => Layout::Lines,
            "array" => Layout::Array,
            "newline_delimited" | "nd" => Layout::Lines,
            _ => {
                let expected = "auto, array, newline_delimited or unstructured";
                return arguments.wrong("format", expected, &Value::Text(name));
            }
        },
    };
    let sample_rows = match arguments.integer("sample_size")? {
        None => SAMPLE_ROWS,
        Some(-1) => usize::MAX,
        Some(rows) => match usize::try_from(rows) {
            Ok(rows) if rows > 0 => rows,
            _ => return plan_err!("sample_size is a number of objects, or -1 for all, not {rows}"),
        },
    };
    let element_bytes_max = match arguments.integer("maximum_object_size")?.map(usize::try_from) {
        None => ROW_BYTES_MAX,
        Some(Ok(bytes)) => bytes,
        Some(Err(_)) => return plan_err!("maximum_object_size is a number of bytes"),
    };
    let ignore_errors = arguments.boolean("ignore_errors")?.unwrap_or(false);
    let records = match arguments.take("records") {
        None => None,
        Some(Value::Text(text)) if text.eq_ignore_ascii_case("auto") => None,
        Some(Value::Text(text)) if text.eq_ignore_ascii_case("true") => Some(true),
        Some(Value::Text(text)) if text.eq_ignore_ascii_case("false") => Some(false),
        Some(Value::Boolean(are_records)) => Some(are_records),
        Some(value) => return arguments.wrong("records", "true, false or auto", &value),
    };
    let (columns, is_raw) = (None, false);
    Ok(JsonOptions {
        layout,
        columns,
        sample_rows,
        element_bytes_max,
        ignore_errors,
        records,
        is_raw,
    })
}
