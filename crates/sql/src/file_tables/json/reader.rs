//! Reader of a JSON file: splits it into blocks of elements, and decodes them into columns.

use std::io::Read;
use std::ops::Range;
use std::sync::Arc;

use datafusion::arrow::array::{ArrayRef, RecordBatch, RecordBatchOptions, StringViewBuilder};
use datafusion::arrow::compute::concat_batches;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json::ReaderBuilder;
use datafusion::common::{Result, exec_datafusion_err, exec_err};
use serde::de::IgnoredAny;

use super::super::scan::{Block, Decoded, Reader};
use super::elements::{Layout, Splitter, Step};
use super::form::{COLUMN, Form, compact};

/// Number of elements, or of bytes, that completes a block.
const BLOCK_ROWS: usize = 8_192;
const BLOCK_BYTES: usize = 256 << 10;

/// Properties of a JSON file, and the columns that are read from it.
#[derive(Debug)]
pub(super) struct FilePlan {
    /// Name of the file, for errors.
    pub(super) name: String,
    /// The columns that are read.
    pub(super) schema: SchemaRef,
    pub(super) form: Form,
    pub(super) layout: Layout,
    pub(super) element_bytes_max: usize,
    /// Skips elements that do not fit the columns.
    pub(super) ignore_errors: bool,
}

/// Reader of a JSON file.
pub(super) struct JsonReader {
    input: Box<dyn Read + Send>,
    plan: Arc<FilePlan>,
    splitter: Splitter,
    buffer: Vec<u8>,
    is_end: bool,
    /// Number of the line at the beginning of the buffer, from 1.
    line: u64,
}

impl JsonReader {
    pub(super) fn new(input: Box<dyn Read + Send>, plan: Arc<FilePlan>) -> Self {
        let splitter = Splitter::new(plan.layout);
        Self { input, plan, splitter, buffer: vec![], is_end: false, line: 1 }
    }

    /// Reads more bytes: as many as there are already, so that a long element is searched for its
    /// end a few times only.
    fn fill(&mut self) -> Result<()> {
        let more = self.buffer.len().max(BLOCK_BYTES);
        let mut input = self.input.by_ref().take(u64::try_from(more).unwrap_or(u64::MAX));
        let failed = |error| exec_datafusion_err!("cannot read {}: {error}", self.plan.name);
        let read = input.read_to_end(&mut self.buffer).map_err(failed)?;
        self.is_end = read < more;
        Ok(())
    }

    /// Returns the next elements; `None` at the end of the file.
    ///
    /// # Errors
    /// Errors of the file, elements that are too long, and bytes between them.
    pub(super) fn next_elements(&mut self) -> Result<Option<JsonBlock>> {
        let (mut at, mut elements) = (0, Vec::<Range<usize>>::new());
        while elements.len() < BLOCK_ROWS && at < BLOCK_BYTES {
            match self.splitter.step(&self.buffer, at, self.is_end) {
                Step::Skip(next) => at = next,
                Step::Element { start, end } => {
                    elements.push(start..end);
                    at = end;
                }
                Step::End if elements.is_empty() => return Ok(None),
                Step::End => break,
                Step::Incomplete => {
                    let most = self.plan.element_bytes_max;
                    if self.buffer.len() - at > most {
                        let what = format!(
                            "the value has more than {most} bytes; say maximum_object_size = a \
                             greater number of bytes"
                        );
                        return self.refuse(at, &what);
                    }
                    if !elements.is_empty() {
                        break;
                    }
                    // Bytes in front of the element need not be kept.
                    self.line += lines_in(&self.buffer[..at]);
                    self.buffer.drain(..at);
                    at = 0;
                    self.fill()?;
                }
                Step::Malformed(at, what) => return self.refuse(at, what),
            }
        }
        let rest = self.buffer.split_off(at);
        let bytes = std::mem::replace(&mut self.buffer, rest);
        let line = self.line;
        self.line += lines_in(&bytes);
        Ok(Some(JsonBlock { plan: Arc::clone(&self.plan), bytes, elements, line }))
    }

    fn refuse<T>(&self, at: usize, what: &str) -> Result<T> {
        let line = self.line + lines_in(&self.buffer[..at]);
        exec_err!("{}, line {line}: {what}", self.plan.name)
    }
}

impl Reader for JsonReader {
    fn next_block(&mut self) -> Result<Option<Box<dyn Block>>> {
        Ok(self.next_elements()?.map(|block| Box::new(block) as _))
    }
}

/// A block of consecutive elements of a file, which are not decoded yet.
pub(super) struct JsonBlock {
    plan: Arc<FilePlan>,
    bytes: Vec<u8>,
    elements: Vec<Range<usize>>,
    /// Number of the line at the beginning of the bytes.
    line: u64,
}

