//! `read_text` and `read_blob`: whole files as rows.

use std::io::Read as _;
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use datafusion::arrow::array::{
    ArrayRef, BinaryArray, Int64Array, StringViewArray, TimestampMicrosecondArray,
};
use datafusion::arrow::datatypes::{DataType, Field, TimeUnit};
use datafusion::catalog::TableProvider;
use datafusion::common::{Result, ScalarValue, exec_datafusion_err, exec_err};

use super::arguments::Arguments;
use super::constants::Constants;
use super::found::{self, FoundFile};
use super::input;
use super::scan::{Block, Decoded, Files, Reader};
use super::table::FileTable;

/// Maximum length of a value in bytes.
const CONTENT_BYTES_MAX: u64 = (1 << 31) - 1;
/// Minimum length of a content, in bytes, that memory is reserved for, since the content can be
/// longer than the metadata of the file says, as in `/proc`.
const CONTENT_BYTES_MIN: u64 = 1 << 20;
/// Time zone of the column `last_modified`.
const UTC: &str = "UTC";

/// The columns, as in DuckDB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    Filename,
    Content,
    Size,
    LastModified,
}

impl Column {
    const ALL: [Self; 4] = [Self::Filename, Self::Content, Self::Size, Self::LastModified];

    fn field(self, is_text: bool) -> Field {
        let (name, data_type) = match self {
            Self::Filename => ("filename", DataType::Utf8View),
            Self::Content if is_text => ("content", DataType::Utf8View),
            Self::Content => ("content", DataType::Binary),
            Self::Size => ("size", DataType::Int64),
            Self::LastModified => {
                let zone = Some(UTC.into());
                ("last_modified", DataType::Timestamp(TimeUnit::Microsecond, zone))
            }
        };
        Field::new(name, data_type, true)
    }
}

/// Files that are rows of one table.
#[derive(Debug)]
struct WholeFiles {
    files: Vec<FoundFile>,
    is_text: bool,
}

/// The table of a call of `read_text`.
///
/// # Errors
/// Options, of which there are none, and malformed patterns.
pub(super) fn texts(
    arguments: Arguments,
    _types: &mut dyn FnMut(&str) -> Result<DataType>,
) -> Result<Arc<dyn TableProvider>> {
    table(&arguments, true)
}

/// The table of a call of `read_blob`.
///
/// # Errors
/// As [`texts`].
pub(super) fn blobs(
    arguments: Arguments,
    _types: &mut dyn FnMut(&str) -> Result<DataType>,
) -> Result<Arc<dyn TableProvider>> {
    table(&arguments, false)
}

/// A path or pattern without files has no rows, as in DuckDB.
fn table(arguments: &Arguments, is_text: bool) -> Result<Arc<dyn TableProvider>> {
    arguments.finish("none")?;
    let mut files = vec![];
    for path in &arguments.paths {
        files.extend(found::find(path, &arguments.cloud)?);
    }
    let rows = u64::try_from(files.len()).unwrap_or(u64::MAX);
    let bytes = files.iter().map(|file| file.bytes).fold(0, u64::saturating_add);
    let columns = Column::ALL.map(|column| column.field(is_text)).to_vec();
    let files = Arc::new(WholeFiles { files, is_text });
    Ok(Arc::new(FileTable::new(files, columns, &Constants::default(), rows, bytes)))
}

impl Files for WholeFiles {
    fn format(&self) -> &str {
        if self.is_text { "text" } else { "blob" }
    }

    fn count(&self) -> usize {
        self.files.len()
    }

    fn open(&self, file: usize, columns: &[usize]) -> Result<Box<dyn Reader>> {
        let columns: Vec<_> = columns.iter().map(|column| Column::ALL[*column]).collect();
        let (file, is_text) = (self.files[file].clone(), self.is_text);
        if columns.contains(&Column::Content) && file.bytes > CONTENT_BYTES_MAX {
            return exec_err!(
                "{} has {} bytes, and a value at most {CONTENT_BYTES_MAX}; split the file",
                file.name(),
                file.bytes
            );
        }
        Ok(Box::new(WholeReader(Some(WholeFile { file, columns, is_text }))))
    }

    fn constant(&self, _file: usize, _constant: usize) -> ScalarValue {
        ScalarValue::Null
    }
}

/// Reader of a file that is one row.
struct WholeReader(Option<WholeFile>);

impl Reader for WholeReader {
    fn next_block(&mut self) -> Result<Option<Box<dyn Block>>> {
        Ok(self.0.take().map(|file| Box::new(file) as _))
    }
}

/// The row of a file, which is read when it is decoded.
struct WholeFile {
    file: FoundFile,
    columns: Vec<Column>,
    is_text: bool,
}

impl Block for WholeFile {
    fn bytes(&self) -> usize {
        // The bytes, and the column that they are copied to.
        let bytes = usize::try_from(self.content_bytes()).unwrap_or(usize::MAX);
        if self.columns.contains(&Column::Content) { bytes.saturating_mul(2) } else { 0 }
    }

    fn decode(&self) -> Result<Decoded> {
        let columns = self.columns.iter().map(|column| self.column(*column));
        Ok(Decoded { columns: columns.collect::<Result<_>>()?, rows: 1 })
    }
}

impl WholeFile {
    fn column(&self, column: Column) -> Result<ArrayRef> {
        Ok(match column {
            Column::Filename => Arc::new(StringViewArray::from(vec![Some(self.file.name())])),
            Column::Content if self.is_text => {
                let Ok(text) = String::from_utf8(self.content()?) else {
                    return exec_err!(
                        "the content of {} is not UTF-8; say read_blob",
                        self.file.name()
                    );
                };
                Arc::new(StringViewArray::from(vec![Some(text)]))
            }
            Column::Content => Arc::new(BinaryArray::from(vec![self.content()?.as_slice()])),
            Column::Size => Arc::new(Int64Array::from(vec![i64::try_from(self.file.bytes).ok()])),
            Column::LastModified => {
                let times = TimestampMicrosecondArray::from(vec![self.last_modified()?]);
                Arc::new(times.with_timezone(UTC))
            }
        })
    }

    /// Maximum length of the content, for which the scan reserves memory.
    fn content_bytes(&self) -> u64 {
        self.file.bytes.max(CONTENT_BYTES_MIN)
    }

    fn content(&self) -> Result<Vec<u8>> {
        let (name, most) = (self.file.name(), self.content_bytes());
        let failed = |error| exec_datafusion_err!("cannot read {name}: {error}");
        let mut content = Vec::with_capacity(usize::try_from(self.file.bytes).unwrap_or(0));
        let mut file = input::open_raw(&self.file)?.take(most + 1);
        file.read_to_end(&mut content).map_err(failed)?;
        if u64::try_from(content.len()).is_ok_and(|read| read > most) {
            return exec_err!("{name} has more than {most} bytes, the length that it had before");
        }
        Ok(content)
    }

    /// The time of the last change in microseconds since 1970; `None` for a remote file.
    fn last_modified(&self) -> Result<Option<i64>> {
        if self.file.remote.is_some() {
            return Ok(None);
        }
        let failed = |error| exec_datafusion_err!("cannot read {}: {error}", self.file.name());
        let modified = std::fs::metadata(&self.file.path).and_then(|it| it.modified());
        let since = modified.map_err(failed)?.duration_since(UNIX_EPOCH);
        Ok(since.ok().and_then(|since| i64::try_from(since.as_micros()).ok()))
    }
}
