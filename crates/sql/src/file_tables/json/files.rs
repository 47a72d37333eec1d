//! Files of JSON: their columns, and the readers of each.

use std::sync::Arc;

use datafusion::arrow::datatypes::{DataType, Field, Schema, SchemaRef};
use datafusion::common::{Result, ScalarValue, exec_err, plan_err};
use datafusion::datasource::file_format::file_compression_type::FileCompressionType;

use super::super::constants::Constants;
use super::super::found::FoundFile;
use super::super::guess::{Guess, merged};
use super::super::input;
use super::super::scan::{Files, Reader};
use super::elements::Layout;
use super::reader::{FilePlan, JsonReader};
use super::shape::Shape;

/// Options of JSON.
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
}

/// Files of JSON that are one table.
#[derive(Debug)]
pub(crate) struct JsonFiles {
    files: Vec<(FoundFile, FileCompressionType)>,
    pub(crate) schema: SchemaRef,
    pub(crate) constants: Constants,
    options: JsonOptions,
    row_bytes: u64,
}

/// The types of the objects read so far.
#[derive(Default)]
struct Sampled {
    fields: Vec<(String, Guess)>,
    rows: usize,
    bytes: usize,
}

/// Plans a table of files, with the columns of all objects of the sample.
///
/// # Errors
/// Errors of files, elements that are no objects, and fields without a common type.
pub(crate) fn plan(
    files: Vec<FoundFile>,
    compression: Option<FileCompressionType>,
    options: JsonOptions,
    constants: Constants,
) -> Result<JsonFiles> {
    let compressed = files.into_iter().map(|file| {
        let compression = input::compression_of(&file, compression);
        (file, compression)
    });
    let files: Vec<_> = compressed.collect();
    let mut sampled = Sampled::default();
    let fields = match &options.columns {
        Some(columns) => {
            let fields = columns.iter();
            fields.map(|(name, data_type)| Field::new(name, data_type.clone(), true)).collect()
        }
        None => {
            for (file, compression) in &files {
                sampled.read(file, *compression, &options)?;
            }
            sampled.fields(&files)?
        }
    };
    let schema = Arc::new(Schema::new(fields));
    let row_bytes = sampled.bytes.checked_div(sampled.rows).unwrap_or(100).max(1);
    let row_bytes = u64::try_from(row_bytes).unwrap_or(u64::MAX);
    Ok(JsonFiles { files, schema, constants, options, row_bytes })
}

impl Sampled {
    /// Reads a file, until the sample has enough objects.
    fn read(
        &mut self,
        file: &FoundFile,
        compression: FileCompressionType,
        options: &JsonOptions,
    ) -> Result<()> {
        let plan = file_plan(file, options, Arc::new(Schema::empty()));
        let mut reader = JsonReader::new(input::open(file, compression)?, Arc::new(plan));
        while self.rows < options.sample_rows {
            let Some(block) = reader.next_elements()? else { return Ok(()) };
            for (line, element) in block.elements().take(options.sample_rows - self.rows) {
                self.rows += 1;
                self.bytes += element.len();
                match serde_json::from_slice(element) {
                    Ok(Shape(Guess::Struct(fields))) => {
                        self.fields = merged(std::mem::take(&mut self.fields), fields);
                    }
                    _ if options.ignore_errors => {}
                    Ok(Shape(Guess::Null)) => {}
                    Ok(_) => {
                        return exec_err!(
                            "{}, line {line}: the value is no object, and only objects have \
                             columns",
                            file.name()
                        );
                    }
                    Err(error) => {
                        return exec_err!("{}, line {line}: {error}", file.name());
                    }
                }
            }
        }
        Ok(())
    }

    /// The columns.
    fn fields(&self, files: &[(FoundFile, FileCompressionType)]) -> Result<Vec<Field>> {
        let names: Vec<String> = files.iter().map(|(file, _)| file.name()).collect();
        let names = names.join(", ");
        if self.fields.is_empty() {
            return plan_err!(
                "{names} has no objects to infer columns from; name them by columns = {{'name': \
                 'type'}}"
            );
        }
        let mut fields = vec![];
        for (name, guess) in &self.fields {
            let Some(data_type) = guess.data_type() else {
                return plan_err!(
                    "the field {name} of {names} is an object or an array in some rows only, and \
                     has no type; name the other columns by columns = {{'name': 'type'}}"
                );
            };
            fields.push(Field::new(name, data_type, true));
        }
        Ok(fields)
    }
}

fn file_plan(file: &FoundFile, options: &JsonOptions, schema: SchemaRef) -> FilePlan {
    FilePlan {
        name: file.name(),
        schema,
        layout: options.layout,
        element_bytes_max: options.element_bytes_max,
        ignore_errors: options.ignore_errors,
    }
}

impl JsonFiles {
    /// Number of rows, estimated from the lengths of files.
    pub(crate) fn estimated_rows(&self) -> u64 {
        self.bytes() / self.row_bytes
    }

    /// Total length in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.files.iter().map(|(file, _)| file.bytes).fold(0, u64::saturating_add)
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
        let (file, compression) = &self.files[file];
        let schema = Arc::new(self.schema.project(columns)?);
        let plan = file_plan(file, &self.options, schema);
        Ok(Box::new(JsonReader::new(input::open(file, *compression)?, Arc::new(plan))))
    }

    fn constant(&self, file: usize, constant: usize) -> ScalarValue {
        self.constants.values[file][constant].clone()
    }
}
