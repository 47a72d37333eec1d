//! Files of delimited values: their columns, and the readers of each.

use std::sync::Arc;

use datafusion::arrow::datatypes::DataType;
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;

use super::super::constants::Constants;
use super::super::found::FoundFile;
use super::super::guess::Guess;
use super::super::input;
use super::super::scan::{Files, Reader};
use super::decode::is_readable;
use super::dialect::Dialect;
use super::options::CsvOptions;
use super::plan::{FilePlan, ReadColumn};
use super::reader::CsvReader;
use super::sniff::{Sample, Sniffed, header_names, sniff};

/// Number of files whose samples determine the columns, as in DuckDB; with `union_by_name`, the
/// samples of all files do.
const FILES_SNIFFED: usize = 10;

/// A column of the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct TableColumn {
    pub(crate) name: String,
    pub(crate) data_type: DataType,
    is_inferred: bool,
}

/// Files of delimited values that are one table.
#[derive(Debug)]
pub(crate) struct CsvFiles {
    files: Vec<CsvFile>,
    pub(crate) columns: Vec<TableColumn>,
    pub(crate) constants: Constants,
    options: CsvOptions,
    is_united: bool,
    /// Mean length of a row in bytes.
    row_bytes: u64,
}

#[derive(Debug)]
struct CsvFile {
    file: FoundFile,
    compression: FileCompressionType,
    dialect: Dialect,
    has_header: bool,
}

/// Plans a table of files. With `is_united`, it has the columns of all files, by name.
///
/// # Errors
/// Errors of files, files without columns or with different ones, and options that do not fit them.
pub(crate) fn plan(
    files: Vec<FoundFile>,
    compression: Option<FileCompressionType>,
    options: CsvOptions,
    is_united: bool,
    constants: Constants,
) -> Result<CsvFiles> {
    let names = files.iter().map(FoundFile::name).collect::<Vec<_>>().join(", ");
    let most = if is_united { files.len() } else { FILES_SNIFFED };
    let mut samples: Vec<Sniffed> = vec![];
    let mut planned: Vec<CsvFile> = vec![];
    for file in files {
        let by = input::compression_of(&file, compression);
        let sniffed = match samples.len() < most {
            true => Some(sniff_file(&file, by, &options)?),
            false => None,
        };
        let shape = sniffed.as_ref().or(samples.first());
        let (dialect, has_header) =
            shape.map_or((Dialect::CSV, true), |shape| (shape.dialect, shape.has_header));
        if let Some(sniffed) = sniffed.filter(|sniffed| !sniffed.names.is_empty()) {
            if !is_united && options.columns.is_none() {
                same_columns(samples.first(), &sniffed, &file, planned.first())?;
            }
            samples.push(sniffed);
        } else if file.bytes > 0 && samples.is_empty() && planned.is_empty() {
            // A file of blank lines; others may have columns.
            tracing::debug!(file = file.name(), "a file without columns");
        }
        planned.push(CsvFile { file, compression: by, dialect, has_header });
    }
    let columns = match &options.columns {
        Some(columns) => columns
            .iter()
            .map(|(name, data_type)| TableColumn {
                name: name.clone(),
                data_type: data_type.clone(),
                is_inferred: false,
            })
            .collect(),
        None if samples.is_empty() => {
            return plan_err!(
                "{names} has no rows to infer columns from; name them by columns = {{'name': \
                 'type'}}"
            );
        }
        None => inferred(&samples, &options)?,
    };
    for column in &columns {
        if !is_readable(&column.data_type) {
            return plan_err!(
                "column {} of type {} cannot be read from delimited values; read it as VARCHAR",
                column.name,
                column.data_type
            );
        }
    }
    let row_bytes = samples.first().map_or(100, |sniffed| sniffed.row_bytes);
    Ok(CsvFiles { files: planned, columns, constants, options, is_united, row_bytes })
}

/// Infers the properties of a file from its first rows.
fn sniff_file(
    file: &FoundFile,
    compression: FileCompressionType,
    options: &CsvOptions,
) -> Result<Sniffed> {
    let (bytes, is_whole) = input::sample(file, compression, options.encoding)?;
    let mut rest = bytes.as_slice();
    for _ in 0..options.skip {
        let end = rest.iter().position(|byte| *byte == b'\n').map_or(rest.len(), |end| end + 1);
        rest = &rest[end..];
    }
    let mut sniffed = sniff(Sample { bytes: rest, is_whole }, options);
    let is_partial = !is_whole && sniffed.rows < options.sample_rows;
    let is_typed = options.columns.is_some() || options.is_all_varchar;
    if is_partial && !is_typed && !sniffed.names.is_empty() {
        guess_rows(file, compression, options, &mut sniffed)?;
    }
    Ok(sniffed)
}

