//! Plan of a file of delimited values: its dialect, and the columns that are read from it.

use datafusion::arrow::datatypes::DataType;

use super::dialect::Dialect;
use super::numbers::NumberFormat;

/// A column that is read.
#[derive(Clone, Debug)]
pub(crate) struct ReadColumn {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    /// Its place among the values of a row; `None` if the file does not have it.
    pub(crate) place: Option<usize>,
    /// True if the type was inferred.
    pub(crate) is_inferred: bool,
}

/// Dialect and options of a file, and the columns that are read from it.
#[derive(Clone, Debug)]
pub(crate) struct FilePlan {
    /// Name of the file, for errors.
    pub(crate) name: String,
    pub(crate) dialect: Dialect,
    /// Number of values of each row.
    pub(crate) width: usize,
    pub(crate) columns: Vec<ReadColumn>,
    pub(crate) nulls: Vec<String>,
    pub(crate) quoted_nulls: bool,
    pub(crate) ignore_errors: bool,
    pub(crate) null_padding: bool,
    pub(crate) row_bytes_max: usize,
    pub(crate) numbers: NumberFormat,
    /// True for COPY, whose columns are those of a table.
    pub(crate) is_copy: bool,
}

impl FilePlan {
    /// Says that a row has another number of values than the file has columns, and what helps.
    pub(super) fn wrong_width(&self, found: usize) -> String {
        let (width, values) = (self.width, if found == 1 { "value" } else { "values" });
        let help = match self.is_copy {
            true => "name the columns of the file: COPY table (column, ...) FROM",
            false if found < width => {
                "say null_padding = true for nulls, or ignore_errors = true to skip such rows"
            }
            false => "name the right delimiter by delim, or say ignore_errors = true to skip it",
        };
        format!("the row has {found} {values}, not {width}; {help}")
    }

    /// The suggestion for a value that does not fit its column.
    pub(super) fn suggestion(&self, column: &ReadColumn) -> String {
        if self.is_copy {
            return String::new();
        }
        let name = &column.name;
        match column.is_inferred {
            true => format!(
                "; the type was inferred from the first rows: say types = {{'{name}': 'VARCHAR'}}, \
                 all_varchar = true, or sample_size = -1 to infer it from all rows"
            ),
            false => format!(
                "; say types = {{'{name}': 'VARCHAR'}}, or ignore_errors = true to skip the row"
            ),
        }
    }
}
