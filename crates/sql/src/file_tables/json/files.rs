//! Files of JSON: their columns, and the readers of each.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;
use terrace_functions::columns::TextType;

use super::super::constants::Constants;
use super::super::found::FoundFile;
use super::super::guess::{Guess, merged};
use super::super::input;
use super::super::scan::{Files, Reader};
use super::elements::Layout;
use super::form::{COLUMN, Form, Types};
use super::reader::{FilePlan, JsonReader};
use super::shape::Shape;

/// Options of JSON files.
#[derive(Clone, Debug)]
pub(crate) struct JsonOptions {
    pub(crate) layout: Layout,
    /// All columns with their types, which replaces inference.
    pub(crate) columns: Option<Vec<(String, DataType)>>,
    /// Number of objects from which types are inferred.
    pub(crate) sample_rows: usize,
    pub(crate) element_bytes_max: usize,
    /// Skips objects that do not fit the columns.
    pub(crate) ignore_errors: bool,
    /// True if the fields of objects are columns, false if the elements are the values of a single
    /// column; if `None`, the sampled elements decide.
    pub(crate) records: Option<bool>,
    /// True if a single column holds the text of each element (`read_json_objects`).
    pub(crate) is_raw: bool,
}

/// Files of JSON that are one table.
#[derive(Debug)]
pub(crate) struct JsonFiles {
    files: Vec<JsonFile>,
    form: Form,
    pub(crate) schema: SchemaRef,
    pub(crate) constants: Constants,
    options: JsonOptions,
    row_bytes: u64,
}

#[derive(Debug)]
struct JsonFile {
    file: FoundFile,
    compression: FileCompressionType,
}

/// Types, number and length in bytes of the elements sampled so far.
#[derive(Default)]
struct Sampled {
    types: Types,
    rows: usize,
    bytes: usize,
}

/// Plans a table of files, with the columns of all objects of the sample.
///
/// # Errors
/// Errors of files, elements that are no objects if they must be, and fields without a common type.
pub(crate) fn plan(
    files: Vec<FoundFile>,
    compression: Option<FileCompressionType>,
    options: JsonOptions,
    constants: Constants,
) -> Result<JsonFiles> {
    let compressed = files.into_iter().map(|file| {
        let compression = input::compression_of(&file, compression);
        JsonFile { file, compression }
    });
    let files: Vec<_> = compressed.collect();
    let mut sampled = Sampled::default();
    let (fields, form) = match &options.columns {
        _ if options.is_raw => (vec![TextType::Json.field(COLUMN)], Form::Raw),
        Some(columns) => {
            let fields = columns.iter();
            let field = |(name, of): &(String, DataType)| Field::new(name, of.clone(), true);
            let form = sampled.form_of_columns(columns.len(), &files, &options)?;
            (fields.map(field).collect(), form)
        }
        None => {
            for file in &files {
                sampled.read(file, options.sample_rows, &options)?;
            }
            sampled.columns(&files, &options)?
        }
    };
    let schema = Arc::new(Schema::new(fields));
    let row_bytes = sampled.bytes.checked_div(sampled.rows).unwrap_or(100).max(1);
    let row_bytes = u64::try_from(row_bytes).unwrap_or(u64::MAX);
    Ok(JsonFiles { files, form, schema, constants, options, row_bytes })
}

impl Sampled {
    /// Reads a file, until the sample has `most` elements.
    fn read(&mut self, file: &JsonFile, most: usize, options: &JsonOptions) -> Result<()> {
        let plan = FilePlan {
            name: file.file.name(),
            schema: Arc::new(Schema::empty()),
            form: Form::Record,
            layout: options.layout,
            element_bytes_max: options.element_bytes_max,
            ignore_errors: options.ignore_errors,
        };
        let mut reader =
            JsonReader::new(input::open(&file.file, file.compression)?, Arc::new(plan));
        while self.rows < most {
            let Some(block) = reader.next_elements()? else { return Ok(()) };
            for (line, element) in block.elements().take(most - self.rows) {
                self.rows += 1;
                self.bytes += element.len();
                match serde_json::from_slice(element) {
                    Ok(Shape(Guess::Struct(fields))) => {
                        self.types.has_empty |= fields.is_empty();
                        self.types.fields = merged(std::mem::take(&mut self.types.fields), fields);
                    }
                    Ok(Shape(guess)) => self.types.add(guess),
                    Err(_) if options.ignore_errors => {}
                    Err(error) => return exec_err!("{}, line {line}: {error}", file.file.name()),
                }
            }
        }
        Ok(())
    }

    /// The form of elements whose columns are given. A single column holds the elements themselves
    /// if the first element of the first file is not an object.
    fn form_of_columns(
        &mut self,
        columns: usize,
        files: &[JsonFile],
        options: &JsonOptions,
    ) -> Result<Form> {
        if columns != 1 && options.records == Some(false) {
            return plan_err!(
                "with records = false, there is one column, and columns names {columns}"
            );
        }
        if columns == 1 && options.records.is_none() {
            // Malformed elements are found when they are read.
            let lenient = JsonOptions { ignore_errors: true, ..options.clone() };
            for file in files.iter().take(1) {
                self.read(file, 1, &lenient)?;
            }
        }
        match options.records == Some(false) || self.types.has_other {
            true => Ok(Form::Value),
            false => Ok(Form::Record),
        }
    }

    /// The columns, and the form of the elements.
    fn columns(&self, files: &[JsonFile], options: &JsonOptions) -> Result<(Vec<Field>, Form)> {
        let names: Vec<String> = files.iter().map(|file| file.file.name()).collect();
        let names = names.join(", ");
        if self.rows == 0 {
            return plan_err!(
                "{names} has no values to infer columns from; name them by columns = {{'name': \
                 'type'}}"
            );
        }
        let Types { fields, has_other, .. } = &self.types;
        let skips_others = options.ignore_errors && !fields.is_empty();
        let are_records = match options.records {
            Some(true) if *has_other && !skips_others => {
                return plan_err!("{names} has values that are no objects; say records = false");
            }
            Some(are_records) => are_records,
            None => !*has_other || skips_others,
        };
        if are_records && !fields.is_empty() {
            return Ok((self.types.columns(&names)?, Form::Record));
        }
        let (column, form) = self.types.column();
        Ok((vec![column], form))
    }
}

impl JsonFiles {
    /// Number of rows, estimated from the lengths of files.
    pub(crate) fn estimated_rows(&self) -> u64 {
        self.bytes() / self.row_bytes
    }

    /// Total length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|file| file.file.bytes).fold(0, u64::saturating_add)
    }
}

impl Files for JsonFiles {
    fn format(&self) -> &str {
        "json"
    }

    fn count(&self) -> usize {
        self.files.len()
    }

    fn open(&self, file: usize, columns: &[usize]) -> Result<Box<dyn Reader>> {
        let JsonFile { file, compression } = &self.files[file];
        let plan = FilePlan {
            name: file.name(),
            schema: Arc::new(self.schema.project(columns)?),
            form: self.form,
            layout: self.options.layout,
            element_bytes_max: self.options.element_bytes_max,
            ignore_errors: self.options.ignore_errors,
        };
        Ok(Box::new(JsonReader::new(input::open(file, *compression)?, Arc::new(plan))))
    }

    fn constant(&self, file: usize, constant: usize) -> ScalarValue {
        self.constants.values[file][constant].clone()
    }
}