/// The values of the first row of a file; `None` if it has none.
///
/// # Errors
/// Errors of the file, and a malformed row.
pub(crate) fn first_row(
    file: &FoundFile,
    compression: Option<FileCompressionType>,
    options: &CsvOptions,
) -> Result<Option<Vec<String>>> {
    let compression = input::compression_of(file, compression);
    let sniffed = sniff_file(file, compression, options)?;
    let plan = file_plan(file, &sniffed.dialect, options);
    let input = input::open_as(file, compression, options.encoding)?;
    let mut reader = CsvReader::new(input, Arc::new(plan));
    reader.row(|dialect, bytes, values| {
        let text = |value| String::from_utf8_lossy(&dialect.content(bytes, value)).into_owned();
        values.iter().map(text).collect()
    })
}

/// Infers the types from more rows than a sample has.
fn guess_rows(
    file: &FoundFile,
    compression: FileCompressionType,
    options: &CsvOptions,
    sniffed: &mut Sniffed,
) -> Result<()> {
    let mut plan = file_plan(file, &sniffed.dialect, options);
    plan.width = sniffed.names.len();
    plan.ignore_errors = true;
    let input = input::open_as(file, compression, options.encoding)?;
    let mut reader = CsvReader::new(input, Arc::new(plan));
    reader.skip_lines(options.skip)?;
    if sniffed.has_header {
        reader.row(|_, _, _| ())?;
    }
    let mut left = options.sample_rows;
    while left > 0 {
        let Some(block) = reader.next_rows()? else { return Ok(()) };
        left = left.saturating_sub(block.guess(&mut sniffed.guesses, left));
    }
    Ok(())
}

/// Refuses a file whose columns differ from those of the first one.
fn same_columns(
    first: Option<&Sniffed>,
    sniffed: &Sniffed,
    file: &FoundFile,
    first_file: Option<&CsvFile>,
) -> Result<()> {
    let (Some(first), Some(first_file)) = (first, first_file) else { return Ok(()) };
    differing(&first.names, &sniffed.names, file, &first_file.file)
}

fn differing(
    expected: &[String],
    found: &[String],
    file: &FoundFile,
    first: &FoundFile,
) -> Result<()> {
    let missing: Vec<&str> = lacking(found, expected);
    let added: Vec<&str> = lacking(expected, found);
    if missing.is_empty() && added.is_empty() {
        return Ok(());
    }
    let list = |what: &str, names: &[&str]| match names.is_empty() {
        true => String::new(),
        false => format!("{what} {}", names.join(", ")),
    };
    let differences = [list("lacks", &missing), list("has also", &added)];
    let differences: Vec<_> = differences.iter().filter(|text| !text.is_empty()).cloned().collect();
    exec_err!(
        "{} has other columns than {}: it {}; say union_by_name = true to read the columns of all \
         files, as in read_csv('*.csv', union_by_name = true)",
        file.name(),
        first.name(),
        differences.join(" and ")
    )
}

/// Returns the elements of `names` that are not in `among`.
fn lacking<'a>(among: &[String], names: &'a [String]) -> Vec<&'a str> {
    names.iter().filter(|name| !among.contains(name)).map(String::as_str).collect()
}

