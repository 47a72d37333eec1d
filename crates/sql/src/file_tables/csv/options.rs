//! Options of delimited values.

use datafusion::arrow::datatypes::DataType;

use super::super::encoding::Encoding;
use super::numbers::NumberFormat;

/// Number of rows from which dialect and types are inferred, as in DuckDB.
pub(crate) const SAMPLE_ROWS: usize = 20_480;
/// Maximum length of a row in bytes.
pub(crate) const ROW_BYTES_MAX: usize = 16 << 20;

/// Options of delimited values; `None` stands for a property that is inferred.
#[derive(Clone, Debug)]
pub(crate) struct CsvOptions {
    pub(crate) delimiter: Option<u8>,
    /// The quote; `Some(None)` if there is none.
    pub(crate) quote: Option<Option<u8>>,
    /// The escape; `Some(None)` if there is none.
    pub(crate) escape: Option<Option<u8>>,
    pub(crate) comment: Option<u8>,
    pub(crate) header: Option<bool>,
    /// Texts that stand for a null.
    pub(crate) nulls: Vec<String>,
    /// True if a quoted text may stand for a null, too.
    pub(crate) quoted_nulls: bool,
    /// Number of lines that are skipped at the beginning of each file.
    pub(crate) skip: usize,
    /// All columns with their types, which replaces inference.
    pub(crate) columns: Option<Vec<(String, DataType)>>,
    /// Names of the first columns.
    pub(crate) names: Vec<String>,
    /// Types of columns by name.
    pub(crate) types: Vec<(String, DataType)>,
    /// Types of the first columns.
    pub(crate) type_list: Vec<DataType>,
    pub(crate) is_all_varchar: bool,
    pub(crate) sample_rows: usize,
    /// Skips rows that do not fit the columns.
    pub(crate) ignore_errors: bool,
    /// Completes short rows by nulls.
    pub(crate) null_padding: bool,
    pub(crate) row_bytes_max: usize,
    pub(crate) encoding: Encoding,
    pub(crate) numbers: NumberFormat,
    /// True for PostgreSQL's format `text`: values are not quoted, and backslashes escape.
    pub(crate) is_text: bool,
    /// True for COPY, whose columns are those of a table.
    pub(crate) is_copy: bool,
}

impl Default for CsvOptions {
    fn default() -> Self {
        Self {
            delimiter: None,
            quote: None,
            escape: None,
            comment: None,
            header: None,
            nulls: vec![String::new()],
            quoted_nulls: true,
            skip: 0,
            columns: None,
            names: vec![],
            types: vec![],
            type_list: vec![],
            is_all_varchar: false,
            sample_rows: SAMPLE_ROWS,
            ignore_errors: false,
            null_padding: false,
            row_bytes_max: ROW_BYTES_MAX,
            encoding: Encoding::Utf8,
            numbers: NumberFormat::default(),
            is_text: false,
            is_copy: false,
        }
    }
}