impl Block for JsonBlock {
    fn bytes(&self) -> usize {
        // The bytes, the decoder's copy of them, and the decoded columns.
        3 * self.bytes.capacity() + self.elements.capacity() * size_of::<Range<usize>>()
    }

    fn decode(&self) -> Result<Decoded> {
        let batch = match self.batch(&self.elements) {
            Ok(batch) => batch,
            Err(_) => self.decode_each()?,
        };
        Ok(Decoded { rows: batch.num_rows(), columns: batch.columns().to_vec() })
    }
}

impl JsonBlock {
    /// The elements, each with the number of its line.
    pub(super) fn elements(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let (mut line, mut counted) = (self.line, 0);
        self.elements.iter().map(move |range| {
            line += lines_in(&self.bytes[counted..range.start]);
            counted = range.start;
            (line, &self.bytes[range.clone()])
        })
    }

    /// Decodes `elements`, ranges of the block's bytes, into the columns of the plan.
    fn batch(&self, elements: &[Range<usize>]) -> Result<RecordBatch, ArrowError> {
        let (before, behind) = match self.plan.form {
            Form::Record => (String::new(), ""),
            Form::Value => {
                let name = self.plan.schema.fields().first();
                let name = name.map_or(COLUMN, |field| field.name().as_str());
                (format!("{{{}:", serde_json::Value::from(name)), "}")
            }
            Form::Json | Form::Raw => return self.texts(elements),
        };
        let mut decoder = ReaderBuilder::new(Arc::clone(&self.plan.schema))
            .with_batch_size(elements.len().max(1))
            .with_coerce_primitive(true)
            .build_decoder()?;
        for element in elements {
            let bytes = &self.bytes[element.clone()];
            // Null in place of an object is one without fields.
            let is_null = bytes == b"null" && self.plan.form == Form::Record;
            let bytes: &[u8] = if is_null { b"{}" } else { bytes };
            decoder.decode(before.as_bytes())?;
            let decoded = decoder.decode(bytes)?;
            decoder.decode(behind.as_bytes())?;
            if decoded < bytes.len() || decoder.has_partial_record() {
                return Err(ArrowError::JsonError("it is malformed".to_owned()));
            }
        }
        let batch = decoder.flush()?;
        Ok(batch.unwrap_or_else(|| RecordBatch::new_empty(Arc::clone(&self.plan.schema))))
    }

    /// Returns `elements` as texts, after checking that they are JSON.
    fn texts(&self, elements: &[Range<usize>]) -> Result<RecordBatch, ArrowError> {
        let json_error = |error: &dyn std::fmt::Display| ArrowError::JsonError(error.to_string());
        let mut texts = StringViewBuilder::with_capacity(elements.len());
        for element in elements {
            let bytes = &self.bytes[element.clone()];
            serde_json::from_slice::<IgnoredAny>(bytes).map_err(|error| json_error(&error))?;
            let text = std::str::from_utf8(bytes).map_err(|error| json_error(&error))?;
            match (self.plan.form, text) {
                (Form::Raw, text) => texts.append_value(text),
                (_, "null") => texts.append_null(),
                (_, text) => texts.append_value(compact(text)),
            }
        }
        let texts: ArrayRef = Arc::new(texts.finish());
        let schema = Arc::clone(&self.plan.schema);
        let columns = schema.fields().iter().map(|_| Arc::clone(&texts)).collect();
        let options = RecordBatchOptions::new().with_row_count(Some(elements.len()));
        RecordBatch::try_new_with_options(schema, columns, &options)
    }

    /// Decodes the elements one by one: skips those that do not fit the columns if the plan ignores
    /// errors, and otherwise returns an error with the line of the first.
    fn decode_each(&self) -> Result<RecordBatch> {
        let mut batches = vec![];
        for (element, (line, _)) in self.elements.iter().zip(self.elements()) {
            match self.batch(std::slice::from_ref(element)) {
                Ok(batch) => batches.push(batch),
                Err(_) if self.plan.ignore_errors => {}
                Err(error) => return exec_err!("{}, line {line}: {}", self.plan.name, why(&error)),
            }
        }
        Ok(concat_batches(&self.plan.schema, &batches)?)
    }
}

/// The reason of a decoder's error, and what helps.
fn why(error: &ArrowError) -> String {
    let text = match error {
        ArrowError::JsonError(text) => text.clone(),
        error => error.to_string(),
    };
    format!(
        "{text}; name the type of the column by columns = {{'name': 'type'}}, or say \
         ignore_errors = true to skip such objects"
    )
}

/// Number of line ends.
fn lines_in(bytes: &[u8]) -> u64 {
    let ends = bytes.iter().filter(|byte| **byte == b'\n').count();
    u64::try_from(ends).unwrap_or(u64::MAX)
}