/// The columns that are inferred from samples, with the names and types that the options set.
fn inferred(samples: &[Sniffed], options: &CsvOptions) -> Result<Vec<TableColumn>> {
    let mut columns: Vec<(String, Guess)> = vec![];
    for sniffed in samples {
        let guesses = sniffed.names.iter().cloned().zip(sniffed.guesses.iter().cloned());
        columns = super::super::guess::merged(columns, guesses.collect());
    }
    if options.names.len() > columns.len() {
        return plan_err!("{} names for {} columns", options.names.len(), columns.len());
    }
    if options.type_list.len() > columns.len() {
        return plan_err!("{} types for {} columns", options.type_list.len(), columns.len());
    }
    for (name, given) in columns.iter_mut().map(|(name, _)| name).zip(&options.names) {
        given.clone_into(name);
    }
    if let Some((unknown, _)) =
        options.types.iter().find(|(name, _)| !columns.iter().any(|(known, _)| known == name))
    {
        let names: Vec<&str> = columns.iter().map(|(name, _)| name.as_str()).collect();
        return plan_err!(
            "types names the column {unknown}, which the file does not have; its columns are {}",
            names.join(", ")
        );
    }
    let columns = columns.into_iter().enumerate();
    Ok(columns
        .map(|(place, (name, guess))| {
            let named = options.types.iter().find(|(known, _)| *known == name);
            let given = named.map(|(_, data_type)| data_type).or(options.type_list.get(place));
            let inferred = guess.data_type().filter(|_| !options.is_all_varchar);
            let data_type = given.cloned().or(inferred).unwrap_or(DataType::Utf8View);
            TableColumn { name, data_type, is_inferred: given.is_none() }
        })
        .collect())
}

/// The plan of a file, with no columns to read yet.
fn file_plan(file: &FoundFile, dialect: &Dialect, options: &CsvOptions) -> FilePlan {
    FilePlan {
        name: file.name(),
        dialect: *dialect,
        width: 0,
        columns: vec![],
        nulls: options.nulls.clone(),
        quoted_nulls: options.quoted_nulls,
        ignore_errors: options.ignore_errors,
        null_padding: options.null_padding,
        row_bytes_max: options.row_bytes_max,
        numbers: options.numbers,
        is_copy: options.is_copy,
    }
}

impl CsvFiles {
    /// Number of rows, estimated from the lengths of files.
    pub(crate) fn estimated_rows(&self) -> u64 {
        /// Assumed compression ratio.
        const COMPRESSION: u64 = 4;
        let bytes = self.files.iter().map(|file| {
            let factor = if file.compression.is_compressed() { COMPRESSION } else { 1 };
            file.file.bytes.saturating_mul(factor)
        });
        bytes.fold(0, u64::saturating_add) / self.row_bytes.max(1)
    }

    /// Total length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.file.bytes).fold(0, u64::saturating_add)
    }

    /// True if the values of a row are in the order of the table's columns, whatever the header.
    fn is_positional(&self) -> bool {
        self.options.columns.is_some() || !self.options.names.is_empty()
    }

    /// For each column of the table, its position in a file with this header, or `None` if the file
    /// does not have it; and the number of values in a row of the file.
    fn places(
        &self,
        file: &FoundFile,
        header: Option<&[String]>,
    ) -> Result<(Vec<Option<usize>>, usize)> {
        let count = self.columns.len();
        let Some(header) = header.filter(|_| !self.is_positional()) else {
            return Ok(((0..count).map(Some).collect(), count));
        };
        let names: Vec<String> = self.columns.iter().map(|column| column.name.clone()).collect();
        if let (false, Some(first)) = (self.is_united, self.files.first()) {
            differing(&names, header, file, &first.file)?;
        }
        let place = |name| header.iter().position(|known| known == name);
        Ok((names.iter().map(place).collect(), header.len()))
    }
}

impl Files for CsvFiles {
    fn format(&self) -> &str {
        "csv"
    }

    fn count(&self) -> usize {
        self.files.len()
    }

    fn open(&self, file: usize, columns: &[usize]) -> Result<Box<dyn Reader>> {
        let CsvFile { file, compression, dialect, has_header } = &self.files[file];
        let mut plan = file_plan(file, dialect, &self.options);
        let input = input::open_as(file, *compression, self.options.encoding)?;
        let mut reader = CsvReader::new(input, Arc::new(plan.clone()));
        reader.skip_lines(self.options.skip)?;
        let header = match has_header {
            true => reader.row(header_names)?,
            false => None,
        };
        if *has_header && header.is_none() {
            // An empty file has no columns to compare.
            return Ok(Box::new(reader));
        }
        let (places, width) = self.places(file, header.as_deref())?;
        plan.width = width;
        plan.columns = columns
            .iter()
            .map(|column| {
                let TableColumn { name, data_type, is_inferred } = self.columns[*column].clone();
                ReadColumn { name, data_type, place: places[*column], is_inferred }
            })
            .collect();
        reader.set_plan(Arc::new(plan));
        Ok(Box::new(reader))
    }

    fn constant(&self, file: usize, constant: usize) -> ScalarValue {
        self.constants.values[file][constant].clone()
    }
}
